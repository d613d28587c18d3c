//! Diffs of the sample history, compared with the output of `git`.

use super::*;
use crate::test_repository::TestRepository;

/// Joins the patches of `git diff-tree` in the format of a diff entry.
fn hunks_of(patch: &str) -> String {
    let mut hunks = String::new();
    let mut inside = false;
    for line in patch.split_inclusive('\n') {
        if line.starts_with("diff --git ") {
            inside = false;
        }
        inside |= line.starts_with("@@") || line.starts_with("Binary files ");
        if inside {
            hunks.push_str(line);
        }
    }
    hunks
}

#[tokio::test]
async fn commit_patches_match_git() {
    let sample = TestRepository::with_history();
    let (mut renames, mut binaries, mut modes) = (0, 0, 0);
    for commit in sample.ids(&["rev-list", "--all"]).into_iter().step_by(2) {
        let diff = sample.repository.diff_commit(commit).await.unwrap();
        let name = commit.to_string();
        let patch = if sample.git(&["log", "-1", "--format=%P", &name]).trim().is_empty() {
            sample.git(&["diff-tree", "-p", "-M30%", "--root", "--no-commit-id", &name])
        } else {
            sample.git(&["diff-tree", "-p", "-M30%", &format!("{name}^1"), &name])
        };
        let ours: String = diff.entries.iter().map(|entry| entry.diff.as_str()).collect();
        assert_eq!(ours, hunks_of(&patch), "{commit}");
        assert_eq!(
            diff.entries.len(),
            patch.matches("diff --git ").count(),
            "{commit}"
        );
        assert!(!diff.truncated);
        renames += diff.entries.iter().filter(|entry| entry.renamed_file).count();
        binaries += diff
            .entries
            .iter()
            .filter(|entry| entry.diff.starts_with("Binary files "))
            .count();
        modes += diff
            .entries
            .iter()
            .filter(|entry| entry.b_mode == "100755")
            .count();
    }
    assert!(
        renames > 0 && binaries > 0 && modes > 0,
        "{renames} renames, {binaries} binaries, {modes} modes"
    );
}

