//! What receivers are told.

use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{commit, hook};
use crate::support::code::{NewCommit, Project, file};
use crate::support::git::{self, Work};
use crate::support::receiver::Receiver;
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

const ZEROS: &str = "0000000000000000000000000000000000000000";

/// The keys of an object.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

async fn a_commit_is_told_as_a_push(server: TestServer) {
    let project = Project::filled(&server, "p", Visibility::Internal).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    hook(&root, project.id, &format!("{}/hook?x=y", receiver.url), json!({ "token": "t0ken" })).await;
    let before = project.id("main");
    let after = commit(&root, project.id, "main", "docs/new.md").await;
    server.finish_jobs().await;
    let told = receiver.next().await;
    assert_eq!(told.line, "POST /hook?x=y");
    assert_eq!(told.header("content-type"), "application/json");
    assert_eq!(told.header("x-service-event"), "Push Hook");
    assert_eq!(told.header("x-service-token"), "t0ken");
    assert_eq!(told.header("x-service-event-uuid").len(), 36);
    assert!(told.header("user-agent").starts_with("Holdfast/"));
    assert_eq!((told.header("x-gitlab-event"), told.header("authorization")), ("", ""));
    let base = &server.base;
    let web = format!("{base}/root/p");
    let ssh = "git@127.0.0.1:root/p.git";
    let timestamp = told.body["commits"][0]["timestamp"].clone();
    assert_eq!(
        told.body,
        json!({
            "object_kind": "push", "event_name": "push", "before": before, "after": after, "ref": "refs/heads/main",
            "checkout_sha": after, "message": null, "user_id": 1, "user_name": "Administrator",
            "user_username": "root", "user_email": told.body["user_email"], "user_avatar": null, "project_id": project.id,
            "project": {
                "id": project.id, "name": "p", "description": null, "web_url": web, "avatar_url": null,
                "git_ssh_url": ssh, "git_http_url": format!("{web}.git"), "namespace": told.body["project"]["namespace"],
                "visibility_level": 10, "path_with_namespace": "root/p", "default_branch": "main",
                "ci_config_path": null, "homepage": web, "url": ssh, "ssh_url": ssh, "http_url": format!("{web}.git"),
            },
            "commits": [{
                "id": after, "message": "Add docs/new.md\n\nFor a test.", "title": "Add docs/new.md",
                "timestamp": timestamp, "url": format!("{web}/-/commit/{after}"),
                "author": { "name": "Administrator", "email": told.body["user_email"] },
                "added": ["docs/new.md"], "modified": [], "removed": [],
            }],
            "total_commits_count": 1, "push_options": {},
            "repository": {
                "name": "p", "url": ssh, "description": null, "homepage": web, "git_http_url": format!("{web}.git"),
                "git_ssh_url": ssh, "visibility_level": 10,
            },
        })
    );
    let timestamp = timestamp.as_str().expect("a time");
    assert!(timestamp.ends_with("+00:00") && timestamp.len() == 25, "{timestamp}");
}

