//! Expressions that take much time or memory, and limits.

use serde_json::json;

use super::pushes::Sample;
use crate::support::{TestServer, on_every_database};

async fn hostile_expression_does_not_delay_a_push(server: TestServer) {
    let sample = Sample::new(&server).await;
    let hostile = r"(x+x+)+y|(a|a?)+b|([a-z]+)*\d|(.*.*)*=$";
    sample.rule(json!({"commit_message_regex": hostile, "file_name_regex": hostile})).await;
    let name = "x".repeat(200);
    sample.work.git(&["checkout", "--quiet", "-b", "topic"]).await;
    std::fs::write(sample.work.path.join(&name), "1").expect("a file");
    sample.work.git(&["add", "--all"]).await;
    let message = "x".repeat(60_000);
    sample.work.git(&["commit", "--quiet", "-m", &message]).await;
    let started = std::time::Instant::now();
    sample.refused(&["topic"], "Commit message does not follow the pattern").await;
    assert!(started.elapsed().as_secs() < 30);
}

async fn message_that_is_too_long_is_refused(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.work.git(&["checkout", "--quiet", "-b", "topic"]).await;
    let message = sample.work.path.join(".git/message");
    std::fs::write(&message, "x".repeat(70_000)).expect("a file");
    let message = message.to_str().expect("a path");
    sample.work.git(&["commit", "--quiet", "--allow-empty", "-F", message]).await;
    sample.rule(json!({"commit_message_regex": "x"})).await;
    sample.refused(&["topic"], "Commit message is too long (maximum is 65536 bytes)").await;
    std::fs::write(message, "x".repeat(2 << 20)).expect("a file");
    sample.work.git(&["commit", "--quiet", "--allow-empty", "-F", message]).await;
    sample.rule(json!({"member_check": true})).await;
    sample.refused(&["topic"], "The push rules of the project cannot be checked: the new commits are too large").await;
    sample.rule(json!({"branch_name_regex": "x"})).await;
    sample.refused(&["topic"], "Branch name does not follow the pattern 'x'").await;
    sample.rule(json!({"branch_name_regex": "topic"})).await;
    sample.pushed(&["topic"]).await;
}

async fn push_of_too_many_commits_is_refused(server: TestServer) {
    use tokio::io::AsyncWriteExt;
    let sample = Sample::new(&server).await;
    let commit = "commit refs/heads/many\ncommitter T <t@example.com> 1700000000 +0000\ndata 2\nm\n";
    let mut import =
        sample.work.command(&["fast-import", "--quiet"]).stdin(std::process::Stdio::piped()).spawn().expect("git");
    let mut stdin = import.stdin.take().expect("stdin");
    stdin.write_all(commit.repeat(10_001).as_bytes()).await.expect("input");
    drop(stdin);
    assert!(import.wait().await.expect("git").success());
    sample.rule(json!({"prevent_secrets": true})).await;
    let text = "The push rules of the project cannot be checked: there are more than 10,000 new commits. Push fewer commits at \
                once.";
    sample.refused(&["many"], text).await;
    sample.pushed(&["many~1:refs/heads/many"]).await;
    sample.pushed(&["many"]).await;
}

on_every_database![
    hostile_expression_does_not_delay_a_push,
    message_that_is_too_long_is_refused,
    push_of_too_many_commits_is_refused,
];
