//! Protection of packages: rules that require an access level for uploads or deletions
//! (`docs/adr/0070-check-crates-before-they-are-published.md`).

pub mod rules;

use parsers::cargo::CrateName;
use parsers::pypi::normalize;
use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use storage::entities::package_protection_rules::{Column, Model, ProtectionLevel, of_project};
use storage::entities::packages::{self, PackageType};

use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::patterns::matches_pattern;
use crate::kernel::policy::Role;

/// A change of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageChange {
    /// A version or file is added, or clients select another version from now on.
    Push,
    /// A package or file is deleted.
    Delete,
}

/// The name of a package in a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProtectedName<'a> {
    /// The format.
    pub package_type: PackageType,
    /// The name.
    pub name: &'a str,
    /// The name in the form that the format compares.
    pub lookup_name: &'a str,
}

impl<'a> ProtectedName<'a> {
    /// Returns the name of a package.
    #[must_use]
    pub fn of(package: &'a packages::Model) -> Self {
        Self {
            package_type: package.package_type,
            name: &package.name,
            lookup_name: &package.lookup_name,
        }
    }

    /// Returns whether a pattern matches the name, or another spelling of it.
    fn matches(&self, pattern: &str) -> bool {
        matches_pattern(pattern, self.name)
            || matches_pattern(&compared_form(self.package_type, pattern), self.lookup_name)
    }
}

/// Returns a name or pattern in the form that a format compares.
fn compared_form(kind: PackageType, text: &str) -> String {
    match kind {
        PackageType::Generic | PackageType::Npm | PackageType::Maven => text.to_owned(),
        PackageType::Pypi => normalize(text),
        PackageType::Cargo => CrateName::canonical_form(text),
    }
}

/// Checks that the rules of the project allow a change. Rules are created, changed and deleted under the lock of the project's
/// row, so the result is exact in a transaction that has this lock.
///
/// # Errors
/// Returns `Error::Forbidden` if a rule does not allow the change.
pub async fn check(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    name: ProtectedName<'_>,
    change: PackageChange,
) -> Result<()> {
    let rules = of_project(access.project.id)
        .filter(Column::PackageType.eq(name.package_type))
        .all(db)
        .await?;
    match is_allowed(&rules, access, name, change) {
        true => Ok(()),
        false => Err(Error::forbidden_because(match change {
            PackageChange::Push => "Package protected.",
            PackageChange::Delete => "Package is deletion protected.",
        })),
    }
}

/// Returns whether a rule of the project requires an access level for deletions of a package.
pub(super) fn is_deletion_protected(rules: &[Model], name: ProtectedName<'_>) -> bool {
    rules.iter().any(|rule| {
        rule.package_type == name.package_type
            && rule.delete_level.is_some()
            && name.matches(&rule.name_pattern)
    })
}

/// Returns whether all rules that match the name allow the change.
fn is_allowed(
    rules: &[Model],
    access: &ProjectAccess,
    name: ProtectedName<'_>,
    change: PackageChange,
) -> bool {
    let mut levels = rules.iter().filter_map(|rule| {
        let level = match change {
            PackageChange::Push => rule.push_level,
            PackageChange::Delete => rule.delete_level,
        };
        level.filter(|_| name.matches(&rule.name_pattern))
    });
    levels.all(|level| has_level(access, level))
}

/// Returns whether a caller has an access level. Deploy tokens and job tokens have none.
fn has_level(access: &ProjectAccess, level: ProtectionLevel) -> bool {
    let caller = &access.caller;
    if caller.deploy_token().is_some() || caller.job_project().is_some() {
        return false;
    }
    match level {
        ProtectionLevel::Maintainer => access.has_role(Role::Maintainer),
        ProtectionLevel::Owner => access.has_role(Role::Owner),
        ProtectionLevel::Admin => caller.is_admin(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(package_type: PackageType, pattern: &str, name: &str) -> bool {
        let lookup_name = compared_form(package_type, name);
        let name = ProtectedName {
            package_type,
            name,
            lookup_name: &lookup_name,
        };
        name.matches(pattern)
    }

    #[test]
    fn pattern_matches_every_spelling_of_a_name() {
        for (kind, pattern, name, expected) in [
            (PackageType::Generic, "engine*", "engine-x", true),
            (PackageType::Generic, "engine*", "Engine-x", false),
            (PackageType::Npm, "@engines/*", "@engines/web", true),
            (PackageType::Npm, "@engines/*", "@Engines/web", false),
            (PackageType::Npm, "*", "web", true),
            (PackageType::Pypi, "Analytical_Engine", "analytical.engine", true),
            (PackageType::Pypi, "analytical*", "Analytical-Engine", true),
            (PackageType::Pypi, "a.-*", "A--_b", true),
            (PackageType::Pypi, "a--*-b", "a--x-b", true),
            (PackageType::Pypi, "analytical-engine", "analyticalengine", false),
            (PackageType::Cargo, "Gear-*", "gear_ratio", true),
            (PackageType::Cargo, "gear_ratio", "GEAR-RATIO", true),
            (PackageType::Cargo, "gear-ratio", "gearratio", false),
            (
                PackageType::Maven,
                "com/engines/*",
                "com/engines/gear/ratio",
                true,
            ),
            (PackageType::Maven, "com/engines/*", "com/Engines/gear", false),
        ] {
            assert_eq!(matches(kind, pattern, name), expected, "{pattern} {name}");
        }
    }

    /// A matcher that tries every combination would not end.
    #[test]
    fn hostile_patterns_end() {
        let pattern = "a*".repeat(127);
        for _ in 0..1_000 {
            assert!(!matches(
                PackageType::Pypi,
                &format!("{pattern}b"),
                &"a".repeat(255)
            ));
        }
    }
}
