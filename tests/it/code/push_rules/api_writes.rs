//! Requests of the API against push rules.

use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::{push_rule, replace_rule};
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::users::TestUser;
use crate::support::{Client, TestServer, on_every_database};

/// A project with the branch `target`, a Developer, and a merge request of `feature/x` into `target`.
struct Sample<'a> {
    project: Project<'a>,
    dev: TestUser,
    path: String,
    merge_request: String,
}

impl<'a> Sample<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let project = Project::with_commits(server, "p", Visibility::Private).await;
        project.git(&["branch", "target", "main"]);
        let dev = server.create_user("dev").await;
        server.insert_member(project.id, dev.id, AccessLevel::Developer).await;
        let iid = propose(&dev.client, project.id, "feature/x", "target", json!({})).await;
        server.finish_jobs().await;
        let path = format!("/projects/{}", project.id);
        let merge_request = format!("{path}/merge_requests/{iid}");
        Self { project, dev, path, merge_request }
    }

    fn root(&self) -> Client {
        self.project.server.root()
    }

    fn refs(&self) -> String {
        self.project.git(&["for-each-ref", "refs/heads", "refs/tags"])
    }

    async fn send(&self, method: Method, path: &str, body: Value, status: u16) -> String {
        let before = self.refs();
        let request = self.dev.client.request(method, path).json(&body);
        let answer = self.dev.client.send(request).await.expect(status);
        if status >= 400 {
            assert_eq!(self.refs(), before, "{path}");
        }
        answer.text()
    }

    async fn refused(&self, method: Method, path: &str, body: Value, text: &str) {
        let answer = self.send(method, path, body, 400).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["message"], text, "{path}");
    }
}

fn commit(branch: &str, message: &str, path: &str, content: &str) -> Value {
    let action = json!({"action": "create", "file_path": path, "content": content});
    json!({"branch": branch, "commit_message": message, "actions": [action]})
}

