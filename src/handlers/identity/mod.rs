//! Handlers of callers: tokens, applications and sign-in.

pub mod applications;
pub mod deploy_tokens;
pub mod impersonation_tokens;
pub mod job_token_scopes;
pub mod personal_access_tokens;
