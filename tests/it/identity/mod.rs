//! Tests of callers: tokens, applications and sign-in.

pub mod applications;
pub mod deploy_tokens;
pub mod impersonation_tokens;
mod job_token_scopes;
pub mod job_tokens;
pub mod oauth;
pub mod personal_access_tokens;
pub mod sign_in;
pub mod two_factor;