async fn references_made_and_deleted_are_told_with_zeros(server: TestServer) {
    let project = Project::filled(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let extra = json!({ "tag_push_events": true });
    hook(&root, project.id, &receiver.url, extra).await;
    let tip = project.id("feature/x");
    root.post(&project.url("/branches"), json!({ "branch": "new", "ref": "feature/x" })).await.expect(201);
    root.delete(&project.url("/branches/new")).await.expect(204);
    root.post(&project.url("/tags"), json!({ "tag_name": "light", "ref": "main" })).await.expect(201);
    let body = json!({ "tag_name": "heavy", "ref": "main", "message": "First release" });
    root.post(&project.url("/tags"), body).await.expect(201);
    let object = project.id("heavy");
    root.delete(&project.url("/tags/heavy")).await.expect(204);
    server.finish_jobs().await;
    let made = receiver.next().await.body;
    assert_eq!((&made["before"], &made["after"], &made["checkout_sha"]), (&json!(ZEROS), &json!(tip), &json!(tip)));
    // What the default branch lacks.
    assert_eq!((&made["total_commits_count"], &made["commits"][0]["id"]), (&json!(1), &json!(tip)));
    assert_eq!(made["commits"][0]["timestamp"], "2020-09-13T14:30:00+02:00");
    let deleted = receiver.next().await.body;
    assert_eq!((&deleted["before"], &deleted["after"]), (&json!(tip), &json!(ZEROS)));
    assert_eq!(
        (&deleted["checkout_sha"], &deleted["commits"], &deleted["total_commits_count"]),
        (&Value::Null, &json!([]), &json!(0))
    );
    let main = project.id("main");
    let light = receiver.next().await;
    assert_eq!(light.header("x-service-event"), "Tag Push Hook");
    let light = light.body;
    assert_eq!((&light["object_kind"], &light["event_name"]), (&json!("tag_push"), &json!("tag_push")));
    assert_eq!(
        (&light["ref"], &light["after"], &light["message"]),
        (&json!("refs/tags/light"), &json!(main), &Value::Null)
    );
    let heavy = receiver.next().await.body;
    assert_eq!(
        (&heavy["after"], &heavy["checkout_sha"], &heavy["message"]),
        (&json!(object), &json!(main), &json!("First release"))
    );
    assert_eq!((&heavy["total_commits_count"], &heavy["commits"][0]["id"]), (&json!(1), &json!(main)));
    let gone = receiver.next().await.body;
    assert_eq!(
        (&gone["before"], &gone["after"], &gone["checkout_sha"], &gone["total_commits_count"]),
        (&json!(object), &json!(ZEROS), &Value::Null, &json!(0))
    );
    assert_eq!(keys(&made), keys(&gone));
}

async fn a_large_push_tells_the_newest_commits_and_the_true_number(server: TestServer) {
    let project = Project::filled(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let work = Work::empty();
    let address = git::address(&server.base, "root", ROOT_TOKEN, &project.path);
    work.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = work.below("c");
    clone.git(&["checkout", "--quiet", "main"]).await;
    let mut made = Vec::new();
    for number in 0..23 {
        made.push(clone.commit("README.md", &format!("{number}")).await);
    }
    clone.git(&["rm", "--quiet", "docs/guide.md"]).await;
    clone.git(&["mv", "run.sh", "go.sh"]).await;
    made.push(clone.commit("new.txt", "x").await);
    clone.git(&["push", "--quiet", "origin", "main"]).await;
    server.finish_jobs().await;
    let told = receiver.next().await.body;
    assert_eq!(told["total_commits_count"], 24);
    let ids: Vec<&str> =
        told["commits"].as_array().unwrap().iter().map(|commit| commit["id"].as_str().unwrap()).collect();
    assert_eq!(ids, made[4..].iter().map(String::as_str).collect::<Vec<_>>());
    let last = &told["commits"][19];
    assert_eq!(last["added"], json!(["go.sh", "new.txt"]));
    assert_eq!(last["removed"], json!(["docs/guide.md", "run.sh"]));
    assert_eq!(told["commits"][0]["modified"], json!(["README.md"]));
}

async fn more_than_three_branches_or_tags_at_once_are_not_told(server: TestServer) {
    let project = Project::filled(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    hook(&server.root(), project.id, &receiver.url, json!({ "tag_push_events": true })).await;
    let work = Work::empty();
    let address = git::address(&server.base, "root", ROOT_TOKEN, &project.path);
    work.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = work.below("c");
    let push = |names: &'static [&'static str]| {
        let mut arguments = vec!["push", "--quiet", "origin"];
        arguments.extend(names);
        let clone = &clone;
        async move { clone.git(&arguments).await }
    };
    push(&["HEAD:refs/heads/a", "HEAD:refs/heads/b", "HEAD:refs/heads/c", "HEAD:refs/heads/d", "HEAD:refs/tags/t"])
        .await;
    push(&["HEAD:refs/heads/e", "HEAD:refs/heads/f", "HEAD:refs/heads/g"]).await;
    push(&["HEAD:refs/tags/1", "HEAD:refs/tags/2", "HEAD:refs/tags/3", "HEAD:refs/tags/4"]).await;
    server.finish_jobs().await;
    let mut told: Vec<String> =
        receiver.rest().iter().map(|one| one.body["ref"].as_str().unwrap().to_owned()).collect();
    told.sort();
    assert_eq!(told, ["refs/heads/e", "refs/heads/f", "refs/heads/g", "refs/tags/t"]);
}

async fn the_branch_filter_limits_pushes_to_branches_only(server: TestServer) {
    let project = Project::filled(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let extra = json!({ "tag_push_events": true, "push_events_branch_filter": "feature/*" });
    hook(&root, project.id, &receiver.url, extra).await;
    hook(&root, project.id, &format!("{}/off", receiver.url), json!({ "push_events": false })).await;
    commit(&root, project.id, "main", "a").await;
    commit(&root, project.id, "feature/x", "b").await;
    root.post(&project.url("/tags"), json!({ "tag_name": "t", "ref": "main" })).await.expect(201);
    server.finish_jobs().await;
    let told: Vec<_> = receiver.rest().into_iter().map(|one| (one.line, one.body["ref"].clone())).collect();
    assert_eq!(
        told,
        [("POST /".to_owned(), json!("refs/heads/feature/x")), ("POST /".to_owned(), json!("refs/tags/t")),]
    );
}

async fn a_comment_on_a_commit_is_told_as_a_note(server: TestServer) {
    let project = Project::filled(&server, "p", Visibility::Private).await;
    project.import(&NewCommit {
        time: 1_600_000_500,
        changes: file("README.md", "Hello, moon\n"),
        ..NewCommit::default()
    });
    let mut receiver = Receiver::start().await;
    let root = server.root();
    hook(&root, project.id, &receiver.url, json!({ "push_events": false, "note_events": true })).await;
    let sha = project.id("main");
    let body = json!({ "note": "See ![x](/uploads/1/x.png)", "path": "README.md", "line": 1, "line_type": "new" });
    root.post(&project.url(&format!("/commits/{sha}/comments")), body).await.expect(201);
    server.finish_jobs().await;
    let told = receiver.next().await;
    assert_eq!(told.header("x-service-event"), "Note Hook");
    let told = told.body;
    assert_eq!(
        keys(&told),
        ["object_kind", "event_type", "user", "project_id", "project", "object_attributes", "repository", "commit",]
    );
    assert_eq!((&told["object_kind"], &told["event_type"]), (&json!("note"), &json!("note")));
    let web = format!("{}/root/p", server.base);
    assert_eq!(keys(&told["user"]), ["name", "username", "avatar_url", "email"]);
    assert_eq!(keys(&told["repository"]), ["name", "url", "description", "homepage"]);
    assert_eq!(told["project"]["visibility_level"], 0);
    let note = &told["object_attributes"];
    assert_eq!(
        (&note["note"], &note["noteable_type"], &note["noteable_id"]),
        (&json!("See ![x](/uploads/1/x.png)"), &json!("Commit"), &Value::Null)
    );
    assert_eq!(note["description"], format!("See ![x]({web}/uploads/1/x.png)"));
    assert_eq!((&note["commit_id"], &note["system"], &note["author_id"]), (&json!(sha), &json!(false), &json!(1)));
    assert_eq!(note["url"], format!("{web}/-/commit/{sha}#note_{}", note["id"]));
    assert_eq!(note["st_diff"]["new_path"], "README.md");
    // The SHA-1 of "README.md", and where the counters stand at the line.
    let line_code = note["line_code"].as_str().expect("a code");
    assert!(line_code.starts_with("8ec9a00bfd09b3190ac6b22251dbb1aa95a0579d_"), "{line_code}");
    let written = note["created_at"].as_str().expect("a date");
    assert!(written.ends_with(" UTC") && written.len() == 23, "{written}");
    for key in [
        "attachment",
        "line_code",
        "position",
        "original_position",
        "change_position",
        "discussion_id",
        "resolved_at",
        "resolved_by_id",
        "resolved_by_push",
        "type",
        "updated_by_id",
        "updated_at",
        "project_id",
    ] {
        assert!(note.get(key).is_some(), "{key}");
    }
    assert_eq!(keys(&told["commit"]), ["id", "message", "title", "timestamp", "url", "author"]);
    assert_eq!(told["commit"]["id"], sha);
}

on_every_database![
    a_commit_is_told_as_a_push,
    references_made_and_deleted_are_told_with_zeros,
    a_large_push_tells_the_newest_commits_and_the_true_number,
    more_than_three_branches_or_tags_at_once_are_not_told,
    the_branch_filter_limits_pushes_to_branches_only,
    a_comment_on_a_commit_is_told_as_a_note,
];
