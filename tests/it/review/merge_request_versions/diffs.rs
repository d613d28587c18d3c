//! Diffs of merge requests.

use serde_json::json;

use super::{Fixture, values};
use crate::review::merge_requests;
use crate::support::{TestServer, on_every_database};

async fn diffs_list_the_changed_files_in_pages(server: TestServer) {
    let fixture = Fixture::new(&server, "files").await;
    fixture.copy.git(&["rm", "--quiet", "docs/guide.md"]).await;
    fixture.copy.git(&["mv", "run.sh", "start.sh"]).await;
    fixture.copy.commit("README.md", "Hello\nagain\n").await;
    fixture.push().await;
    let all = fixture.root.get(&fixture.url("/diffs")).await.expect(200);
    assert_eq!(all.header("X-Total"), "4");
    let files = all.json();
    assert_eq!(values(&files, "new_path"), ["README.md", "docs/guide.md", "start.sh", "x.txt"].map(|path| json!(path)));
    assert_eq!(
        files[0],
        json!({
            "old_path": "README.md", "new_path": "README.md", "a_mode": "100644", "b_mode": "100644",
            "new_file": false, "renamed_file": false, "deleted_file": false,
            "diff": "@@ -1 +1,2 @@\n Hello\n+again\n", "collapsed": false, "too_large": false,
        })
    );
    assert_eq!((&files[1]["b_mode"], &files[1]["deleted_file"]), (&json!("0"), &json!(true)));
    assert_eq!((&files[2]["old_path"], &files[2]["renamed_file"]), (&json!("run.sh"), &json!(true)));
    assert_eq!((&files[3]["a_mode"], &files[3]["new_file"]), (&json!("0"), &json!(true)));
    let page = fixture.root.get(&fixture.url("/diffs?page=2&per_page=3")).await.expect(200);
    assert_eq!(page.pluck("new_path"), [json!("x.txt")]);
    let with_paths = fixture.get("/diffs?unidiff=true").await;
    let diffs =
        ["--- a/README.md\n+++ b/README.md\n@@", "--- a/docs/guide.md\n+++ /dev/null\n@@", "", "--- /dev/null\n"];
    for (diff, start) in values(&with_paths, "diff").iter().zip(diffs) {
        let diff = diff.as_str().expect("a text");
        assert!(diff.starts_with(start) && diff.is_empty() == start.is_empty(), "{diff}");
    }
    // The diffs are those of the newest version, and of the merge request with its changes.
    let newest = fixture.get("/versions").await[0]["id"].clone();
    assert_eq!(fixture.get(&format!("/versions/{newest}")).await["diffs"], files);
    let changes = fixture.get("/changes").await["changes"].clone();
    assert_eq!(values(&changes, "diff"), values(&files, "diff"));
}

async fn large_diffs_are_omitted_with_their_reason(server: TestServer) {
    let fixture = Fixture::new(&server, "large").await;
    let large = "0123456789\n".repeat(10_000);
    let lines = "\n".repeat(20_000);
    fixture.branch("big", "main", "a-large.txt", &large);
    for name in ["b", "c", "d", "e"] {
        fixture.branch("big", "big", name, &lines);
    }
    let iid = merge_requests::propose(&fixture.root, fixture.project.id, "big", "main", json!({})).await;
    let url = format!("/projects/{}/merge_requests/{iid}/diffs", fixture.project.id);
    let files = fixture.root.get(&url).await.expect(200).json();
    assert_eq!(values(&files, "too_large"), [true, false, false, false, false].map(|flag| json!(flag)));
    assert_eq!(values(&files, "collapsed"), [false, false, false, true, true].map(|flag| json!(flag)));
    let is_empty = |diff: &serde_json::Value| diff.as_str().expect("a text").is_empty();
    let empty: Vec<bool> = values(&files, "diff").iter().map(is_empty).collect();
    assert_eq!(empty, [true, false, false, true, true]);
}

async fn raw_diff_applies_with_git(server: TestServer) {
    let fixture = Fixture::new(&server, "raw").await;
    fixture.copy.git(&["mv", "run.sh", "start.sh"]).await;
    fixture.copy.commit("README.md", "Grüße\n").await;
    fixture.push().await;
    let raw = fixture.root.get(&fixture.url("/raw_diffs")).await.expect(200);
    assert_eq!(raw.header("content-type"), "text/plain");
    assert!(raw.header("content-disposition").contains("1.diff"), "{}", raw.header("content-disposition"));
    let text = raw.text();
    assert!(text.starts_with("diff --git a/README.md b/README.md\n"), "{text}");
    assert_eq!(
        text.trim_end(),
        fixture.project.git(&["diff", "--full-index", "--find-renames=30%", "main...feature/x"])
    );
    fixture.copy.git(&["checkout", "--quiet", "-b", "applied", "origin/main~1"]).await;
    std::fs::write(fixture.copy.path.join(".git/patch"), raw.body.clone()).expect("a file");
    fixture.copy.git(&["apply", "--index", ".git/patch"]).await;
    let tree = fixture.copy.git(&["write-tree"]).await;
    assert_eq!(tree, fixture.project.id("feature/x^{tree}"));
}

on_every_database![
    diffs_list_the_changed_files_in_pages,
    large_diffs_are_omitted_with_their_reason,
    raw_diff_applies_with_git,
];
