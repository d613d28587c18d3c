//! Package protection rules.

use storage::entities::package_protection_rules;

use crate::views::enums::Convert;
use contract::PackageProtectionRule;

/// Returns a rule.
#[must_use]
pub fn protection_rule(rule: package_protection_rules::Model) -> PackageProtectionRule {
    PackageProtectionRule {
        id: rule.id,
        project_id: rule.project_id,
        package_name_pattern: rule.name_pattern,
        package_type: rule.package_type.convert(),
        minimum_access_level_for_push: rule.push_level.map(Convert::convert),
        minimum_access_level_for_delete: rule.delete_level.map(Convert::convert),
    }
}
