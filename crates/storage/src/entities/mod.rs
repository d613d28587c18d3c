//! Tables as SeaORM models, one file each, with finders that apply scope. Rows that clients identify by a path,
//! digest or name are looked up here, so that each rule exists once.
//!
//! Times are `DateTime<Utc>` and dates `NaiveDate`; both databases store them in a sortable format.

pub mod access;
mod access_level;
pub mod access_tokens;
pub mod approval_rule_branches;
pub mod approval_rule_groups;
pub mod approval_rule_users;
pub mod approval_rules;
pub mod approvals;
pub mod audit_events;
pub mod award_emoji;
pub mod badges;
pub mod board_labels;
pub mod board_lists;
pub mod boards;
pub mod ci_jobs;
pub mod ci_variables;
pub mod closing_merge_requests;
pub mod cluster_platforms;
pub mod clusters;
pub mod code_analyses;
pub mod columns;
pub mod commit_comments;
pub mod container_expiration_policies;
pub mod custom_attributes;
pub mod deploy_keys;
pub mod deploy_tokens;
pub mod deployment_merge_requests;
pub mod deployments;
pub mod environments;
pub mod epic_issues;
pub mod epic_labels;
pub mod epics;
pub mod events;
pub mod feature_flag_scopes;
pub mod feature_flag_strategies;
pub mod feature_flag_user_lists;
pub mod feature_flags;
pub mod feature_flags_clients;
pub mod feature_gate_targets;
pub mod feature_gates;
pub mod former_paths;
pub mod freeze_periods;
pub mod gpg_key_ids;
pub mod gpg_keys;
pub mod group_approval_settings;
pub mod group_exports;
pub mod group_imports;
pub mod group_protected_branches;
pub mod group_shares;
pub mod hook_deliveries;
pub mod iid_counters;
pub mod imported_groups;
pub mod instances;
pub mod issuables;
pub mod issue_assignees;
pub mod issue_labels;
pub mod issue_links;
pub mod issues;
pub mod job_token_allowlist_entries;
pub mod job_tokens;
pub mod jobs;
pub mod known_addresses;
pub mod label_priorities;
pub mod labels;
pub mod large_texts;
pub mod members;
pub mod merge_request_assignees;
pub mod merge_request_commits;
pub mod merge_request_labels;
pub mod merge_request_reviewers;
pub mod merge_request_versions;
pub mod merge_requests;
pub mod metrics_annotations;
pub mod milestones;
pub mod namespace_ancestors;
pub mod namespaces;
pub mod notes;
pub mod oauth_applications;
pub mod oauth_grants;
pub mod oauth_tokens;
pub mod package_blobs;
pub mod package_cleanup_policies;
pub mod package_files;
pub mod package_metadata;
pub mod package_protection_rules;
pub mod package_tags;
pub mod packages;
pub mod pending_sign_ins;
pub mod pipeline_schedule_variables;
pub mod pipeline_schedules;
pub mod pipeline_triggers;
pub mod pipeline_variables;
pub mod pipelines;
pub mod project_bots;
pub mod project_deploy_keys;
pub mod project_fetches;
pub mod project_hooks;
pub mod project_languages;
pub mod project_shares;
pub mod project_stars;
pub mod project_texts;
pub mod project_topics;
pub mod project_uploads;
pub mod projects;
pub mod protected_branches;
pub mod protected_ref_grants;
pub mod protected_tags;
pub mod pull_mirror_refs;
pub mod pull_mirrors;
pub mod push_rules;
pub mod recovery_codes;
pub mod ref_rules;
pub mod ref_updates;
pub mod registry_blobs;
pub mod registry_manifest_contents;
pub mod registry_manifest_references;
pub mod registry_manifests;
pub mod registry_pieces;
pub mod registry_repositories;
pub mod registry_repository_blobs;
pub mod registry_tags;
pub mod registry_uploads;
pub mod related_rows;
pub mod release_evidences;
pub mod release_links;
pub mod release_milestones;
pub mod releases;
pub mod remote_mirrors;
pub mod resource_events;
mod row_bytes;
pub mod row_changes;
pub mod row_conditions;
pub mod saml_providers;
pub mod scim_identities;
pub mod scim_tokens;
mod scope;
pub mod selectivity;
pub mod sessions;
pub mod settings;
mod share_summary;
pub mod sign_in_failures;
pub mod snippet_contents;
pub mod snippets;
pub mod spent_actions;
pub mod starred_dashboards;
pub mod status_check_branches;
pub mod status_check_deliveries;
pub mod status_check_responses;
pub mod status_checks;
pub mod subscriptions;
pub mod taken_emails;
pub mod taken_fingerprints;
pub mod timelogs;
pub mod todos;
pub mod two_factor_secrets;
pub mod user_emails;
pub mod user_identities;
pub mod user_keys;
pub mod user_statuses;
pub mod users;
pub mod verified_domains;
mod visibility;
pub mod vulnerabilities;

// A function that is not registered as a test is an error.
#[cfg(test)]
#[warn(dead_code)]
pub(crate) mod tests;

pub use access_level::AccessLevel;
pub use row_bytes::row_bytes;
pub use scope::Scope;
pub use share_summary::ShareSummary;
pub use visibility::Visibility;

pub use crate::clock::now;

use chrono::{NaiveDate, TimeDelta};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, IntoColumnRef};

/// Maximum difference between the clocks of two nodes. A row that is dated further in the future was stored before the
/// clock was set back.
pub const MAX_CLOCK_DIFFERENCE: TimeDelta = TimeDelta::seconds(60);

/// Returns a condition that a membership or share with this expiry column still grants access: on the expiry
/// date it no longer does.
pub fn unexpired(column: impl IntoColumnRef + Clone, today: NaiveDate) -> Condition {
    Condition::any()
        .add(Expr::col(column.clone()).is_null())
        .add(Expr::col(column).gt(today))
}

/// Returns the form for case-insensitive comparison of names, paths and addresses, as stored in the `*_key`
/// columns.
pub fn fold(text: &str) -> String {
    text.to_lowercase()
}

/// Returns the ID of a reference that consists of digits only; such a reference is never a name. Out-of-range
/// digits return 0, which no row has.
pub fn numeric_id(reference: &str) -> Option<i64> {
    let digits = !reference.is_empty() && reference.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| reference.parse().unwrap_or(0))
}
