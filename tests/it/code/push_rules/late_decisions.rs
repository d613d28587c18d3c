//! Rules that are added while a push or a request waits.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::push_rule;
use crate::code::update_authority::WaitingRequest;
use crate::git::push_decision::SlowPush;
use crate::support::git::{Work, address};
use crate::support::{TestServer, on_every_database};

async fn rule_that_is_added_during_a_push_refuses_it(server: TestServer) {
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    let dev = server.create_user("dev").await;
    server.insert_member(project.id, dev.id, AccessLevel::Maintainer).await;
    let work = Work::new().await;
    let old = work.commit("a", "1").await;
    work.git(&["push", "--quiet", &address(&server.base, "dev", &dev.token, "g/p"), "main:topic", "main"]).await;
    let new = work.commit("id_rsa", "2").await;
    let path = format!("/projects/{}", project.id);
    let begin = async || {
        let update = ("refs/heads/topic", Some(old.as_str()), new.as_str());
        let db = &server.backend.database;
        SlowPush::begin((&server.base, "g/p"), ("dev", &dev.token), db, &work, update).await
    };
    let topic = async || server.repository(project.id).branch("topic").await.expect("a branch").commit.to_string();
    for (rule, text) in [
        (json!({"prevent_secrets": true}), "File name id_rsa was prohibited by the pattern"),
        (json!({"branch_name_regex": "^x"}), "Branch name does not follow the pattern '^x'"),
    ] {
        let push = begin().await;
        push_rule(&server.root(), &path, rule).await;
        let response = push.finish().await;
        assert!(response.contains(text), "{text}: {response}");
        assert!(response.contains("ng refs/heads/topic pre-receive hook declined"), "{response}");
        assert_eq!(topic().await, old);
        server.root().delete(&format!("{path}/push_rule")).await.expect(204);
    }
    push_rule(&server.root(), &path, json!({"prevent_secrets": true})).await;
    let push = begin().await;
    server.root().delete(&format!("{path}/push_rule")).await.expect(204);
    let response = push.finish().await;
    assert!(response.contains("ok refs/heads/topic"), "{response}");
    assert_eq!(topic().await, new);
}

async fn rule_that_is_added_during_a_request_refuses_it(server: TestServer) {
    let sample = crate::code::update_authority::Sample::new(&server).await;
    let refs = sample.project.git(&["for-each-ref"]);
    let path = format!("/projects/{}", sample.project.id);
    for (method, url, body) in sample.operations() {
        if method == reqwest::Method::DELETE {
            continue;
        }
        let waiting: WaitingRequest = sample.begin(&sample.dev.client, method, &url, body).await;
        let rule = json!({"branch_name_regex": "^x", "commit_message_regex": "^JIRA"});
        push_rule(&server.root(), &path, rule).await;
        // A tag on a known commit violates no rule.
        let status = if url.ends_with("/tags") { 201 } else { 400 };
        waiting.finish().await.expect(status);
        if status == 201 {
            server.root().delete(&sample.project.url("/tags/new")).await.expect(204);
        }
        assert_eq!(sample.project.git(&["for-each-ref"]), refs, "{url}");
        server.root().delete(&format!("{path}/push_rule")).await.expect(204);
    }
}

on_every_database![rule_that_is_added_during_a_push_refuses_it, rule_that_is_added_during_a_request_refuses_it,];
