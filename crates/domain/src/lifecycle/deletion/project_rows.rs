//! Deletion of the rows of a project in batches, so that the deletion of its own row does not cascade to many rows.

use std::sync::Arc;

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::query::{batch_of_children, delete_batch};
use crate::review::merge_requests::closing_issues;

/// Number of rows that one transaction deletes. On SQLite, a long statement blocks all other writers.
const BATCH: u64 = 1_000;

/// The table of the issues that merge requests close.
const CLOSING: &str = "closing_merge_requests";

/// A table whose rows are deleted with the rows of another table.
struct Referrer {
    table: &'static str,
    /// The column with the ID of the row of the other table.
    column: &'static str,
    /// The tables whose rows are deleted before the rows of this table.
    referrers: &'static [Self],
}

const fn referrer(table: &'static str, column: &'static str) -> Referrer {
    Referrer {
        table,
        column,
        referrers: &[],
    }
}

const fn parent(table: &'static str, column: &'static str, referrers: &'static [Referrer]) -> Referrer {
    Referrer {
        table,
        column,
        referrers,
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

enum Step {
    /// Deletes the rows of a table that refer to these rows.
    Clear(&'static Referrer, Arc<[i64]>),
    /// Deletes rows of a table.
    Delete(&'static str, Arc<[i64]>),
}

/// Deletes the rows that refer to a project that is being deleted, from tables without a limit on their number. It can
/// be interrupted at any point and run again.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn delete_all(backend: &Backend, project_id: i64) -> Result<()> {
    let mut steps = Vec::new();
    push_all(&mut steps, OF_PROJECT, &Arc::from([project_id]));
    while let Some(step) = steps.pop() {
        match step {
            Step::Clear(referrer, parents) => {
                let column = (referrer.table, referrer.column);
                let ids = batch_of_children(backend.database.read(), column, &parents, BATCH).await?;
                if ids.is_empty() {
                    continue;
                }
                let ids: Arc<[i64]> = Arc::from(ids);
                steps.push(Step::Clear(referrer, parents));
                steps.push(Step::Delete(referrer.table, Arc::clone(&ids)));
                push_all(&mut steps, referrer.referrers, &ids);
            }
            Step::Delete(table, ids) => {
                let database = &backend.database;
                database
                    .transaction(async |transaction| {
                        // Issues of other projects store the number of their closing merge requests.
                        let closed = match table {
                            CLOSING => closing_issues::lock_closed(transaction, &ids, project_id).await?,
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
