//! Two-factor authentication: codes of authenticator apps (RFC 6238), recovery codes, and the requirement to use
//! them (ADR 38).

pub mod codes;
pub mod enrollment;
pub(super) mod pending_sign_ins;
pub mod requirement;
mod totp;