async fn commit_that_violates_a_rule_is_refused(server: TestServer) {
    let sample = Sample::new(&server).await;
    let commits = sample.project.url("/commits");
    let author = json!({"author_email": "eve@example.net", "author_name": "Eve"});
    let large = "x".repeat((1 << 20) + 1);
    for (rule, path, content, more, text) in [
        (
            json!({"commit_message_regex": "^JIRA"}),
            "a",
            "1",
            json!({}),
            "Commit message does not follow the pattern '^JIRA'",
        ),
        (
            json!({"commit_message_negative_regex": "^m$"}),
            "a",
            "1",
            json!({}),
            "Commit message contains the forbidden pattern '^m$'",
        ),
        (json!({"branch_name_regex": "^x"}), "a", "1", json!({}), "Branch name does not follow the pattern '^x'"),
        (
            json!({"author_email_regex": "@example.com$"}),
            "a",
            "1",
            author.clone(),
            "Author's email 'eve@example.net' does not follow the pattern '@example.com$'",
        ),
        (
            json!({"author_email_regex": "@example.net$"}),
            "a",
            "1",
            author.clone(),
            "Committer's email 'dev@example.com' does not follow the pattern '@example.net$'",
        ),
        (json!({"member_check": true}), "a", "1", author, "Author 'eve@example.net' is not a member of team"),
        (
            json!({"file_name_regex": "^b/c$"}),
            "b/c",
            "1",
            json!({}),
            r#"File name b/c was prohibited by the pattern "^b/c$"."#,
        ),
        (
            json!({"prevent_secrets": true}),
            "tls/server.pem",
            "1",
            json!({}),
            r#"File name tls/server.pem was prohibited by the pattern "\.(pem|key)$"."#,
        ),
        (json!({"max_file_size": 1}), "a", &large, json!({}), r#"File "a" is larger than the allowed size of 1 MB"#),
        (json!({"reject_non_dco_commits": true}), "a", "1", json!({}), "Commit message must contain a DCO signoff"),
    ] {
        replace_rule(&sample.root(), &sample.path, rule.clone()).await;
        let mut body = commit("target", "m", path, content);
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        sample.refused(Method::POST, &commits, body.clone(), text).await;
        // The refused commit is stored, but a branch or tag cannot point to it.
        sample.refused(Method::POST, &commits, body, text).await;
    }
    // These rules refuse no commit of the API, which the server creates for its caller.
    let rule = json!({
        "commit_committer_check": true, "commit_committer_name_check": true, "reject_unsigned_commits": true,
        "member_check": true, "deny_delete_tag": true,
    });
    replace_rule(&sample.root(), &sample.path, rule).await;
    sample.send(Method::POST, &commits, commit("target", "m", "a", "1"), 201).await;
    sample.send(Method::POST, &sample.project.url("/tags"), json!({"tag_name": "t", "ref": "main"}), 201).await;
    sample.send(Method::DELETE, &sample.project.url("/tags/t"), json!({}), 204).await;
}

async fn every_write_of_the_api_is_checked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let url = |rest: &str| sample.project.url(rest);
    let pick = sample.project.id("feature/x");
    push_rule(&sample.root(), &sample.path, json!({"commit_message_regex": "^JIRA"})).await;
    let text = "Commit message does not follow the pattern '^JIRA'";
    let file = json!({"branch": "target", "commit_message": "m", "content": "m"});
    let writes = [
        (Method::POST, url("/commits"), commit("target", "m", "a", "1"), 201),
        (Method::POST, url("/files/m"), file.clone(), 201),
        (Method::PUT, url("/files/README.md"), file.clone(), 200),
        (Method::DELETE, url("/files/docs%2Fguide.md"), file, 204),
        (Method::POST, url(&format!("/commits/{pick}/cherry_pick")), json!({"branch": "target"}), 201),
        (Method::POST, url(&format!("/commits/{pick}/revert")), json!({"branch": "feature/x"}), 201),
        (Method::PUT, format!("{}/rebase", sample.merge_request), json!({}), 202),
        (Method::PUT, format!("{}/merge", sample.merge_request), json!({}), 200),
    ];
    for (method, path, body, _) in writes.clone() {
        sample.refused(method, &path, body, text).await;
    }
    // Nothing but the rule refused them.
    sample.root().delete(&format!("{}/push_rule", sample.path)).await.expect(204);
    for (method, path, body, status) in writes.into_iter().take(4) {
        sample.send(method, &path, body, status).await;
    }
    // The message of a merge can follow the rule.
    push_rule(&sample.root(), &sample.path, json!({"commit_message_regex": "^JIRA"})).await;
    let merged = json!({"merge_commit_message": "JIRA-1"});
    sample.send(Method::PUT, &format!("{}/merge", sample.merge_request), merged, 200).await;
}

async fn branch_and_tag_cannot_point_to_a_refused_commit(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (branches, tags) = (sample.project.url("/branches"), sample.project.url("/tags"));
    let tree = sample.project.id("main^{tree}");
    let stored = sample.project.git(&["commit-tree", &tree, "-p", "main", "-m", "refused"]);
    push_rule(&sample.root(), &sample.path, json!({"commit_message_negative_regex": "refused"})).await;
    let text = "Commit message contains the forbidden pattern 'refused'";
    sample.refused(Method::POST, &branches, json!({"branch": "b", "ref": stored}), text).await;
    sample.refused(Method::POST, &tags, json!({"tag_name": "t", "ref": stored}), text).await;
    let start = json!({
        "branch": "b", "start_sha": stored, "commit_message": "m",
        "actions": [{"action": "create", "file_path": "a", "content": "a"}],
    });
    sample.refused(Method::POST, &sample.project.url("/commits"), start, text).await;
    sample.send(Method::POST, &branches, json!({"branch": "b", "ref": "main"}), 201).await;
    sample.send(Method::POST, &tags, json!({"tag_name": "t", "ref": "main"}), 201).await;
    let unknown = json!({"branch": "c", "ref": "unknown"});
    sample.refused(Method::POST, &branches, unknown, "Invalid reference name: unknown").await;
}

