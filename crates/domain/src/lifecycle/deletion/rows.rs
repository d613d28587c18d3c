//! Deletion of the rows that refer to a project, namespace, user or webhook in batches, so that the deletion of its own
//! row does not cascade to many rows.

use std::sync::Arc;

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::query::{batch_of_children, delete_batch, detach_batch};
use crate::review::merge_requests::closing_issues;

/// Number of rows that one transaction deletes. On SQLite, a long statement blocks all other writers.
const BATCH: u64 = 1_000;

/// The table of the issues that merge requests close.
const CLOSING: &str = "closing_merge_requests";

/// A table whose rows refer to rows of another table.
struct Referrer {
    table: &'static str,
    /// The column with the ID of the row of the other table.
    column: &'static str,
    action: Action,
}

/// Action for the rows, as the foreign key determines.
#[derive(Clone, Copy)]
enum Action {
    /// They are deleted, after the rows of these tables.
    Delete(&'static [Referrer]),
    /// The column becomes null.
    Detach,
}

const fn referrer(table: &'static str, column: &'static str) -> Referrer {
    parent(table, column, &[])
}

const fn parent(table: &'static str, column: &'static str, referrers: &'static [Referrer]) -> Referrer {
    Referrer {
        table,
        column,
        action: Action::Delete(referrers),
    }
}

const fn detached(table: &'static str, column: &'static str) -> Referrer {
    Referrer {
        table,
        column,
        action: Action::Detach,
    }
}

const OF_NOTES: &[Referrer] = &[referrer("award_emoji", "note_id"), referrer("todos", "note_id")];

const OF_ISSUES: &[Referrer] = &[
    parent("notes", "issue_id", OF_NOTES),
    parent("notes", "referenced_issue_id", OF_NOTES),
    referrer("award_emoji", "issue_id"),
    referrer("todos", "issue_id"),
    referrer("timelogs", "issue_id"),
    referrer("subscriptions", "issue_id"),
    referrer("issue_labels", "issue_id"),
    referrer("issue_assignees", "issue_id"),
    referrer("resource_events", "issue_id"),
    referrer("issue_links", "source_id"),
    referrer("issue_links", "target_id"),
    referrer(CLOSING, "issue_id"),
];

const OF_MERGE_REQUESTS: &[Referrer] = &[
    parent("notes", "merge_request_id", OF_NOTES),
    parent("notes", "referenced_merge_request_id", OF_NOTES),
    referrer("award_emoji", "merge_request_id"),
    referrer("todos", "merge_request_id"),
    referrer("timelogs", "merge_request_id"),
    referrer("subscriptions", "merge_request_id"),
    referrer("resource_events", "merge_request_id"),
    referrer("merge_request_labels", "merge_request_id"),
    referrer("merge_request_assignees", "merge_request_id"),
    referrer("merge_request_reviewers", "merge_request_id"),
    referrer("merge_request_commits", "merge_request_id"),
    referrer("merge_request_versions", "merge_request_id"),
    referrer(CLOSING, "merge_request_id"),
    referrer("deployment_merge_requests", "merge_request_id"),
    referrer("status_check_deliveries", "merge_request_id"),
    referrer("status_check_responses", "merge_request_id"),
    referrer("approvals", "merge_request_id"),
    referrer("approval_rules", "merge_request_id"),
];

const OF_SNIPPETS: &[Referrer] = &[
    parent("notes", "snippet_id", OF_NOTES),
    referrer("award_emoji", "snippet_id"),
    referrer("snippet_contents", "snippet_id"),
];

const OF_EPICS: &[Referrer] = &[
    parent("notes", "epic_id", OF_NOTES),
    referrer("award_emoji", "epic_id"),
    referrer("todos", "epic_id"),
    referrer("subscriptions", "epic_id"),
    referrer("epic_labels", "epic_id"),
    referrer("epic_issues", "epic_id"),
];

const OF_DEPLOYMENTS: &[Referrer] = &[referrer("deployment_merge_requests", "deployment_id")];

const OF_ENVIRONMENTS: &[Referrer] = &[referrer("metrics_annotations", "environment_id")];

const OF_CLUSTERS: &[Referrer] = &[referrer("metrics_annotations", "cluster_id")];

const OF_PIPELINES: &[Referrer] = &[
    referrer("ci_jobs", "pipeline_id"),
    referrer("pipeline_variables", "pipeline_id"),
];

const OF_RELEASES: &[Referrer] = &[
    referrer("release_evidences", "release_id"),
    referrer("release_links", "release_id"),
    referrer("release_milestones", "release_id"),
];

const OF_LABELS: &[Referrer] = &[referrer("subscriptions", "label_id")];

const OF_HOOKS: &[Referrer] = &[referrer("hook_deliveries", "hook_id")];

const OF_EVENTS: &[Referrer] = &[
    referrer("hook_deliveries", "event_id"),
    referrer("status_check_deliveries", "event_id"),
];

const OF_PULL_MIRRORS: &[Referrer] = &[referrer("pull_mirror_refs", "mirror_id")];

/// The tables without a limit on the number of rows of a project. Issues and merge requests are deleted before the
/// labels and milestones that they refer to, and deployments before the jobs.
const OF_PROJECT: &[Referrer] = &[
    parent("project_hooks", "project_id", OF_HOOKS),
    parent("events", "project_id", OF_EVENTS),
    parent("deployments", "project_id", OF_DEPLOYMENTS),
    parent("environments", "project_id", OF_ENVIRONMENTS),
    parent("clusters", "project_id", OF_CLUSTERS),
    parent("pipelines", "project_id", OF_PIPELINES),
    parent("merge_requests", "target_project_id", OF_MERGE_REQUESTS),
    parent("issues", "project_id", OF_ISSUES),
    parent("notes", "referenced_project_id", OF_NOTES),
    parent("snippets", "project_id", OF_SNIPPETS),
    parent("releases", "project_id", OF_RELEASES),
    parent("labels", "project_id", OF_LABELS),
    parent("pull_mirrors", "project_id", OF_PULL_MIRRORS),
    referrer("milestones", "project_id"),
    referrer("ref_updates", "project_id"),
    referrer("members", "project_id"),
    referrer("commit_comments", "project_id"),
    referrer("vulnerabilities", "project_id"),
    referrer("todos", "project_id"),
    referrer("project_stars", "project_id"),
    referrer("project_fetches", "project_id"),
    referrer("project_uploads", "project_id"),
    referrer("job_tokens", "project_id"),
];

/// The same for a namespace without subgroups and projects.
const OF_NAMESPACE: &[Referrer] = &[
    parent("epics", "namespace_id", OF_EPICS),
    parent("labels", "namespace_id", OF_LABELS),
    parent("clusters", "namespace_id", OF_CLUSTERS),
    referrer("milestones", "namespace_id"),
    referrer("todos", "namespace_id"),
    referrer("members", "namespace_id"),
    referrer("project_shares", "group_id"),
    referrer("group_shares", "with_group_id"),
];

/// The same for a user without credentials, stars, award emoji and a personal namespace.
const OF_USER: &[Referrer] = &[
    parent("snippets", "author_id", OF_SNIPPETS),
    referrer("todos", "user_id"),
    referrer("subscriptions", "user_id"),
    referrer("issue_assignees", "user_id"),
    referrer("merge_request_assignees", "user_id"),
    referrer("merge_request_reviewers", "user_id"),
    referrer("approvals", "user_id"),
    detached("todos", "author_id"),
    detached("events", "author_id"),
    detached("notes", "author_id"),
    detached("notes", "updated_by_id"),
    detached("notes", "resolved_by_id"),
    detached("commit_comments", "author_id"),
    detached("issues", "author_id"),
    detached("issues", "last_edited_by_id"),
    detached("issues", "closed_by_id"),
    detached("merge_requests", "author_id"),
    detached("merge_requests", "last_edited_by_id"),
    detached("merge_requests", "closed_by_id"),
    detached("merge_requests", "merged_by_id"),
    detached("merge_requests", "merge_user_id"),
    detached("epics", "author_id"),
    detached("epics", "last_edited_by_id"),
    detached("epics", "closed_by_id"),
    detached("resource_events", "user_id"),
    detached("timelogs", "user_id"),
    detached("ref_updates", "user_id"),
    detached("pipelines", "user_id"),
    detached("ci_jobs", "user_id"),
    detached("deployments", "user_id"),
    detached("releases", "author_id"),
    detached("packages", "creator_id"),
    detached("project_uploads", "uploader_id"),
    detached("vulnerabilities", "author_id"),
    detached("vulnerabilities", "updated_by_id"),
    detached("vulnerabilities", "last_edited_by_id"),
    detached("vulnerabilities", "closed_by_id"),
    detached("projects", "creator_id"),
    detached("members", "created_by_id"),
];

const OF_COMMENTER: &[Referrer] = &[referrer("commit_comments", "author_id")];

/// The row that is deleted afterwards.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowOwner {
    Project(i64),
    Namespace(i64),
    /// A user whose commit comments are deleted too.
    Commenter(i64),
    User(i64),
    Webhook(i64),
}

