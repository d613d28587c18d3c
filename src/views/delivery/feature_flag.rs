//! Feature flags and their user lists.

use std::sync::Arc;

use domain::delivery::feature_flags::{FlagDetail, StrategyDetail};
use domain::secrets::Secret;
use storage::entities::feature_flag_scopes::Model as Scope;
use storage::entities::feature_flag_strategies::StrategyKind;
use storage::entities::feature_flag_user_lists::Model as UserList;

use crate::views::enums::Convert;
use contract::map::Map;
use contract::{
    ClientFeature, ClientStrategy, FeatureFlag, FeatureFlagScope, FeatureFlagStrategy,
    FeatureFlagStrategyName, FeatureFlagUserList, FeatureFlagVersion, FeatureFlagsClient,
};

/// Returns a user list in the format of the contract.
#[must_use]
pub fn user_list(row: UserList) -> FeatureFlagUserList {
    FeatureFlagUserList {
        id: row.id,
        iid: row.iid,
        project_id: row.project_id,
        name: row.name,
        user_xids: row.user_xids,
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
    }
}

/// Returns a feature flag in the format of the contract.
#[must_use]
pub fn feature_flag(row: FlagDetail) -> FeatureFlag {
    let FlagDetail { flag, strategies } = row;
    FeatureFlag {
        name: flag.name,
        description: flag.description,
        active: flag.active,
        version: FeatureFlagVersion::NewVersionFlag,
        created_at: flag.created_at.into(),
        updated_at: flag.updated_at.into(),
        scopes: Vec::new(),
        strategies: strategies.into_iter().map(strategy).collect(),
    }
}

fn strategy(row: StrategyDetail) -> FeatureFlagStrategy {
    let StrategyDetail {
        strategy,
        scopes,
        user_list,
    } = row;
    let parameters = parameters(&strategy.parameters);
    FeatureFlagStrategy {
        id: strategy.id,
        name: strategy.name.convert(),
        parameters,
        scopes: scopes.into_iter().map(scope).collect(),
        user_list: user_list.map(Arc::unwrap_or_clone).map(self::user_list),
    }
}

/// Returns the configuration of the clients of a project.
#[must_use]
pub fn feature_flags_client(base: &str, project_id: i64, instance_id: Secret<String>) -> FeatureFlagsClient {
    FeatureFlagsClient {
        api_url: format!("{base}/api/v4/feature_flags/unleash/{project_id}"),
        instance_id: instance_id.into_exposed(),
    }
}

/// Returns a flag in the format of the Unleash protocol.
#[must_use]
pub fn client_feature(row: FlagDetail) -> ClientFeature {
    let FlagDetail { flag, strategies } = row;
    ClientFeature {
        name: flag.name,
        description: flag.description,
        enabled: flag.active,
        strategies: strategies.into_iter().map(client_strategy).collect(),
    }
}

/// Clients do not know user lists, so a list becomes a parameter.
fn client_strategy(row: StrategyDetail) -> ClientStrategy {
    let (name, parameters) = match row.user_list {
        Some(list) => {
            let parameters = Map::from_iter([("userIds".to_owned(), Arc::unwrap_or_clone(list).user_xids)]);
            (StrategyKind::Users, parameters)
        }
        None => (row.strategy.name, parameters(&row.strategy.parameters)),
    };
    ClientStrategy {
        name: name.convert(),
        parameters,
    }
}

/// Parses the parameters, which the service stored as an object of texts.
fn parameters(stored: &str) -> Map<String> {
    serde_json::from_str(stored).unwrap_or_default()
}

fn scope(row: Scope) -> FeatureFlagScope {
    FeatureFlagScope {
        id: row.id,
        environment_scope: row.environment_scope,
    }
}

impl Convert<FeatureFlagStrategyName> for StrategyKind {
    fn convert(self) -> FeatureFlagStrategyName {
        match self {
            Self::Default => FeatureFlagStrategyName::Default,
            Self::GradualRollout => FeatureFlagStrategyName::GradualRolloutUserId,
            Self::Users => FeatureFlagStrategyName::UserWithId,
            Self::FlexibleRollout => FeatureFlagStrategyName::FlexibleRollout,
            Self::UserList => FeatureFlagStrategyName::ServiceUserList,
            Self::CompatibleUserList => FeatureFlagStrategyName::GitlabUserList,
        }
    }
}

impl Convert<StrategyKind> for FeatureFlagStrategyName {
    fn convert(self) -> StrategyKind {
        match self {
            Self::Default => StrategyKind::Default,
            Self::GradualRolloutUserId => StrategyKind::GradualRollout,
            Self::UserWithId => StrategyKind::Users,
            Self::FlexibleRollout => StrategyKind::FlexibleRollout,
            Self::ServiceUserList => StrategyKind::UserList,
            Self::GitlabUserList => StrategyKind::CompatibleUserList,
        }
    }
}
