//! Feature flags of projects.

use domain::delivery::feature_flags::{self, FlagUpdate, NewFlag, ScopeUpdate, StrategyUpdate};
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::FeatureFlagsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::delivery::feature_flag::feature_flag;
use crate::views::enums::Convert;
use contract::map::Map;
use contract::{
    CreateFeatureFlagRequest, DeleteFeatureFlagRequest, FeatureFlag, FeatureFlagFilter,
    FeatureFlagScopeCreate, FeatureFlagScopeUpdate, FeatureFlagStrategyCreate, FeatureFlagStrategyUpdate,
    GetFeatureFlagRequest, ListFeatureFlagsRequest, UpdateFeatureFlagRequest,
};

impl FeatureFlagsApi for App {
    async fn list_feature_flags(
        &self,
        access: ProjectAccess,
        request: ListFeatureFlagsRequest,
        page: PageRequest,
    ) -> Result<Page<FeatureFlag>> {
        let active = request.scope.map(|scope| match scope {
            FeatureFlagFilter::Enabled => true,
            FeatureFlagFilter::Disabled => false,
        });
        let page = feature_flags::list(&self.backend, &access, active, &page).await?;
        Ok(page.map(feature_flag))
    }

    async fn create_feature_flag(
        &self,
        access: ProjectAccess,
        request: CreateFeatureFlagRequest,
    ) -> Result<FeatureFlag> {
        let body = request.body;
        let strategies = body.strategies.unwrap_or_default();
        let new = NewFlag {
            name: body.name,
            description: body.description,
            active: body.active,
            strategies: strategies.into_iter().map(new_strategy).collect(),
        };
        let created = feature_flags::create(&self.backend, &access, new).await?;
        Ok(feature_flag(created))
    }

    async fn get_feature_flag(
        &self,
        access: ProjectAccess,
        request: GetFeatureFlagRequest,
    ) -> Result<FeatureFlag> {
        let found = feature_flags::get(&self.backend, &access, &request.feature_flag_name).await?;
        Ok(feature_flag(found))
    }

    async fn update_feature_flag(
        &self,
        access: ProjectAccess,
        request: UpdateFeatureFlagRequest,
    ) -> Result<FeatureFlag> {
        let (name, body) = (request.feature_flag_name, request.body);
        let strategies = body.strategies.unwrap_or_default();
        let change = FlagUpdate {
            name: body.name,
            description: body.description.into_patch().into_update(),
            active: body.active,
            strategies: strategies.into_iter().map(strategy).collect(),
        };
        let changed = feature_flags::update(&self.backend, &access, &name, change).await?;
        Ok(feature_flag(changed))
    }

    async fn delete_feature_flag(
        &self,
        access: ProjectAccess,
        request: DeleteFeatureFlagRequest,
    ) -> Result<FeatureFlag> {
        let (name, since) = (request.feature_flag_name, request.if_unmodified_since);
        let deleted = feature_flags::delete(&self.backend, &access, &name, since.as_deref()).await?;
        Ok(feature_flag(deleted))
    }
}

fn new_strategy(sent: FeatureFlagStrategyCreate) -> StrategyUpdate {
    let scope = |scope: FeatureFlagScopeCreate| ScopeUpdate {
        environment_scope: Some(scope.environment_scope),
        ..ScopeUpdate::default()
    };
    StrategyUpdate {
        kind: Some(sent.name.convert()),
        parameters: sent.parameters.map(Map::into_iter).map(Iterator::collect),
        user_list_id: sent.user_list_id.map(Some),
        scopes: sent.scopes.unwrap_or_default().into_iter().map(scope).collect(),
        ..StrategyUpdate::default()
    }
}

fn strategy(sent: FeatureFlagStrategyUpdate) -> StrategyUpdate {
    let scope = |scope: FeatureFlagScopeUpdate| ScopeUpdate {
        id: scope.id,
        remove: scope.destroy,
        environment_scope: scope.environment_scope,
    };
    StrategyUpdate {
        id: sent.id,
        remove: sent.destroy,
        kind: sent.name.map(Convert::convert),
        parameters: sent.parameters.map(Map::into_iter).map(Iterator::collect),
        user_list_id: sent.user_list_id.into_patch().into_update(),
        scopes: sent.scopes.unwrap_or_default().into_iter().map(scope).collect(),
    }
}
