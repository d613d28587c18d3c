//! Push rules of projects and groups.

mod api_writes;
mod expressions;
mod groups;
mod late_decisions;
mod pushes;

use holdfast::config::ConfigOptions;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::spaces::group;
use crate::support::{Client, TestServer, on_every_database};

/// Creates the push rule of `/projects/:id` or `/groups/:id` and returns it.
pub async fn push_rule(client: &Client, path: &str, body: Value) -> Value {
    client.post(&format!("{path}/push_rule"), body).await.expect(201).json()
}

/// Replaces the push rule of `/projects/:id` or `/groups/:id`.
async fn replace_rule(client: &Client, path: &str, body: Value) {
    client.delete(&format!("{path}/push_rule")).await;
    push_rule(client, path, body).await;
}

async fn rule_of_project_has_all_attributes(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let rule = format!("{path}/push_rule");
    assert_eq!(root.get(&rule).await.expect(200).text(), "null");
    assert_eq!(root.put(&rule, json!({"max_file_size": 1})).await.expect(404).message(), "404 Push rule Not Found");
    assert_eq!(root.delete(&rule).await.expect(404).message(), "404 Push rule Not Found");
    let created = push_rule(&root, &path, json!({"deny_delete_tag": false})).await;
    assert_eq!(
        created,
        json!({
            "id": created["id"], "project_id": project.id, "created_at": created["created_at"],
            "commit_message_regex": null, "commit_message_negative_regex": null, "branch_name_regex": null,
            "author_email_regex": null, "file_name_regex": null, "deny_delete_tag": false, "member_check": false,
            "prevent_secrets": false, "max_file_size": 0, "commit_committer_check": false,
            "commit_committer_name_check": false, "reject_unsigned_commits": false, "reject_non_dco_commits": false,
        })
    );
    assert_eq!(root.get(&rule).await.expect(200).json(), created);
    let exists = root.post(&rule, json!({"max_file_size": 1})).await.expect(422);
    assert_eq!(
        (exists.message().as_str(), &exists.json()["error"]),
        ("Project push rule exists", &exists.json()["message"])
    );
    let all = json!({
        "commit_message_regex": "a", "commit_message_negative_regex": "b", "branch_name_regex": "c",
        "author_email_regex": "d", "file_name_regex": "e", "deny_delete_tag": true, "member_check": true,
        "prevent_secrets": true, "max_file_size": 7, "commit_committer_check": true,
        "commit_committer_name_check": true, "reject_unsigned_commits": true, "reject_non_dco_commits": true,
    });
    let changed = root.put(&rule, all.clone()).await.expect(200).json();
    for (name, value) in all.as_object().expect("an object") {
        assert_eq!(&changed[name], value, "{name}");
    }
    assert_eq!((&changed["id"], &changed["created_at"]), (&created["id"], &created["created_at"]));
    // Absent attributes do not change, and an empty expression is none.
    let cleared = root.put(&rule, json!({"branch_name_regex": "", "file_name_regex": null})).await.expect(200).json();
    assert_eq!((&cleared["branch_name_regex"], &cleared["file_name_regex"]), (&json!(null), &json!(null)));
    assert_eq!((&cleared["commit_message_regex"], &cleared["max_file_size"]), (&json!("a"), &json!(7)));
    assert_eq!(root.get(&rule).await.expect(200).json(), cleared);
    let old = server.root().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&rule).await.expect(412);
    root.delete(&rule).await.expect(204);
    assert_eq!(root.get(&rule).await.expect(200).text(), "null");
    push_rule(&root, &path, json!({"max_file_size": 1})).await;
}

