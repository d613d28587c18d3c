//! Versions and diffs of merge requests.

use contract::{MergeRequestDiff, MergeRequestVersion, MergeRequestVersionDetail, MergeRequestVersionState};
use domain::review::merge_requests::VersionDetail;
use git::DiffEntry;
use storage::entities::merge_request_versions::Model;

use crate::views::code::commit::commit;

/// Returns a version of a list.
#[must_use]
pub fn version(version: Model) -> MergeRequestVersion {
    MergeRequestVersion {
        id: version.id,
        state: state(&version),
        head_commit_sha: version.head_sha,
        base_commit_sha: version.base_sha,
        start_commit_sha: version.start_sha,
        created_at: version.created_at.into(),
        merge_request_id: version.merge_request_id,
        real_size: version.real_size,
    }
}

/// Returns a version with its commits and diffs; `project_url` is the URL of the target project.
#[must_use]
pub fn detail(detail: VersionDetail, unidiff: bool, project_url: &str) -> MergeRequestVersionDetail {
    let version = detail.version;
    let commits = detail.commits.into_iter();
    let diffs = detail.diff.entries.into_iter();
    MergeRequestVersionDetail {
        id: version.id,
        state: state(&version),
        head_commit_sha: version.head_sha,
        base_commit_sha: version.base_sha,
        start_commit_sha: version.start_sha,
        created_at: version.created_at.into(),
        merge_request_id: version.merge_request_id,
        real_size: version.real_size,
        commits: commits.map(|found| commit(found, project_url)).collect(),
        diffs: diffs.map(|entry| diff(entry, unidiff)).collect(),
    }
}

fn state(version: &Model) -> MergeRequestVersionState {
    match version.real_size.as_deref() {
        Some("0") => MergeRequestVersionState::Empty,
        _ => MergeRequestVersionState::Collected,
    }
}

/// Returns the changes of a file. With `unidiff`, the lines with the paths are added to the diff, if it has changed lines.
#[must_use]
pub fn diff(entry: DiffEntry, unidiff: bool) -> MergeRequestDiff {
    let diff = match unidiff && entry.diff.starts_with("@@") {
        true => with_paths(&entry),
        false => entry.diff,
    };
    MergeRequestDiff {
        old_path: entry.old_path,
        new_path: entry.new_path,
        a_mode: entry.a_mode,
        b_mode: entry.b_mode,
        new_file: entry.new_file,
        renamed_file: entry.renamed_file,
        deleted_file: entry.deleted_file,
        diff,
        collapsed: entry.collapsed,
        too_large: entry.too_large,
    }
}

fn with_paths(entry: &DiffEntry) -> String {
    let path = |is_absent: bool, prefix: &str, path: &str| match is_absent {
        true => "/dev/null".to_owned(),
        false => format!("{prefix}/{path}"),
    };
    let old = path(entry.new_file, "a", &entry.old_path);
    let new = path(entry.deleted_file, "b", &entry.new_path);
    format!("--- {old}\n+++ {new}\n{}", entry.diff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unidiff_adds_paths_to_changed_lines_only() {
        let entry = DiffEntry {
            old_path: "a.txt".to_owned(),
            new_path: "b.txt".to_owned(),
            diff: "@@ -1 +1 @@\n-x\n+y\n".to_owned(),
            ..DiffEntry::default()
        };
        let shown = diff(entry.clone(), true).diff;
        assert_eq!(shown, "--- a/a.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+y\n");
        assert_eq!(diff(entry.clone(), false).diff, entry.diff);
        let added = DiffEntry {
            new_file: true,
            ..entry.clone()
        };
        assert!(diff(added, true).diff.starts_with("--- /dev/null\n+++ b/b.txt\n"));
        let deleted = DiffEntry {
            deleted_file: true,
            ..entry.clone()
        };
        assert!(
            diff(deleted, true)
                .diff
                .starts_with("--- a/a.txt\n+++ /dev/null\n")
        );
        for unchanged in ["", "Binary files a/x and b/x differ\n"] {
            let entry = DiffEntry {
                diff: unchanged.to_owned(),
                ..entry.clone()
            };
            assert_eq!(diff(entry, true).diff, unchanged);
        }
    }
}
