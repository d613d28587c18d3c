//! Settings of the instance.

use crate::api::contract::{ApplicationSettings, ApplicationSettingsApi, UpdateApplicationSettingsRequest};
use crate::app::App;
use crate::error::Result;
use crate::services::access::InstanceAccess;
use crate::services::settings;
use crate::views::application_settings::application_settings;

impl ApplicationSettingsApi for App {
    async fn get_application_settings(&self, _: InstanceAccess) -> Result<ApplicationSettings> {
        let settings = settings::read(&self.backend).await?;
        Ok(application_settings(settings, self.backend.instance.plan))
    }

    async fn update_application_settings(
        &self,
        _: InstanceAccess,
        request: UpdateApplicationSettingsRequest,
    ) -> Result<ApplicationSettings> {
        let settings = settings::update(&self.backend, request.body).await?;
        Ok(application_settings(settings, self.backend.instance.plan))
    }
}
