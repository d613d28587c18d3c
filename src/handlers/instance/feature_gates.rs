//! Feature gates.

use domain::audit::Actor;
use domain::identity::access::InstanceAccess;
use domain::instance::feature_gates::{self, GateSetting, GateTargets, GateUpdate, PercentageBase};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::FeatureGatesApi;
use crate::app::App;
use crate::views::instance::feature_gate::feature_gate;
use contract::{DeleteFeatureGateRequest, FeatureGate, FeatureGateShare, SetFeatureGateRequest};

impl FeatureGatesApi for App {
    async fn list_feature_gates(&self, _: InstanceAccess, page: PageRequest) -> Result<Page<FeatureGate>> {
        let page = feature_gates::list(&self.backend, &page).await?;
        Ok(page.map(feature_gate))
    }

    async fn set_feature_gate(
        &self,
        access: InstanceAccess,
        request: SetFeatureGateRequest,
    ) -> Result<FeatureGate> {
        let body = request.body;
        let update = GateUpdate {
            setting: GateSetting::parse(&body.value)?,
            key: body.key.map(|key| match key {
                FeatureGateShare::PercentageOfTime => PercentageBase::Time,
                FeatureGateShare::PercentageOfActors => PercentageBase::Actors,
            }),
            targets: GateTargets {
                feature_group: body.feature_group,
                user: body.user,
                group: body.group,
                project: body.project,
            },
        };
        let gate =
            feature_gates::set(&self.backend, &Actor::from(&access.caller), request.name, update).await?;
        Ok(feature_gate(gate))
    }

    async fn delete_feature_gate(
        &self,
        access: InstanceAccess,
        request: DeleteFeatureGateRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        feature_gates::delete(
            &self.backend,
            &Actor::from(&access.caller),
            &request.name,
            since.as_deref(),
        )
        .await
    }
}
