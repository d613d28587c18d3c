//! Pushes to branches that require approvals of code owners.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::protection;
use crate::support::git::{Work, address};
use crate::support::spaces::group;
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

/// A project whose branch `main` has owners of `*.rs`, and a Maintainer who pushes.
struct Sample<'a> {
    server: &'a TestServer,
    user: TestUser,
    work: Work,
    url: String,
    path: String,
}

impl<'a> Sample<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let project = server.insert_project_at("g/p", Visibility::Private).await;
        let user = server.create_user("dev").await;
        server.insert_member(project.id, user.id, AccessLevel::Maintainer).await;
        let (work, path) = (Work::new().await, format!("/projects/{}", project.id));
        let url = address(&server.base, "dev", &user.token, "g/p");
        let sample = Self { server, user, work, url, path };
        sample.work.commit("old.rs", "1").await;
        sample.work.commit("CODEOWNERS", "*.rs @dev\n/gen.rs\n^[Opt]\n*.md @dev\n").await;
        sample.pushed(&["main"]).await;
        sample
    }

    async fn require_owners(&self) {
        let body = json!({"code_owner_approval_required": true, "allow_force_push": true});
        self.server.root().patch(&format!("{}/protected_branches/main", self.path), body).await.expect(200);
    }

    async fn pushed(&self, refspecs: &[&str]) {
        self.work.git(&[&["push", "--quiet", self.url.as_str()][..], refspecs].concat()).await;
    }

    async fn refused(&self, refspecs: &[&str], text: &str) {
        let list = async || self.work.git(&["ls-remote", &self.url]).await;
        let before = list().await;
        let output = self.work.fails(&[&["push", self.url.as_str()][..], refspecs].concat()).await;
        assert!(output.contains(text) && output.contains("pre-receive hook declined"), "{text}: {output}");
        assert_eq!(list().await, before, "{text}");
    }
}

/// Start of the text for a refused push.
const TEXT: &str = "The branch main requires approvals of code owners for these patterns of CODEOWNERS: *.rs";

async fn pushes_of_owned_files_are_refused(server: TestServer) {
    let sample = Sample::new(&server).await;
    let work = &sample.work;
    work.commit("free.rs", "1").await;
    sample.pushed(&["main"]).await;
    sample.require_owners().await;
    // Files without owners, and those of optional sections.
    for file in ["a.txt", "gen.rs", "a.md", "CODEOWNERS.txt"] {
        work.commit(file, "2").await;
        sample.pushed(&["main"]).await;
    }
    let start = work.git(&["rev-parse", "HEAD"]).await;
    let reset = async || drop(work.git(&["reset", "--quiet", "--hard", &start]).await);
    work.commit("new.rs", "1").await;
    work.commit("more.txt", "1").await;
    sample.refused(&["main"], TEXT).await;
    // One branch refuses the others. Other branches have no owners.
    sample.refused(&["main", "main:topic"], TEXT).await;
    sample.pushed(&["main:topic"]).await;
    // The commits are not new any more.
    sample.refused(&["main"], TEXT).await;
    reset().await;
    work.git(&["rm", "--quiet", "old.rs"]).await;
    work.commit("rest.txt", "1").await;
    sample.refused(&["main"], TEXT).await;
    reset().await;
    work.git(&["mv", "old.rs", "old.txt"]).await;
    work.commit("rest.txt", "1").await;
    sample.refused(&["main"], TEXT).await;
    reset().await;
    // A forced push that removes a change of an owned file.
    sample.refused(&["+main~5:main"], TEXT).await;
    sample.pushed(&["+main~1:main"]).await;
    // The owners of the branch count, not those of the push.
    work.git(&["reset", "--quiet", "--hard", "main~1"]).await;
    work.commit("CODEOWNERS", "").await;
    work.commit("late.rs", "").await;
    sample.refused(&["main"], TEXT).await;
    work.git(&["reset", "--quiet", "--hard", "HEAD~1"]).await;
    sample.pushed(&["main"]).await;
    work.commit("late.rs", "").await;
    sample.pushed(&["main"]).await;
    // Nothing is checked when a branch is created or deleted.
    sample.pushed(&["main:other"]).await;
    sample.pushed(&[":other"]).await;
}

