//! Rules that protect packages of a project.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::packages::protection::rules::{self, NewProtectionRule, ProtectionRuleChanges};

use crate::api::routes::PackageProtectionRulesApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::enums::Convert;
use crate::views::packages::protection_rule::protection_rule;
use contract::{
    CreatePackageProtectionRuleRequest, DeletePackageProtectionRuleRequest, PackageProtectionRule,
    UpdatePackageProtectionRuleRequest,
};

impl PackageProtectionRulesApi for App {
    async fn list_package_protection_rules(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<PackageProtectionRule>> {
        let page = rules::list(&self.backend, &access, &page).await?;
        Ok(page.map(protection_rule))
    }

    async fn create_package_protection_rule(
        &self,
        access: ProjectAccess,
        request: CreatePackageProtectionRuleRequest,
    ) -> Result<PackageProtectionRule> {
        let body = request.body;
        let new = NewProtectionRule {
            name_pattern: body.package_name_pattern,
            package_type: body.package_type.convert(),
            push_level: body
                .minimum_access_level_for_push
                .into_patch()
                .into_value()
                .map(Convert::convert),
            delete_level: body
                .minimum_access_level_for_delete
                .into_patch()
                .into_value()
                .map(Convert::convert),
        };
        Ok(protection_rule(rules::create(&self.backend, &access, new).await?))
    }

    async fn update_package_protection_rule(
        &self,
        access: ProjectAccess,
        request: UpdatePackageProtectionRuleRequest,
    ) -> Result<PackageProtectionRule> {
        let body = request.body;
        let changes = ProtectionRuleChanges {
            name_pattern: body.package_name_pattern,
            package_type: body.package_type.map(Convert::convert),
            push_level: body
                .minimum_access_level_for_push
                .into_patch()
                .map(Convert::convert),
            delete_level: body
                .minimum_access_level_for_delete
                .into_patch()
                .map(Convert::convert),
        };
        let rule = rules::update(&self.backend, &access, request.rule_id, changes).await?;
        Ok(protection_rule(rule))
    }

    async fn delete_package_protection_rule(
        &self,
        access: ProjectAccess,
        request: DeletePackageProtectionRuleRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        rules::delete(&self.backend, &access, request.rule_id, since.as_deref()).await
    }
}
