//! Converts the access rule of the contract to the rule that `domain` checks.

use contract::operation::{MinimumAccess, Operation, ResourceKind, Tier};
use domain::identity::access::OperationRule;
use domain::kernel::policy;

/// Returns the requirements of an operation.
pub(super) fn rule(operation: &'static Operation) -> OperationRule<'static> {
    let gate = |deferred| {
        let gate = operation.flag.as_ref().filter(|gate| gate.deferred == deferred);
        gate.map(|gate| (gate.name, gate.default))
    };
    let access = operation.access;
    OperationRule {
        access: policy::AccessRule {
            on: kind(access.on),
            min: minimum(access.min),
            anonymous: access.anonymous,
            archived: access.archived,
            first: access.first,
        },
        scopes: operation.scopes,
        tier: plan(operation.tier),
        flag: gate(false),
        deferred: gate(true),
        job_token: operation.job_token,
        package_client: operation.package_client,
        read: operation.is_read(),
    }
}

fn kind(kind: ResourceKind) -> policy::ResourceKind {
    match kind {
        ResourceKind::Instance => policy::ResourceKind::Instance,
        ResourceKind::User => policy::ResourceKind::User,
        ResourceKind::Group => policy::ResourceKind::Group,
        ResourceKind::Project => policy::ResourceKind::Project,
        ResourceKind::Scim => policy::ResourceKind::Scim,
    }
}

fn minimum(minimum: MinimumAccess) -> policy::MinimumAccess {
    match minimum {
        MinimumAccess::None => policy::MinimumAccess::None,
        MinimumAccess::Guest => policy::MinimumAccess::Guest,
        MinimumAccess::Reporter => policy::MinimumAccess::Reporter,
        MinimumAccess::Developer => policy::MinimumAccess::Developer,
        MinimumAccess::Maintainer => policy::MinimumAccess::Maintainer,
        MinimumAccess::Owner => policy::MinimumAccess::Owner,
        MinimumAccess::Admin => policy::MinimumAccess::Admin,
    }
}

fn plan(tier: Tier) -> policy::InstancePlan {
    match tier {
        Tier::Free => policy::InstancePlan::Free,
        Tier::Starter => policy::InstancePlan::Starter,
        Tier::Premium => policy::InstancePlan::Premium,
        Tier::Ultimate => policy::InstancePlan::Ultimate,
    }
}

#[cfg(test)]
mod tests {
    use domain::packages::reauthorization::UPLOAD;

    use super::*;

    #[test]
    fn uploads_of_packages_are_authorized_again_by_the_rule_of_the_contract() {
        for id in [
            "upload_crate",
            "upload_generic_package_file",
            "upload_maven_file",
            "upload_npm_package",
            "upload_python_package",
        ] {
            let operation = contract::table::operation(id).expect("an operation");
            assert_eq!(rule(operation), UPLOAD, "{id}");
        }
    }
}
