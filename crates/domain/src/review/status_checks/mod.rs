//! External status checks: services that decide whether a merge request can be merged
//! (`docs/adr/0069-store-statuses-of-checks-with-their-commit.md`).
//!
//! `merge_requests` imports `evaluation`; `settings` and `responses` import `merge_requests`.

pub mod evaluation;
pub mod responses;
pub mod settings;
