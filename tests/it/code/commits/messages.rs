//! Cross-references and closing keywords in the messages of pushed commits.

use sea_orm::ActiveValue::Set;
use serde_json::{Value, json};
use storage::entities::projects::FeatureAccess;
use storage::entities::{AccessLevel, Visibility};

use crate::planning::issues::open;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{Client, TestServer, on_every_database};

/// Commits a file with this message and returns the commit ID.
async fn commit(client: &Client, project: i64, branch: &str, message: &str) -> String {
    let path = format!("{}.txt", hex::encode(message));
    let body = json!({
        "branch": branch, "commit_message": message,
        "actions": [{"action": "create", "file_path": path, "content": message}],
    });
    let created = client.post(&format!("/projects/{project}/repository/commits"), body).await.expect(201);
    created.json()["id"].as_str().expect("an id").to_owned()
}

/// Returns the texts of the notes visible to the client, oldest first.
async fn notes(client: &Client, on: &str) -> Vec<Value> {
    client.get(&format!("{on}/notes?sort=asc&order_by=created_at")).await.expect(200).pluck("body")
}

async fn state(client: &Client, issue: &str) -> Value {
    client.get(issue).await.expect(200).json()["state"].clone()
}

async fn commit_message_reference_creates_one_system_note(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "said", Visibility::Public).await;
    let other = Project::with_commits(&server, "other", Visibility::Public).await;
    let (id, far) = (project.id, other.id);
    for (project, title) in [(id, "one"), (id, "two"), (far, "far")] {
        open(&root, project, json!({"title": title})).await;
    }
    propose(&root, id, "feature/x", "main", json!({})).await;
    let [one, two] = [1, 2].map(|iid| format!("/projects/{id}/issues/{iid}"));
    let request = format!("/projects/{id}/merge_requests/1");
    let text = "See #1 and #1\n\nFixes root/other#1, as !1 says; not `#2`";
    let sha = commit(&root, id, "feature/x", text).await;
    commit(&root, id, "feature/x", "Says nothing").await;
    server.finish_jobs().await;
    let expected = [json!(format!("mentioned in commit {sha}"))];
    assert_eq!(notes(&root, &one).await, expected);
    assert_eq!(notes(&root, &two).await, [json!(null); 0]);
    let bodies = notes(&root, &request).await;
    assert!(bodies.contains(&expected[0]), "{bodies:?}");
    let elsewhere = format!("/projects/{far}/issues/1");
    assert_eq!(notes(&root, &elsewhere).await, [json!(format!("mentioned in commit root/said@{sha}"))]);
    // Only commits on the default branch close issues.
    assert_eq!((state(&root, &elsewhere).await, state(&root, &one).await), (json!("opened"), json!("opened")));
    // The same commits on another branch create no further notes.
    let copy = json!({"branch": "copy", "ref": "feature/x"});
    root.post(&format!("/projects/{id}/repository/branches"), copy).await.expect(201);
    server.finish_jobs().await;
    assert_eq!(notes(&root, &one).await, expected);
    let note = root.get(&format!("{one}/notes")).await.expect(200).json()[0].clone();
    assert_eq!((&note["system"], &note["author"]["username"]), (&json!(true), &json!("root")));
}

async fn commit_on_default_branch_closes_named_issues(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "shut", Visibility::Public).await;
    let other = Project::with_commits(&server, "other", Visibility::Public).await;
    let (id, far) = (project.id, other.id);
    for project in [id, id, id, far] {
        open(&root, project, json!({"title": "t"})).await;
    }
    let [one, two, three] = [1, 2, 3].map(|iid| format!("/projects/{id}/issues/{iid}"));
    let elsewhere = format!("/projects/{far}/issues/1");
    let maintainer = project.member("keeper", AccessLevel::Maintainer).await;
    // A pusher without a role in the other project closes no issue there.
    let sha = commit(&maintainer, id, "main", "Closes #1 and root/other#1, like #2").await;
    server.finish_jobs().await;
    assert_eq!(state(&root, &one).await, "closed");
    assert_eq!(notes(&root, &one).await, [json!(format!("closed via commit {sha}"))]);
    assert_eq!(notes(&root, &two).await, [json!(format!("mentioned in commit {sha}"))]);
    assert_eq!(state(&root, &elsewhere).await, "opened");
    let closer = root.get(&one).await.expect(200).json()["closed_by"]["username"].clone();
    assert_eq!(closer, "keeper");
    let sha = commit(&root, id, "main", "Closes root/other#1").await;
    server.finish_jobs().await;
    assert_eq!(state(&root, &elsewhere).await, "closed");
    let bodies = notes(&root, &elsewhere).await;
    assert_eq!(bodies.last(), Some(&json!(format!("closed via commit root/shut@{sha}"))));
    // A project can disable closing by commits.
    project.update(|row| row.autoclose_referenced_issues = Set(false)).await;
    let sha = commit(&root, id, "main", "Closes #3").await;
    server.finish_jobs().await;
    assert_eq!(state(&root, &three).await, "opened");
    assert_eq!(notes(&root, &three).await, [json!(format!("mentioned in commit {sha}"))]);
}