#[tokio::test]
async fn commit_stats_match_git_numstat() {
    let sample = TestRepository::with_history();
    let commits = sample.ids(&["rev-list", "--all"]);
    let stats = sample.repository.stats(&commits).await.unwrap();
    for (commit, stats) in commits.iter().zip(&stats) {
        let name = commit.to_string();
        let merge_base = sample.git(&["log", "-1", "--format=%P", &name]);
        let before = merge_base
            .split_whitespace()
            .next()
            .unwrap_or("4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let mut expected = DiffStats::default();
        for line in sample.git(&["diff", "--numstat", before, &name]).lines() {
            let mut columns = line.split('\t').map(|number| number.parse().unwrap_or(0));
            expected.additions += columns.next().unwrap();
            expected.deletions += columns.next().unwrap();
        }
        assert_eq!(*stats, expected, "{commit}");
    }
    assert_eq!(sample.repository.stats(&commits).await.unwrap(), stats);
}

#[tokio::test]
async fn in_process_diff_matches_git_program() {
    let sample = TestRepository::with_history();
    let (mut direct_diffs, mut direct_stats, mut commits) = (0, 0, 0);
    for commit in sample.ids(&["rev-list", "--all"]) {
        let before = sample.repository.first_parent_or_nothing(commit).await.unwrap();
        let found = sample.repository.git2(move |repository| {
            let diff = direct::diff(repository, before, commit, &RESPONSE_LIMITS)?;
            Ok((diff, direct::stats(repository, before, commit)?))
        });
        let (diff, stats) = found.await.unwrap();
        commits += 1;
        if let Some(diff) = diff {
            direct_diffs += 1;
            let expected = sample.repository.diff(before, commit, None, RESPONSE_LIMITS);
            assert_eq!(diff, expected.await.unwrap(), "{commit}");
        }
        if let Some(stats) = stats {
            direct_stats += 1;
            let columns = sample.git(&["diff", "--numstat", &before.to_string(), &commit.to_string()]);
            let mut expected = DiffStats::default();
            for line in columns.lines() {
                let mut columns = line.split('\t').map(|number| number.parse::<u64>().unwrap());
                expected.additions += columns.next().unwrap();
                expected.deletions += columns.next().unwrap();
            }
            assert_eq!(stats, expected, "{commit}");
        }
    }
    assert!(
        direct_diffs * 2 > commits && direct_diffs < commits,
        "{direct_diffs} of {commits}"
    );
    assert!(direct_stats >= direct_diffs);
}

/// Creates a commit on `main` with `files`, each a mode, a path and a content.
fn commit_of(sample: &TestRepository, files: &[(&str, &str, &str)]) -> Oid {
    let mut stream =
        "commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\n".to_owned();
    if !sample.git(&["for-each-ref"]).is_empty() {
        stream.push_str("from refs/heads/main^0\n");
    }
    stream.push_str("deleteall\n");
    for (mode, path, content) in files {
        stream.push_str(&format!(
            "M {mode} inline {path}\ndata {}\n{content}\n",
            content.len()
        ));
    }
    sample.import(stream.as_bytes());
    sample.id("main")
}

#[tokio::test]
async fn diff_entries_have_modes_and_change_types() {
    let sample = TestRepository::empty();
    let text = "same\n".repeat(20);
    commit_of(
        &sample,
        &[
            ("100644", "a", &text),
            ("100644", "gone", "x\n"),
            ("100644", "kind", "k\n"),
            ("100644", "run", "r\n"),
        ],
    );
    let files = [
        ("100644", "b", text.as_str()),
        ("100644", "empty", ""),
        ("120000", "kind", "b"),
        ("100755", "run", "r\n"),
    ];
    let commit = commit_of(&sample, &files);
    let diff = sample.repository.diff_commit(commit).await.unwrap();
    let shown: Vec<_> = diff
        .entries
        .iter()
        .map(|entry| {
            let kind = (entry.new_file, entry.renamed_file, entry.deleted_file);
            let modes = (entry.a_mode.as_str(), entry.b_mode.as_str());
            (
                entry.old_path.as_str(),
                entry.new_path.as_str(),
                modes,
                kind,
                entry.diff.as_str(),
            )
        })
        .collect();
    let expected = [
        ("a", "b", ("100644", "100644"), (false, true, false), ""),
        ("empty", "empty", ("0", "100644"), (true, false, false), ""),
        (
            "gone",
            "gone",
            ("100644", "0"),
            (false, false, true),
            "@@ -1 +0,0 @@\n-x\n",
        ),
        (
            "kind",
            "kind",
            ("100644", "0"),
            (false, false, true),
            "@@ -1 +0,0 @@\n-k\n",
        ),
        (
            "kind",
            "kind",
            ("0", "120000"),
            (true, false, false),
            "@@ -0,0 +1 @@\n+b\n\\ No newline at end of file\n",
        ),
        ("run", "run", ("100644", "100755"), (false, false, false), ""),
    ];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn large_patch_is_omitted_and_long_file_list_is_truncated() {
    let sample = TestRepository::empty();
    let large = "0123456789\n".repeat(MAX_PATCH_BYTES / 11 + 1);
    let long_line = "y".repeat(3 * MAX_PATCH_BYTES);
    let commit = commit_of(
        &sample,
        &[
            ("100644", "large", &large),
            ("100644", "long", &long_line),
            ("100644", "small", "s\n"),
        ],
    );
    let diff = sample.repository.diff_commit(commit).await.unwrap();
    let shown: Vec<_> = diff
        .entries
        .iter()
        .map(|entry| (entry.too_large, entry.diff.as_str()))
        .collect();
    assert_eq!(shown, [(true, ""), (true, ""), (false, "@@ -0,0 +1 @@\n+s\n")]);
    assert!(!diff.truncated);

    let paths: Vec<_> = (0..MAX_FILES + 1).map(|number| format!("dir/{number}")).collect();
    let files: Vec<_> = paths
        .iter()
        .map(|path| ("100644", path.as_str(), path.as_str()))
        .collect();
    let many = sample
        .repository
        .diff_commit(commit_of(&sample, &files))
        .await
        .unwrap();
    assert_eq!((many.entries.len(), many.truncated), (MAX_FILES, true));
}

#[tokio::test]
async fn files_over_total_line_limit_are_listed_without_patch() {
    let sample = TestRepository::empty();
    let lines = "\n".repeat(MAX_LINES / 3);
    let names = ["a", "b", "c", "d", "e", "f"];
    let files = names.map(|name| ("100644", name, lines.as_str()));
    let long = sample
        .repository
        .diff_commit(commit_of(&sample, &files))
        .await
        .unwrap();
    let shown: Vec<_> = long
        .entries
        .iter()
        .map(|entry| (entry.new_path.as_str(), entry.collapsed))
        .collect();
    assert!(long.entries.iter().all(|entry| !entry.too_large));
    let expected = ["a", "b", "c", "d", "e", "f"].map(|name| (name, name > "b"));
    assert_eq!((shown.as_slice(), long.truncated), (expected.as_slice(), false));
}

#[tokio::test]
async fn changes_line_returns_true_only_for_changed_lines() {
    let sample = TestRepository::empty();
    commit_of(
        &sample,
        &[
            ("100644", "file", "one\ntwo\nthree\n"),
            ("100644", "other", "o\n"),
        ],
    );
    let commit = commit_of(
        &sample,
        &[
            ("100644", "file", "zero\none\nthree\nfour\n"),
            ("100644", "other", "p\n"),
        ],
    );
    let line = |path: &'static str, line, side| sample.repository.changes_line(commit, path, line, side);
    assert!(line("file", 1, LineSide::New).await.unwrap());
    assert!(!line("file", 2, LineSide::New).await.unwrap());
    assert!(line("file", 4, LineSide::New).await.unwrap());
    assert!(line("file", 2, LineSide::Old).await.unwrap());
    assert!(!line("file", 3, LineSide::Old).await.unwrap());
    assert!(!line("file", 99, LineSide::New).await.unwrap());
    assert!(!line("absent", 1, LineSide::New).await.unwrap());
}

#[tokio::test]
async fn diff_of_unknown_commit_fails() {
    let sample = TestRepository::with_history();
    let answer = sample.repository.diff_commit(Oid::ZERO_SHA1).await;
    assert!(matches!(answer, Err(Error::ObjectNotFound)), "{answer:?}");
}

#[tokio::test]
async fn raw_diff_equals_git_diff() {
    let sample = TestRepository::with_history();
    for (from, to) in [("main~20", "main"), ("main", "apart"), ("main", "main")] {
        let stream = sample
            .repository
            .raw_diff(sample.id(from), sample.id(to))
            .await
            .unwrap();
        let raw = stream.collect(1 << 24).await.unwrap();
        let expected = sample.git(&["diff", "--full-index", "--find-renames=30%", from, to]);
        assert_eq!(String::from_utf8_lossy(&raw), expected, "{from} {to}");
    }
    let missing = sample
        .repository
        .raw_diff(Oid::ZERO_SHA1, sample.id("main"))
        .await
        .unwrap();
    assert!(missing.collect(1 << 20).await.is_err());
}
