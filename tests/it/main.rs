//! The integration tests: a real server on a free port, real repositories, the real git client.
//!
//! Every answer that any test sees is validated against the contract (`support::contract`). Every test of a server runs
//! on SQLite and on PostgreSQL. Without PostgreSQL, its tests are ignored.

// A test that cannot go on fails by panicking.
#![allow(clippy::expect_used, clippy::unwrap_used)]

mod application_settings;
mod applications;
mod award_emoji;
mod badges;
mod boards;
mod branches;
mod cli;
mod clusters;
mod commit_statuses;
mod commits;
mod container_registry;
mod contract;
mod custom_attributes;
mod deploy_keys;
mod deployments;
mod edge;
mod environments;
mod epics;
mod events;
mod feature_flag_user_lists;
mod feature_flags;
mod feature_gates;
mod freeze_periods;
mod git;
mod group_transfers;
mod groups;
mod impersonation_tokens;
mod issues;
mod job_tokens;
mod labels;
mod members;
mod merge_requests;
mod merges;
mod metadata;
mod metrics_dashboards;
mod milestones;
mod namespaces;
mod notes;
mod oauth;
mod personal_access_tokens;
mod pipeline_schedules;
mod pipeline_triggers;
mod pipelines;
mod project_access_tokens;
mod project_forks;
mod project_hooks;
mod project_shares;
mod project_stars;
mod project_uploads;
mod projects;
mod registry_protocol;
mod regressions;
mod repositories;
mod repository_files;
mod scim;
mod sign_in;
mod snippets;
mod support;
mod tags;
mod templates;
mod todos;
mod user_emails;
mod user_keys;
mod user_status;
mod users;
mod variables;
mod vulnerabilities;
mod web;

fn main() -> std::process::ExitCode {
    harness::main()
}