enum Step {
    /// Deletes or detaches the rows of a table that refer to these rows.
    Clear(&'static Referrer, Arc<[i64]>),
    /// Deletes rows of a table.
    Delete(&'static str, Arc<[i64]>),
}

/// Deletes or detaches the rows that refer to a row that is being deleted, in tables without a limit on their number. It
/// can be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn delete_all(backend: &Backend, owner: RowOwner) -> Result<()> {
    let (referrers, owner_id) = match owner {
        RowOwner::Project(id) => (OF_PROJECT, id),
        RowOwner::Namespace(id) => (OF_NAMESPACE, id),
        RowOwner::Commenter(id) => (OF_COMMENTER, id),
        RowOwner::User(id) => (OF_USER, id),
        RowOwner::Webhook(id) => (OF_HOOKS, id),
    };
    let database = &backend.database;
    let mut steps = Vec::new();
    push_all(&mut steps, referrers, &Arc::from([owner_id]));
    while let Some(step) = steps.pop() {
        match step {
            Step::Clear(referrer, parents) => {
                let column = (referrer.table, referrer.column);
                let ids = batch_of_children(database, column, &parents, BATCH).await?;
                if ids.is_empty() {
                    continue;
                }
                let ids: Arc<[i64]> = Arc::from(ids);
                steps.push(Step::Clear(referrer, Arc::clone(&parents)));
                match referrer.action {
                    Action::Delete(referrers) => {
                        steps.push(Step::Delete(referrer.table, Arc::clone(&ids)));
                        push_all(&mut steps, referrers, &ids);
                    }
                    Action::Detach => {
                        database
                            .transaction(async |transaction| {
                                detach_batch(transaction, column, &parents, &ids).await
                            })
                            .await?;
                    }
                }
            }
            Step::Delete(table, ids) => {
                database
                    .transaction(async |transaction| {
                        // Issues of other projects store the number of their closing merge requests. Of all owners, only
                        // projects have such rows.
                        let closed = match table {
                            CLOSING => closing_issues::lock_closed(transaction, &ids, owner_id).await?,
                            _ => Vec::new(),
                        };
                        delete_batch(transaction, table, &ids).await?;
                        closing_issues::update_counts(transaction, closed).await
                    })
                    .await?;
            }
        }
    }
    Ok(())
}

/// Adds the steps for all these tables. The last step of the list runs first.
fn push_all(steps: &mut Vec<Step>, referrers: &'static [Referrer], parents: &Arc<[i64]>) {
    let clear = |referrer| Step::Clear(referrer, Arc::clone(parents));
    steps.extend(referrers.iter().rev().map(clear));
}
