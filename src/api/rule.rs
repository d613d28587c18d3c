//! Converts the access rule of the contract to the rule that `domain` checks.

use contract::operation::{MinimumAccess, Operation, ResourceKind, Tier};
use domain::identity::access::Rule;
use domain::kernel::policy;

/// Returns the requirements of an operation.
pub(super) fn rule(operation: &'static Operation) -> Rule<'static> {
    let gate = |deferred| {
        let gate = operation.flag.as_ref().filter(|gate| gate.deferred == deferred);
        gate.map(|gate| (gate.name, gate.default))
    };
    let access = operation.access;
    Rule {
        access: policy::Access {
            on: kind(access.on),
            min: minimum(access.min),
            anonymous: access.anonymous,
            archived: access.archived,
            first: access.first,
        },
        scopes: operation.scopes,
        tier: plan(operation.tier),
        flag: gate(false),
        later: gate(true),
        jobs: operation.job_token,
        read: operation.is_read(),
    }
}

fn kind(kind: ResourceKind) -> policy::On {
    match kind {
        ResourceKind::Instance => policy::On::Instance,
        ResourceKind::User => policy::On::User,
        ResourceKind::Group => policy::On::Group,
        ResourceKind::Project => policy::On::Project,
        ResourceKind::Scim => policy::On::Scim,
    }
}

fn minimum(minimum: MinimumAccess) -> policy::Minimum {
    match minimum {
        MinimumAccess::None => policy::Minimum::None,
        MinimumAccess::Guest => policy::Minimum::Guest,
        MinimumAccess::Reporter => policy::Minimum::Reporter,
        MinimumAccess::Developer => policy::Minimum::Developer,
        MinimumAccess::Maintainer => policy::Minimum::Maintainer,
        MinimumAccess::Owner => policy::Minimum::Owner,
        MinimumAccess::Admin => policy::Minimum::Admin,
    }
}

fn plan(tier: Tier) -> policy::Tier {
    match tier {
        Tier::Free => policy::Tier::Free,
        Tier::Starter => policy::Tier::Starter,
        Tier::Premium => policy::Tier::Premium,
        Tier::Ultimate => policy::Tier::Ultimate,
    }
}
