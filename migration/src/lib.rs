//! Schema of Holdfast's database for SQLite and PostgreSQL, one file for each change.
//!
//! Rules for every table:
//! - `id` is a 64-bit key that is never reused, even after a deletion; repository paths and caches depend on
//!   it.
//! - Times are `timestamp with time zone` in UTC; dates are `date`.
//! - Constraints are named by [`naming`], so that both databases report violations in the same way.
//! - Text that is compared case-insensitively has a folded copy, `*_key`, with the unique index.
//! - Foreign keys to owners of files (users' namespaces, groups, projects) restrict deletion. Deletion jobs
//!   delete such rows, after they have removed the files.

use sea_orm_migration::prelude::*;

mod m20261121_000001_create_users;
mod m20261121_000002_create_namespaces;
mod m20261121_000003_create_projects;
mod m20261121_000004_create_members_and_shares;
mod m20261121_000005_create_protected_branches;
mod m20261121_000006_create_commit_comments;
mod m20261121_000007_create_ref_updates;
mod m20261121_000008_create_jobs_and_settings;
mod m20261121_000010_extend_users;
mod m20261121_000011_create_user_keys_emails_and_statuses;
mod m20261121_000012_create_project_bots;
mod m20261121_000013_create_oauth;
mod m20261121_000014_cover_lists_of_projects;
mod m20261121_000015_index_texts_of_projects;
mod m20261121_000016_cover_lists_of_groups_and_users;
mod m20261121_000019_create_project_uploads;
mod m20261121_000020_create_custom_attributes;
mod m20261121_000021_create_code_analyses;
mod m20261121_000022_create_job_tokens;
mod m20261121_000023_create_taken_emails;
mod m20261121_000024_create_project_hooks;
mod m20261121_000025_create_events;
mod m20261121_000026_create_hook_deliveries;
mod m20261121_000027_create_spent_actions;
mod m20261121_000028_fold_what_is_searched;
mod m20261121_000030_create_labels;
mod m20261121_000031_create_milestones;
mod m20261121_000032_create_issues;
mod m20261121_000033_index_lists_of_issues;
mod m20261121_000034_create_merge_requests;
mod m20261121_000035_create_snippets_and_epics;
mod m20261121_000036_create_notes;
mod m20261121_000037_create_subscriptions_and_todos;
mod m20261121_000038_create_boards_and_badges;
mod m20261121_000039_index_lists_of_merge_requests;
mod m20261121_000042_keep_contents_of_snippets_apart;
mod m20261121_000043_fold_texts_of_epics;
mod m20261121_000044_create_freeze_periods;
mod m20261121_000045_create_deploy_keys;
mod m20261121_000046_index_branches_of_merge_requests;
mod m20261121_000047_create_ci_variables;
mod m20261121_000048_create_pipeline_schedules;
mod m20261121_000049_create_pipeline_triggers;
mod m20261121_000050_keep_pending_todos_apart;
mod m20261121_000051_create_pipelines;
mod m20261121_000053_create_feature_gates;
mod m20261121_000054_create_feature_flag_user_lists;
mod m20261121_000055_create_feature_flags;
mod m20261121_000056_create_dashboards_and_annotations;
mod m20261121_000057_create_deployments;
mod m20261121_000058_describe_clusters;
mod m20261121_000060_create_vulnerabilities;
mod m20261121_000061_create_saml_providers;
mod m20261121_000062_create_scim_identities;
mod m20261121_000063_create_group_exports;
mod m20261121_000064_create_group_imports;
mod m20261122_000065_create_registry;
mod m20261123_000066_create_instances;
mod m20261124_000067_separate_sources_of_sign_in_failures;
mod m20261124_000068_create_known_addresses;
mod m20261124_000070_create_verified_domains;
mod m20261124_000071_mark_provisioned_users;
mod m20261124_000074_create_two_factor_authentication;
mod m20261124_000075_create_audit_events;
mod m20261127_000076_store_messages_of_automatic_merges;
mod m20261127_000080_store_default_branches_of_groups;
mod m20261127_000081_create_merge_request_reviewers;
mod m20261127_000082_store_squash_options_of_projects;
mod m20261127_000083_create_former_paths;
mod m20261127_000084_create_releases;
mod m20261127_000085_store_release_events_of_webhooks;
mod m20261127_000087_create_protected_tags_and_grants;
mod m20261127_000088_create_deploy_tokens;
mod m20261127_000089_create_push_rules;
mod m20261127_000090_create_approvals;
mod m20261127_000091_create_packages;
mod m20261127_000093_create_approval_rules_of_merge_requests;
mod m20261127_000094_create_merge_request_versions;
mod m20261127_000095_create_project_fetches;
mod m20261127_000096_create_remote_mirrors;
mod m20261127_000098_require_approvals_of_code_owners;
mod m20261127_000100_create_feature_flags_clients;
mod m20261128_000101_create_status_checks;
mod m20261128_000102_accept_crates;
mod m20261128_000103_create_package_protection_rules;
mod m20261128_000104_create_job_token_scopes;
mod m20261128_000105_mark_public_deploy_keys;
mod m20261128_000106_create_pull_mirrors;
mod m20261128_000107_create_pull_mirror_refs;
mod m20261128_000108_accept_maven_packages;
mod m20261128_000109_create_package_cleanup_policies;
mod m20261128_000110_create_gpg_keys;
mod m20261129_000111_create_container_expiration_policies;
mod m20261130_000112_store_access_levels_of_packages_and_releases;
mod m20261130_000113_store_custom_headers_of_webhooks;
mod m20261130_000114_store_signing_tokens_of_webhooks;
mod m20261130_000115_extend_settings_of_webhooks;
mod m20261130_000116_index_deployments_by_time_and_environments_by_name;
mod m20261130_000117_limit_uses_of_user_keys;
mod m20261130_000119_create_issue_links;
mod m20261130_000120_create_resource_events;
mod m20261130_000121_count_payload_attempts_of_deliveries;
mod m20261130_000124_index_sort_orders_of_packages_and_template_projects;
mod m20261130_000125_mark_deleted_webhooks;
mod m20261201_000126_refuse_deletions_of_audit_events;
mod m20261201_000127_store_access_levels_of_project_areas;
mod m20261201_000128_index_digests_of_package_files;
mod m20261201_000130_index_replaced_jobs_and_newest_pipelines;
pub mod naming;

