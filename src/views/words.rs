//! Enumerations of the contract and of the tables that use the same words.

use crate::api::contract;
use crate::entities::{self, namespaces, projects, users};

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
    contract::MergeMethod = projects::MergeMethod { Merge, RebaseMerge, Ff }
    contract::AutoDevopsDeployStrategy = projects::DeployStrategy { Continuous, Manual, TimedIncremental }
    contract::ImportStatus = projects::ImportStatus { None, Scheduled, Started, Finished, Failed }
    contract::NamespaceKind = namespaces::Kind { User, Group }
    contract::ProjectCreationLevel = namespaces::ProjectCreation { Noone, Maintainer, Developer }
    contract::SubgroupCreationLevel = namespaces::SubgroupCreation { Owner, Maintainer }
}

/// A user's state in the two words of the contract: whoever is put to rest may still sign in.
#[must_use]
pub fn user_state(state: users::State) -> contract::UserState {
    match state {
        users::State::Active | users::State::Deactivated => contract::UserState::Active,
        users::State::Blocked | users::State::LdapBlocked => contract::UserState::Blocked,
    }
}

/// The address of a picture, when there is one; `kind` is `user`, `group` or `project`.
#[must_use]
pub fn avatar_url(base: &str, kind: &str, id: i64, file: Option<&str>) -> Option<String> {
    file.map(|file| format!("{base}/uploads/-/system/{kind}/avatar/{id}/{file}"))
}
