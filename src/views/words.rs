//! Enumerations of the contract and of the tables that use the same words.

use crate::api::contract;
use crate::entities::{self, events, hook_deliveries, issues, milestones, namespaces, projects};

macro_rules! same_words {
    ($($contract:path = $entity:path { $($word:ident),* })*) => {$(
        impl From<$contract> for $entity {
            fn from(value: $contract) -> Self {
                match value { $(<$contract>::$word => Self::$word),* }
            }
        }

        impl From<$entity> for $contract {
            fn from(value: $entity) -> Self {
                match value { $(<$entity>::$word => Self::$word),* }
            }
        }
    )*};
}

same_words! {
    contract::Visibility = entities::Visibility { Private, Internal, Public }
    contract::FeatureAccessLevel = projects::FeatureAccess { Disabled, Private, Enabled }
    contract::EventAction = events::Action {
        Approved, Closed, Commented, Created, Destroyed, Expired, Joined, Left, Merged, Pushed, Reopened, Updated
    }
    contract::HookDeliveryState = hook_deliveries::State { Pending, Delivered, Failed }
    contract::IssueState = issues::State { Opened, Closed }
    contract::MilestoneState = milestones::State { Active, Closed }
    contract::MergeMethod = projects::MergeMethod { Merge, RebaseMerge, Ff }
    contract::AutoDevopsDeployStrategy = projects::DeployStrategy { Continuous, Manual, TimedIncremental }
    contract::ImportStatus = projects::ImportStatus { None, Scheduled, Started, Finished, Failed }
    contract::NamespaceKind = namespaces::Kind { User, Group }
    contract::ProjectCreationLevel = namespaces::ProjectCreation { Noone, Maintainer, Developer }
    contract::SubgroupCreationLevel = namespaces::SubgroupCreation { Owner, Maintainer }
}