pub use sea_orm_migration::MigratorTrait;

/// All migrations, oldest first.
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261121_000001_create_users::Migration),
            Box::new(m20261121_000002_create_namespaces::Migration),
            Box::new(m20261121_000003_create_projects::Migration),
            Box::new(m20261121_000004_create_members_and_shares::Migration),
            Box::new(m20261121_000005_create_protected_branches::Migration),
            Box::new(m20261121_000006_create_commit_comments::Migration),
            Box::new(m20261121_000007_create_ref_updates::Migration),
            Box::new(m20261121_000008_create_jobs_and_settings::Migration),
            Box::new(m20261121_000010_extend_users::Migration),
            Box::new(m20261121_000011_create_user_keys_emails_and_statuses::Migration),
            Box::new(m20261121_000012_create_project_bots::Migration),
            Box::new(m20261121_000013_create_oauth::Migration),
            Box::new(m20261121_000014_cover_lists_of_projects::Migration),
            Box::new(m20261121_000015_index_texts_of_projects::Migration),
            Box::new(m20261121_000016_cover_lists_of_groups_and_users::Migration),
            Box::new(m20261121_000019_create_project_uploads::Migration),
            Box::new(m20261121_000020_create_custom_attributes::Migration),
            Box::new(m20261121_000021_create_code_analyses::Migration),
            Box::new(m20261121_000022_create_job_tokens::Migration),
            Box::new(m20261121_000023_create_taken_emails::Migration),
            Box::new(m20261121_000024_create_project_hooks::Migration),
            Box::new(m20261121_000025_create_events::Migration),
            Box::new(m20261121_000026_create_hook_deliveries::Migration),
            Box::new(m20261121_000027_create_spent_actions::Migration),
            Box::new(m20261121_000028_fold_what_is_searched::Migration),
            Box::new(m20261121_000030_create_labels::Migration),
            Box::new(m20261121_000031_create_milestones::Migration),
            Box::new(m20261121_000032_create_issues::Migration),
            Box::new(m20261121_000033_index_lists_of_issues::Migration),
            Box::new(m20261121_000034_create_merge_requests::Migration),
            Box::new(m20261121_000035_create_snippets_and_epics::Migration),
            Box::new(m20261121_000036_create_notes::Migration),
            Box::new(m20261121_000037_create_subscriptions_and_todos::Migration),
            Box::new(m20261121_000038_create_boards_and_badges::Migration),
            Box::new(m20261121_000039_index_lists_of_merge_requests::Migration),
            Box::new(m20261121_000042_keep_contents_of_snippets_apart::Migration),
            Box::new(m20261121_000043_fold_texts_of_epics::Migration),
            Box::new(m20261121_000044_create_freeze_periods::Migration),
            Box::new(m20261121_000045_create_deploy_keys::Migration),
            Box::new(m20261121_000046_index_branches_of_merge_requests::Migration),
            Box::new(m20261121_000047_create_ci_variables::Migration),
            Box::new(m20261121_000048_create_pipeline_schedules::Migration),
            Box::new(m20261121_000049_create_pipeline_triggers::Migration),
            Box::new(m20261121_000050_keep_pending_todos_apart::Migration),
            Box::new(m20261121_000051_create_pipelines::Migration),
            Box::new(m20261121_000053_create_feature_gates::Migration),
            Box::new(m20261121_000054_create_feature_flag_user_lists::Migration),
            Box::new(m20261121_000055_create_feature_flags::Migration),
            Box::new(m20261121_000056_create_dashboards_and_annotations::Migration),
            Box::new(m20261121_000057_create_deployments::Migration),
            Box::new(m20261121_000058_describe_clusters::Migration),
            Box::new(m20261121_000060_create_vulnerabilities::Migration),
            Box::new(m20261121_000061_create_saml_providers::Migration),
            Box::new(m20261121_000062_create_scim_identities::Migration),
            Box::new(m20261121_000063_create_group_exports::Migration),
            Box::new(m20261121_000064_create_group_imports::Migration),
            Box::new(m20261122_000065_create_registry::Migration),
            Box::new(m20261123_000066_create_instances::Migration),
            Box::new(m20261124_000067_separate_sources_of_sign_in_failures::Migration),
            Box::new(m20261124_000068_create_known_addresses::Migration),
            Box::new(m20261124_000070_create_verified_domains::Migration),
            Box::new(m20261124_000071_mark_provisioned_users::Migration),
            Box::new(m20261124_000074_create_two_factor_authentication::Migration),
            Box::new(m20261124_000075_create_audit_events::Migration),
            Box::new(m20261127_000076_store_messages_of_automatic_merges::Migration),
            Box::new(m20261127_000080_store_default_branches_of_groups::Migration),
            Box::new(m20261127_000081_create_merge_request_reviewers::Migration),
            Box::new(m20261127_000082_store_squash_options_of_projects::Migration),
            Box::new(m20261127_000083_create_former_paths::Migration),
            Box::new(m20261127_000084_create_releases::Migration),
            Box::new(m20261127_000085_store_release_events_of_webhooks::Migration),
            Box::new(m20261127_000087_create_protected_tags_and_grants::Migration),
            Box::new(m20261127_000088_create_deploy_tokens::Migration),
            Box::new(m20261127_000089_create_push_rules::Migration),
            Box::new(m20261127_000090_create_approvals::Migration),
            Box::new(m20261127_000091_create_packages::Migration),
            Box::new(m20261127_000093_create_approval_rules_of_merge_requests::Migration),
            Box::new(m20261127_000094_create_merge_request_versions::Migration),
            Box::new(m20261127_000095_create_project_fetches::Migration),
            Box::new(m20261127_000096_create_remote_mirrors::Migration),
            Box::new(m20261127_000098_require_approvals_of_code_owners::Migration),
            Box::new(m20261127_000100_create_feature_flags_clients::Migration),
            Box::new(m20261128_000101_create_status_checks::Migration),
            Box::new(m20261128_000102_accept_crates::Migration),
            Box::new(m20261128_000103_create_package_protection_rules::Migration),
            Box::new(m20261128_000104_create_job_token_scopes::Migration),
            Box::new(m20261128_000105_mark_public_deploy_keys::Migration),
            Box::new(m20261128_000106_create_pull_mirrors::Migration),
            Box::new(m20261128_000107_create_pull_mirror_refs::Migration),
            Box::new(m20261128_000108_accept_maven_packages::Migration),
            Box::new(m20261128_000109_create_package_cleanup_policies::Migration),
            Box::new(m20261128_000110_create_gpg_keys::Migration),
            Box::new(m20261129_000111_create_container_expiration_policies::Migration),
            Box::new(m20261130_000112_store_access_levels_of_packages_and_releases::Migration),
            Box::new(m20261130_000113_store_custom_headers_of_webhooks::Migration),
            Box::new(m20261130_000114_store_signing_tokens_of_webhooks::Migration),
            Box::new(m20261130_000115_extend_settings_of_webhooks::Migration),
            Box::new(m20261130_000116_index_deployments_by_time_and_environments_by_name::Migration),
            Box::new(m20261130_000117_limit_uses_of_user_keys::Migration),
            Box::new(m20261130_000119_create_issue_links::Migration),
            Box::new(m20261130_000120_create_resource_events::Migration),
            Box::new(m20261130_000121_count_payload_attempts_of_deliveries::Migration),
            Box::new(m20261130_000124_index_sort_orders_of_packages_and_template_projects::Migration),
            Box::new(m20261130_000125_mark_deleted_webhooks::Migration),
            Box::new(m20261201_000126_refuse_deletions_of_audit_events::Migration),
            Box::new(m20261201_000127_store_access_levels_of_project_areas::Migration),
            Box::new(m20261201_000128_index_digests_of_package_files::Migration),
            Box::new(m20261201_000130_index_replaced_jobs_and_newest_pipelines::Migration),
        ]
    }
}