async fn requests_of_the_api_are_refused(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.require_owners().await;
    let client = &sample.user.client;
    let url = format!("{}/repository/commits", sample.path);
    let commit = |file: &str, branch: &str| {
        json!({
            "branch": branch, "start_branch": "main", "commit_message": "m",
            "actions": [{"action": "create", "file_path": file, "content": "1"}],
        })
    };
    let mut body = commit("new.rs", "main");
    body.as_object_mut().expect("an object").remove("start_branch");
    let refused = client.post(&url, body.clone()).await.expect(400);
    assert!(refused.message().starts_with(TEXT), "{}", refused.message());
    body["actions"][0]["file_path"] = json!("new.txt");
    client.post(&url, body).await.expect(201);
    let created = client.post(&url, commit("new.rs", "topic")).await.expect(201).json();
    let pick = format!("{url}/{}/cherry_pick", created["id"].as_str().expect("an ID"));
    let refused = client.post(&pick, json!({"branch": "main"})).await.expect(400);
    assert!(refused.message().starts_with(TEXT), "{}", refused.message());
    let file = format!("{}/repository/files/old.rs", sample.path);
    let change = json!({"branch": "main", "content": "2", "commit_message": "m"});
    client.put(&file, change.clone()).await.expect(400);
    client.delete(&format!("{file}?branch=main&commit_message=m")).await.expect(400);
    // A merge request changes the files: the rule is invalid, because the author is the only owner.
    let merge = json!({"source_branch": "topic", "target_branch": "main", "title": "t"});
    let all = format!("{}/merge_requests", sample.path);
    client.post(&all, merge).await.expect(201);
    client.put(&format!("{all}/1/merge"), json!({})).await.expect(200);
    let body = json!({"code_owner_approval_required": false});
    server.root().patch(&format!("{}/protected_branches/main", sample.path), body).await.expect(200);
    client.put(&file, change).await.expect(200);
}

async fn limits_refuse_pushes(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.work.commit("CODEOWNERS", &"x".repeat(600 << 10)).await;
    sample.pushed(&["main"]).await;
    sample.require_owners().await;
    sample.work.commit("a.txt", "1").await;
    let text = "The code owners of the branch main cannot be checked: the file is larger than 512 KiB";
    sample.refused(&["main"], text).await;
    // A merge request repairs the file.
    sample.work.commit("CODEOWNERS", "*.rs @dev\n").await;
    sample.pushed(&["main:topic"]).await;
    let all = format!("{}/merge_requests", sample.path);
    let merge = json!({"source_branch": "topic", "target_branch": "main", "title": "t"});
    sample.user.client.post(&all, merge).await.expect(201);
    let merge = format!("{all}/1/merge");
    sample.user.client.put(&merge, json!({})).await.expect(405);
    server.root().post(&format!("{all}/1/approve"), json!({})).await.expect(201);
    sample.user.client.put(&merge, json!({})).await.expect(200);
    // Each branch of a push is compared.
    protection(&server.root(), &sample.path, json!({"name": "many/*", "code_owner_approval_required": true})).await;
    let names: Vec<String> = (0..11).map(|number| format!("main:refs/heads/many/{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    sample.pushed(&names).await;
    sample.work.commit("b.txt", "1").await;
    sample.refused(&names, "more than 10 branches that require approvals of code owners").await;
    sample.pushed(&names[..10]).await;
}

async fn protections_of_groups_require_code_owners(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let path = format!("/groups/{team}");
    let created = protection(&root, &path, json!({"name": "main", "code_owner_approval_required": true})).await;
    assert_eq!(created["code_owner_approval_required"], true);
    let project = server.insert_project_at("team/p", Visibility::Private).await;
    let user = server.create_user("dev").await;
    server.insert_member(project.id, user.id, AccessLevel::Maintainer).await;
    let (work, url) = (Work::new().await, address(&server.base, "dev", &user.token, "team/p"));
    work.commit("CODEOWNERS", "*.rs @dev\n").await;
    work.git(&["push", "--quiet", &url, "main"]).await;
    let listed = root.get(&format!("/projects/{}/protected_branches", project.id)).await.expect(200);
    assert_eq!(listed.pluck("code_owner_approval_required"), [false, true]);
    work.commit("new.rs", "1").await;
    assert!(work.fails(&["push", &url, "main"]).await.contains(TEXT));
    let one = format!("{path}/protected_branches/main");
    let changed = root.patch(&one, json!({"code_owner_approval_required": false})).await.expect(200).json();
    assert_eq!(changed["code_owner_approval_required"], false);
    work.git(&["push", "--quiet", &url, "main"]).await;
}

on_every_database![
    pushes_of_owned_files_are_refused,
    requests_of_the_api_are_refused,
    limits_refuse_pushes,
    protections_of_groups_require_code_owners,
];
