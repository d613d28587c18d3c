//! Second factors of users.

use domain::identity::two_factor::enrollment;
use domain::secrets::Secret;

use contract::{TwoFactorRecoveryCodes, TwoFactorSetup, TwoFactorStatus};

/// Returns the second factor of a user.
#[must_use]
pub fn status(found: &enrollment::TwoFactorStatus) -> TwoFactorStatus {
    TwoFactorStatus {
        enabled: found.enabled_at.is_some(),
        enabled_at: found.enabled_at.map(Into::into),
        recovery_codes_left: i64::try_from(found.recovery_codes_left).unwrap_or(i64::MAX),
        required: found.required,
        grace_period_ends_at: found.grace_period_ends_at.map(Into::into),
    }
}

/// Returns a setup that was started.
#[must_use]
pub fn setup(setup: enrollment::TwoFactorSetup) -> TwoFactorSetup {
    TwoFactorSetup {
        secret: setup.secret.into_exposed(),
        otpauth_uri: setup.uri.into_exposed(),
    }
}

/// Returns new recovery codes.
#[must_use]
pub fn recovery_codes(codes: Vec<Secret<String>>) -> TwoFactorRecoveryCodes {
    TwoFactorRecoveryCodes {
        recovery_codes: codes.into_iter().map(Secret::into_exposed).collect(),
    }
}
