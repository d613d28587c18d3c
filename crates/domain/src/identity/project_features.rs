//! Access to the areas of a project that have an access level.

use storage::entities::projects::FeatureAccess;

use super::access::ProjectAccess;
use crate::kernel::error::{Error, Result};

/// Reason why operations on disabled feature flags are refused, also for clients without a user.
pub(crate) const FEATURE_FLAGS_DISABLED: &str = "The feature flags of this project are disabled.";

impl ProjectAccess {
    /// Returns whether the environments and deployments of the project are available to the caller.
    #[must_use]
    pub fn can_use_environments(&self) -> bool {
        self.check_environments().is_ok()
    }

    /// Refuses callers without access to the environments and deployments of the project.
    ///
    /// # Errors
    /// Returns `Error::Forbidden` in that case.
    pub fn check_environments(&self) -> Result<()> {
        let reason = "The environments of this project are disabled.";
        self.check_level(self.project.environments_access_level, reason)
    }

    /// Refuses callers without access to the feature flags of the project, their user lists and clients.
    ///
    /// # Errors
    /// Returns `Error::Forbidden` in that case.
    pub fn check_feature_flags(&self) -> Result<()> {
        self.check_level(self.project.feature_flags_access_level, FEATURE_FLAGS_DISABLED)
    }

    /// Refuses callers without access to the clusters of the project.
    ///
    /// # Errors
    /// Returns `Error::Forbidden` in that case.
    pub fn check_infrastructure(&self) -> Result<()> {
        let reason = "The clusters of this project are disabled.";
        self.check_level(self.project.infrastructure_access_level, reason)
    }

    /// Refuses callers without access to the metrics dashboards of the project.
    ///
    /// # Errors
    /// Returns `Error::Forbidden` in that case.
    pub fn check_monitor(&self) -> Result<()> {
        let reason = "The metrics dashboards of this project are disabled.";
        self.check_level(self.project.monitor_access_level, reason)
    }

    /// Refuses callers without access to the vulnerabilities of the project.
    ///
    /// # Errors
    /// Returns `Error::Forbidden` in that case.
    pub fn check_security_and_compliance(&self) -> Result<()> {
        let reason = "The vulnerabilities of this project are disabled.";
        self.check_level(self.project.security_and_compliance_access_level, reason)
    }

    /// Refuses callers without access to an area. The reason is for a disabled area.
    fn check_level(&self, level: FeatureAccess, reason: &'static str) -> Result<()> {
        if self.effective_access().has_feature(level) {
            return Ok(());
        }
        Err(match level {
            FeatureAccess::Disabled => Error::forbidden_because(reason),
            _ => Error::forbidden(),
        })
    }
}
