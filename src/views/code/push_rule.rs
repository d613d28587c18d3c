//! Push rules of projects and groups.

use storage::entities::push_rules::Model;

/// Returns the push rule of a project.
#[must_use]
pub fn project_push_rule(rule: Model) -> contract::ProjectPushRule {
    contract::ProjectPushRule {
        id: rule.id,
        project_id: rule.project_id.unwrap_or_default(),
        created_at: rule.created_at.into(),
        commit_message_regex: rule.commit_message_regex,
        commit_message_negative_regex: rule.commit_message_negative_regex,
        branch_name_regex: rule.branch_name_regex,
        author_email_regex: rule.author_email_regex,
        file_name_regex: rule.file_name_regex,
        deny_delete_tag: rule.deny_delete_tag,
        member_check: rule.member_check,
        prevent_secrets: rule.prevent_secrets,
        max_file_size: rule.max_file_size.into(),
        commit_committer_check: rule.commit_committer_check,
        commit_committer_name_check: rule.commit_committer_name_check,
        reject_unsigned_commits: rule.reject_unsigned_commits,
        reject_non_dco_commits: rule.reject_non_dco_commits,
    }
}

/// Returns the push rule of a group.
#[must_use]
pub fn group_push_rule(rule: Model) -> contract::GroupPushRule {
    contract::GroupPushRule {
        id: rule.id,
        created_at: rule.created_at.into(),
        commit_message_regex: rule.commit_message_regex,
        commit_message_negative_regex: rule.commit_message_negative_regex,
        branch_name_regex: rule.branch_name_regex,
        author_email_regex: rule.author_email_regex,
        file_name_regex: rule.file_name_regex,
        deny_delete_tag: rule.deny_delete_tag,
        member_check: rule.member_check,
        prevent_secrets: rule.prevent_secrets,
        max_file_size: rule.max_file_size.into(),
        commit_committer_check: rule.commit_committer_check,
        commit_committer_name_check: rule.commit_committer_name_check,
        reject_unsigned_commits: rule.reject_unsigned_commits,
        reject_non_dco_commits: rule.reject_non_dco_commits,
    }
}