async fn invalid_attributes_are_refused(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let (root, path) = (server.root(), format!("/projects/{}", project.id));
    let rule = format!("{path}/push_rule");
    let names = "deny_delete_tag, member_check, prevent_secrets, commit_message_regex, commit_message_negative_regex, \
                 branch_name_regex, author_email_regex, file_name_regex, max_file_size, commit_committer_check, \
                 commit_committer_name_check, reject_unsigned_commits, reject_non_dco_commits are missing, at least one \
                 parameter must be provided";
    for body in [json!({}), json!({"unknown": 1})] {
        assert_eq!(root.post(&rule, body).await.expect(400).message(), names);
    }
    let cases = [
        (json!({"max_file_size": -1}), json!({"max_file_size": ["must be greater than or equal to 0"]})),
        (json!({"max_file_size": 1_i64 << 31}), json!({"max_file_size": ["must be less than or equal to 2147483647"]})),
        (
            json!({"branch_name_regex": "x".repeat(512)}),
            json!({"branch_name_regex": ["is too long (maximum is 511 characters)"]}),
        ),
        (
            json!({"commit_message_negative_regex": "x".repeat(2_048)}),
            json!({"commit_message_negative_regex": ["is too long (maximum is 2047 characters)"]}),
        ),
        (
            json!({"commit_message_regex": "a\0b"}),
            json!({"commit_message_regex": ["contains a NUL character; use `\\x00`"]}),
        ),
        (
            json!({"file_name_regex": "a**"}),
            json!({"file_name_regex": ["not valid RE2 syntax: bad repetition operator: `*` follows another one"]}),
        ),
        (
            json!({"author_email_regex": "((a{1000}){1000}){1000}"}),
            json!({"author_email_regex": ["not valid RE2 syntax: it is too large"]}),
        ),
    ];
    for create in [true, false] {
        for (body, expected) in &cases {
            let answer = match create {
                true => root.post(&rule, body.clone()).await,
                false => root.put(&rule, body.clone()).await,
            };
            assert_eq!(&answer.expect(400).json()["message"], expected, "{body}");
        }
        if create {
            push_rule(&root, &path, json!({"commit_message_negative_regex": "x".repeat(2_047)})).await;
        }
    }
    for body in [json!({"max_file_size": "x"}), json!({"member_check": "x"})] {
        root.put(&rule, body).await.expect(400);
    }
    root.post(&rule, json!({"file_name_regex": "y".repeat(2 << 20)})).await.expect(413);
    root.put(&rule, json!({"file_name_regex": "y".repeat(2 << 20)})).await.expect(413);
}

async fn rule_of_project_requires_maintainer(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let rule = format!("/projects/{}/push_rule", project.id);
    for (name, level, allowed) in [
        ("rep", AccessLevel::Reporter, false),
        ("dev", AccessLevel::Developer, false),
        ("max", AccessLevel::Maintainer, true),
    ] {
        let client = project.member(name, level).await;
        let status = |status| if allowed { status } else { 403 };
        client.get(&rule).await.expect(status(200));
        client.post(&rule, json!({"max_file_size": 1})).await.expect(status(201));
        client.put(&rule, json!({"max_file_size": 2})).await.expect(status(200));
        client.delete(&rule).await.expect(status(204));
    }
    let stranger = server.create_user("stranger").await.client;
    stranger.get(&rule).await.expect(404);
    stranger.post(&rule, json!({"max_file_size": 1})).await.expect(404);
    server.anonymous().get(&rule).await.expect(401);
    project.archive().await;
    server.root().post(&rule, json!({"max_file_size": 1})).await.expect(403);
}

async fn push_rules_need_premium_plan(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    let team = group(&server.root(), "team", json!({})).await;
    for path in [format!("/projects/{}/push_rule", project.id), format!("/groups/{team}/push_rule")] {
        server.root().get(&path).await.expect(403);
        server.root().post(&path, json!({"max_file_size": 1})).await.expect(403);
    }
}

/// Options of a server on a plan without push rules.
fn starter() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    rule_of_project_has_all_attributes,
    invalid_attributes_are_refused,
    rule_of_project_requires_maintainer,
    push_rules_need_premium_plan with starter(),
];
