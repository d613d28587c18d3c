//! Clients of feature flags.

use domain::delivery::feature_flags_clients as clients;
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::kernel::error::Result;

use crate::api::routes::FeatureFlagClientsApi;
use crate::app::App;
use crate::views::delivery::feature_flag::{client_feature, feature_flags_client};
use contract::{
    CheckFeatureFlagsClientRequest, ClientFeatures, FeatureFlagsClient, FeatureFlagsClientCredential,
    FeatureFlagsEnvironment, ListClientFeaturesOfOldSdksRequest, ListClientFeaturesRequest,
    RegisterFeatureFlagsClientRequest, SendFeatureFlagsClientMetricsRequest,
};

/// Version of the format of features.
const FEATURES_VERSION: i64 = 1;

impl FeatureFlagClientsApi for App {
    async fn get_feature_flags_client(&self, access: ProjectAccess) -> Result<FeatureFlagsClient> {
        let instance_id = clients::instance_id(&self.backend, &access).await?;
        let base = &self.backend.instance.base_url;
        Ok(feature_flags_client(base, access.project.id, instance_id))
    }

    async fn reset_feature_flags_client_token(&self, access: ProjectAccess) -> Result<FeatureFlagsClient> {
        let instance_id = clients::reset_instance_id(&self.backend, &access).await?;
        let base = &self.backend.instance.base_url;
        Ok(feature_flags_client(base, access.project.id, instance_id))
    }

    async fn check_feature_flags_client(
        &self,
        _: InstanceAccess,
        request: CheckFeatureFlagsClientRequest,
    ) -> Result<()> {
        self.check_client(&request.project_id, request.feature_flags_client_credential)
            .await?;
        Ok(())
    }

    async fn list_client_features_of_old_sdks(
        &self,
        access: InstanceAccess,
        request: ListClientFeaturesOfOldSdksRequest,
    ) -> Result<ClientFeatures> {
        let credential = request.feature_flags_client_credential;
        let environment = request.feature_flags_environment;
        self.client_features(&access, &request.project_id, credential, environment)
            .await
    }

    async fn list_client_features(
        &self,
        access: InstanceAccess,
        request: ListClientFeaturesRequest,
    ) -> Result<ClientFeatures> {
        let credential = request.feature_flags_client_credential;
        let environment = request.feature_flags_environment;
        self.client_features(&access, &request.project_id, credential, environment)
            .await
    }

    async fn register_feature_flags_client(
        &self,
        _: InstanceAccess,
        request: RegisterFeatureFlagsClientRequest,
    ) -> Result<()> {
        self.check_client(&request.project_id, request.feature_flags_client_credential)
            .await?;
        Ok(())
    }

    async fn send_feature_flags_client_metrics(
        &self,
        _: InstanceAccess,
        request: SendFeatureFlagsClientMetricsRequest,
    ) -> Result<()> {
        self.check_client(&request.project_id, request.feature_flags_client_credential)
            .await?;
        Ok(())
    }
}

impl App {
    /// Checks the credential of a client and returns the ID of the project.
    async fn check_client(&self, project: &str, credential: FeatureFlagsClientCredential) -> Result<i64> {
        let instance_id = credential.unleash_instanceid.or(credential.instance_id);
        clients::check(&self.backend, project, instance_id.as_deref()).await
    }

    async fn client_features(
        &self,
        access: &InstanceAccess,
        project: &str,
        credential: FeatureFlagsClientCredential,
        environment: FeatureFlagsEnvironment,
    ) -> Result<ClientFeatures> {
        let project_id = self.check_client(project, credential).await?;
        let flags = match environment.unleash_appname.or(environment.app_name) {
            Some(environment) => {
                clients::features(&self.backend, &access.caller, project_id, &environment).await?
            }
            None => Vec::new(),
        };
        Ok(ClientFeatures {
            version: FEATURES_VERSION,
            features: flags.into_iter().map(client_feature).collect(),
        })
    }
}