async fn branch_names_of_the_api_follow_the_rule(server: TestServer) {
    let sample = Sample::new(&server).await;
    let branches = sample.project.url("/branches");
    push_rule(&sample.root(), &sample.path, json!({"branch_name_regex": "^(feature|fix)/.+"})).await;
    let text = "Branch name does not follow the pattern '^(feature|fix)/.+'";
    sample.refused(Method::POST, &branches, json!({"branch": "b", "ref": "main"}), text).await;
    sample.send(Method::POST, &branches, json!({"branch": "fix/b", "ref": "main"}), 201).await;
    // The rule has no effect on the default branch, tags, deletions and the target of a merge.
    let max = sample.project.member("max", AccessLevel::Maintainer).await;
    max.post(&sample.project.url("/commits"), commit("main", "m", "new", "1")).await.expect(201);
    sample.send(Method::POST, &sample.project.url("/tags"), json!({"tag_name": "t", "ref": "main"}), 201).await;
    sample.send(Method::DELETE, &sample.project.url("/branches/merged"), json!({}), 204).await;
    sample.send(Method::PUT, &format!("{}/merge", sample.merge_request), json!({}), 200).await;
}

/// The commits of a merge request from a fork are new to the project until they are merged.
async fn merge_of_a_fork_is_checked(server: TestServer) {
    let sample = Sample::new(&server).await;
    let forked = sample.dev.client.post(&format!("{}/fork", sample.path), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    let fork = forked["id"].as_i64().expect("an ID");
    let commits = format!("/projects/{fork}/repository/commits");
    sample.dev.client.post(&commits, commit("feature/x", "m", "id_rsa", "1")).await.expect(201);
    server.finish_jobs().await;
    let body = json!({
        "source_branch": "feature/x", "target_branch": "target", "title": "t", "target_project_id": sample.project.id,
    });
    let proposed = sample.dev.client.post(&format!("/projects/{fork}/merge_requests"), body).await.expect(201).json();
    server.finish_jobs().await;
    let merge = format!("{}/merge_requests/{}/merge", sample.path, proposed["iid"]);
    // The committer of the commits is another user than the one who merges.
    let rule = json!({"prevent_secrets": true, "commit_committer_check": true, "commit_committer_name_check": true});
    push_rule(&sample.root(), &sample.path, rule).await;
    let refused = sample.root().put(&merge, json!({})).await.expect(400).message();
    assert!(refused.starts_with("File name id_rsa was prohibited"), "{refused}");
    sample.root().put(&format!("{}/push_rule", sample.path), json!({"prevent_secrets": false})).await.expect(200);
    sample.root().put(&merge, json!({})).await.expect(200);
}

/// Without a push rule, the check adds no statement.
async fn project_without_rule_needs_no_statement(server: TestServer) {
    let sample = Sample::new(&server).await;
    let commits = sample.project.url("/commits");
    let statements = async |path: &str| {
        let before = server.statements();
        sample.send(Method::POST, &commits, commit("target", "m", path, "1"), 201).await;
        server.statement_texts(before)
    };
    statements("warm").await;
    let without = statements("a").await;
    let reads = |texts: &[String]| texts.iter().filter(|text| text.contains("push_rules")).count();
    assert_eq!(reads(&without), 1, "{without:?}");
    assert!(without.iter().any(|text| text.contains("push_rules") && text.contains("protected_branches")));
    push_rule(&sample.root(), &sample.path, json!({"max_file_size": 1})).await;
    let with = statements("b").await;
    assert_eq!(reads(&with), 2, "{with:?}");
}

on_every_database![
    commit_that_violates_a_rule_is_refused,
    every_write_of_the_api_is_checked,
    branch_and_tag_cannot_point_to_a_refused_commit,
    branch_names_of_the_api_follow_the_rule,
    merge_of_a_fork_is_checked,
    project_without_rule_needs_no_statement,
];