async fn push_of_many_branches_reads_only_default_branch_messages(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "pushed", Visibility::Public).await;
    let id = project.id;
    for _ in 0..4 {
        open(&root, id, json!({"title": "t"})).await;
    }
    let issue = |iid: i64| format!("/projects/{id}/issues/{iid}");
    let at = address(&server.base, "root", ROOT_TOKEN, &project.path);
    let work = Work::empty();
    work.git(&["clone", "-q", &at, "c"]).await;
    let all = work.below("c");
    let write = async |message: &str| {
        all.git(&["commit", "-q", "--allow-empty", "-m", message]).await;
        all.git(&["rev-parse", "HEAD"]).await
    };
    let first = write("Closes #1").await;
    let second = write("Closes #1, #2").await;
    all.git(&["push", "-q", "origin", "HEAD:main"]).await;
    server.finish_jobs().await;
    assert_eq!(notes(&root, &issue(1)).await, [json!(format!("closed via commit {first}"))]);
    assert_eq!(notes(&root, &issue(2)).await, [json!(format!("closed via commit {second}"))]);
    let third = write("Closes #3").await;
    all.git(&["checkout", "-q", "-b", "aside"]).await;
    write("Sees #4").await;
    let branches = ["a", "b", "c", "d"].map(|name| format!("HEAD:refs/heads/{name}"));
    let mut push = vec!["push", "-q", "origin", "main:main"];
    push.extend(branches.iter().map(String::as_str));
    all.git(&push).await;
    server.finish_jobs().await;
    assert_eq!(notes(&root, &issue(3)).await, [json!(format!("closed via commit {third}"))]);
    assert_eq!(notes(&root, &issue(4)).await, [json!(null); 0]);
}

async fn merge_closes_issues_via_merge_request_not_commit(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "merging", Visibility::Public).await;
    let id = project.id;
    open(&root, id, json!({"title": "t"})).await;
    let issue = format!("/projects/{id}/issues/1");
    let request = propose(&root, id, "feature/x", "main", json!({"description": "Closes #1"})).await;
    let merge = json!({"merge_commit_message": "Closes #1, see !1"});
    let merged = root.put(&format!("/projects/{id}/merge_requests/{request}/merge"), merge).await.expect(200).json();
    server.finish_jobs().await;
    let sha = merged["merge_commit_sha"].as_str().expect("a commit").to_owned();
    let bodies = notes(&root, &issue).await;
    assert!(bodies.contains(&json!("closed via merge request !1")), "{bodies:?}");
    assert!(
        !bodies.iter().any(|note| note.as_str().is_some_and(|note| note.starts_with("closed via commit"))),
        "{bodies:?}"
    );
    let bodies = notes(&root, &format!("/projects/{id}/merge_requests/{request}")).await;
    assert!(bodies.contains(&json!(format!("mentioned in commit {sha}"))), "{bodies:?}");
}

async fn commit_mention_notes_require_code_access(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "hushed", Visibility::Public).await;
    let id = project.id;
    project.update(|row| row.repository_access_level = Set(FeatureAccess::Private)).await;
    open(&root, id, json!({"title": "t"})).await;
    let hidden = open(&root, id, json!({"title": "hush", "confidential": true})).await;
    let issue = format!("/projects/{id}/issues/1");
    let developer = project.member("developer", AccessLevel::Developer).await;
    let stranger = server.create_user("stranger").await.client;
    let sha = commit(&root, id, "feature/x", &format!("See #1 and #{hidden}")).await;
    server.finish_jobs().await;
    let expected = [json!(format!("mentioned in commit {sha}"))];
    assert_eq!(notes(&developer, &issue).await, expected);
    let seen = stranger.get(&format!("{issue}/notes")).await.expect(200);
    assert_eq!((seen.json(), seen.header("X-Total")), (json!([]), "0"));
    // A reference to an issue that the pusher cannot see creates no note.
    let guest = Project::with_commits(&server, "elsewhere", Visibility::Public).await;
    let writer = guest.member("writer", AccessLevel::Maintainer).await;
    commit(&writer, guest.id, "main", &format!("Closes root/hushed#{hidden}")).await;
    server.finish_jobs().await;
    assert_eq!(notes(&root, &format!("/projects/{id}/issues/{hidden}")).await, expected);
}

on_every_database![
    commit_message_reference_creates_one_system_note,
    commit_on_default_branch_closes_named_issues,
    push_of_many_branches_reads_only_default_branch_messages,
    merge_closes_issues_via_merge_request_not_commit,
    commit_mention_notes_require_code_access,
];
