//! Views of callers: tokens, applications and sign-in.

pub mod access_tokens;
pub mod application;
pub mod deploy_token;
pub mod job_token_scope;
