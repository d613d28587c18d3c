//! Operations that return 201 without the header `Location`.

use std::collections::BTreeSet;

use contract::document::{Extent, Format, Version, document_text};
use serde_json::{Map, Value};

/// Reasons, and the operations to which they apply. An operation is only removed from this list: a new operation that
/// creates a resource has an operation that reads the resource (`x-created` in `openapi/EXTENSIONS.md`).
const WITHOUT_LOCATION: [(&str, &[&str]); 4] = [
    (
        "The operation changes a resource that exists.",
        &[
            "activate_user",
            "approve_merge_request",
            "archive_project",
            "block_user",
            "cancel_merge_when_pipeline_succeeds",
            "confirm_vulnerability",
            "create_fork_relation",
            "deactivate_user",
            "dismiss_vulnerability",
            "finish_todo",
            "override_group_member",
            "renew_application_secret",
            "reset_feature_flags_client_token",
            "resolve_vulnerability",
            "restore_group",
            "restore_project",
            "retry_pipeline",
            "set_feature_gate",
            "set_merge_request_approvals_required",
            "star_project",
            "subscribe_to_group_label",
            "subscribe_to_issue",
            "subscribe_to_merge_request",
            "subscribe_to_project_label",
            "take_ownership_of_pipeline_schedule",
            "transfer_group",
            "transfer_project_to_group",
            "unapprove_merge_request",
            "unarchive_project",
            "unblock_user",
            "unlock_user",
            "unstar_project",
            "unsubscribe_from_group_label",
            "unsubscribe_from_issue",
            "unsubscribe_from_merge_request",
            "unsubscribe_from_project_label",
            "update_approval_settings",
        ],
    ),
    (
        "The operation starts a task, and the response does not identify a resource.",
        &[
            "create_vulnerability_report",
            "play_pipeline_schedule",
            "start_housekeeping",
            "update_repository_size",
            "upload_python_package",
        ],
    ),
    (
        "The response is the only one that contains the secrets.",
        &["confirm_two_factor", "create_recovery_codes", "create_scim_token", "start_two_factor"],
    ),
    (
        "No operation of the caller reads a single resource of this kind.",
        &[
            "add_epic_issue",
            "add_issue_spent_time",
            "add_job_token_scope_group",
            "add_job_token_scope_project",
            "add_merge_request_spent_time",
            "annotate_cluster",
            "annotate_environment",
            "create_application",
            "create_commit_comment",
            "create_commit_status",
            "create_external_status_check",
            "create_issue_todo",
            "create_merge_request_todo",
            "create_package_protection_rule",
            "create_personal_access_token",
            "create_pipeline_schedule_variable",
            "create_public_deploy_key",
            "create_status_check_response",
            "create_user_email",
            "resend_project_hook_delivery",
            "share_group",
            "share_project",
            "star_dashboard",
            "test_project_hook",
            "upload_project_file",
        ],
    ),
];
/// Number of operations in the list, which only becomes lower.
const MAX_WITHOUT_LOCATION: usize = 71;

fn operations_without_location_are_listed_with_reasons() {
    let text = document_text(Version::V3_0, Extent::Complete, Format::Json).expect("a document");
    let root: Value = serde_json::from_str(&text).expect("JSON");
    let items = root["paths"].as_object().into_iter().flat_map(Map::values);
    let operations = items.flat_map(|item| item.as_object().into_iter().flat_map(Map::values));
    let without = operations.filter(|operation| {
        let created = &operation["responses"]["201"];
        created.is_object() && created["headers"]["Location"].is_null()
    });
    let without: BTreeSet<&str> = without.filter_map(|operation| operation["operationId"].as_str()).collect();
    let listed: Vec<&str> = WITHOUT_LOCATION.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
    assert_eq!(without, listed.iter().copied().collect());
    assert_eq!(listed.len(), without.len(), "an operation is listed twice");
    assert!(listed.len() <= MAX_WITHOUT_LOCATION, "{} operations return no Location", listed.len());
}

harness::tests![operations_without_location_are_listed_with_reasons];
