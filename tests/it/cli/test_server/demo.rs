//! Test servers with the data of the demo.

use crate::support::git::{self, Work};
use crate::support::temporary_directory;
use crate::support::test_server::{RunningTestServer, command};

const TIME: &str = "2023-01-31T00:00:00.000Z";
const PROJECT: &str = "/projects/engines%2Fdifference";

async fn data_of_the_demo_is_restored_by_resets() {
    let directory = temporary_directory();
    let server = RunningTestServer::start(directory.path(), &["--demo", "--freeze-time", TIME]).await;
    let root = server.root();
    assert_eq!(root.get(PROJECT).await.expect(200).json()["id"], 1);
    assert_eq!(root.get("/projects/harbor%2Flighthouse").await.expect(200).json()["star_count"], 2);
    let issues = root.get("/issues?scope=all&per_page=100").await.expect(200);
    for time in [issues.pluck("created_at"), issues.pluck("updated_at")].concat() {
        assert!(time.as_str().unwrap() <= TIME, "{time}");
    }
    root.delete(&format!("{PROJECT}/issues/1")).await.expect(204);
    server.reset().await;
    root.get(&format!("{PROJECT}/issues/1")).await.expect(200);
    let notebook = git::address(server.text("url"), "cleo", server.text("password"), "cleo/notebook");
    Work::empty().git(&["ls-remote", "--exit-code", &notebook, "refs/heads/main"]).await;
}

async fn demo_and_snapshot_are_refused_together() {
    let directory = temporary_directory();
    let output = command(directory.path(), &["--demo", "--snapshot", "saved"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

harness::tests![data_of_the_demo_is_restored_by_resets, demo_and_snapshot_are_refused_together,];
