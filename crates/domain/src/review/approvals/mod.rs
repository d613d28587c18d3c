//! Approvals of merge requests, and the rules that require them (`docs/adr/0063-evaluate-approvals-on-each-read.md`).
//!
//! `merge_requests` imports `evaluation` and `settings`; `rules` and `reviews` import `merge_requests`.

pub mod configuration;
pub mod evaluation;
pub mod owner_rules;
pub mod reviews;
pub mod rules;
pub mod settings;
