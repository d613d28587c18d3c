//! Payloads of webhook requests.

use serde_json::{Value, json};
use storage::entities::Visibility;

use super::{commit, hook};
use crate::support::code::{NewCommit, Project, file};
use crate::support::git::{self, Work};
use crate::support::server::ROOT_TOKEN;
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

const ZEROS: &str = "0000000000000000000000000000000000000000";

/// Returns the keys of an object.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

async fn commit_triggers_push_event_with_all_fields(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Internal).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    hook(&root, project.id, &format!("{}/hook?x=y", receiver.url), json!({ "token": "t0ken" })).await;
    let before = project.id("main");
    let after = commit(&root, project.id, "main", "docs/new.md").await;
    server.finish_jobs().await;
    let delivery = receiver.next().await;
    assert_eq!(delivery.line, "POST /hook?x=y");
    assert_eq!(delivery.header("content-type"), "application/json");
    assert_eq!(delivery.header("x-service-event"), "Push Hook");
    assert_eq!(delivery.header("x-service-token"), "t0ken");
    assert_eq!(delivery.header("x-service-event-uuid").len(), 36);
    assert!(delivery.header("user-agent").starts_with("Holdfast/"));
    assert_eq!((delivery.header("x-gitlab-event"), delivery.header("authorization")), ("", ""));
    let base = &server.base;
    let web = format!("{base}/root/p");
    // Commits contain the address of the author.
    let email = root.get("/user").await.expect(200).json()["email"].clone();
    let timestamp = delivery.body["commits"][0]["timestamp"].clone();
    assert_eq!(
        delivery.body,
        json!({
            "object_kind": "push", "event_name": "push", "before": before, "after": after, "ref": "refs/heads/main",
            "checkout_sha": after, "message": null, "user_id": 1, "user_name": "Administrator",
            "user_username": "root", "user_email": "",
            "user_avatar": format!("{base}/uploads/-/system/user/avatar/1/identicon.svg"), "project_id": project.id,
            "project": {
                "id": project.id, "name": "p", "description": null, "web_url": web, "avatar_url": null,
                "git_ssh_url": "", "git_http_url": format!("{web}.git"), "namespace": delivery.body["project"]["namespace"],
                "visibility_level": 10, "path_with_namespace": "root/p", "default_branch": "main",
                "ci_config_path": null, "homepage": web, "url": format!("{web}.git"), "ssh_url": "", "http_url": format!("{web}.git"),
            },
            "commits": [{
                "id": after, "message": "Add docs/new.md\n\nFor a test.", "title": "Add docs/new.md",
                "timestamp": timestamp, "url": format!("{web}/-/commit/{after}"),
                "author": { "name": "Administrator", "email": email },
                "added": ["docs/new.md"], "modified": [], "removed": [],
            }],
            "total_commits_count": 1, "push_options": {},
            "repository": {
                "name": "p", "url": format!("{web}.git"), "description": null, "homepage": web, "git_http_url": format!("{web}.git"),
                "git_ssh_url": "", "visibility_level": 10,
            },
        })
    );
    let timestamp = timestamp.as_str().expect("a time");
    assert!(timestamp.ends_with("+00:00") && timestamp.len() == 25, "{timestamp}");
}

async fn payloads_contain_only_public_email_addresses(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let ann = server.create_user("ann").await;
    let role = json!({ "user_id": ann.id, "access_level": 40 });
    root.post(&format!("/projects/{}/members", project.id), role).await.expect(201);
    hook(&root, project.id, &receiver.url, json!({ "issues_events": true })).await;
    for (public, user, pushed) in
        [(None, "[REDACTED]", ""), (Some("ann@example.com"), "ann@example.com", "ann@example.com")]
    {
        if let Some(public) = public {
            root.put(&format!("/users/{}", ann.id), json!({ "public_email": public })).await.expect(200);
        }
        commit(&ann.client, project.id, "main", &format!("of-{pushed}")).await;
        let body = json!({ "title": "t", "assignee_ids": [ann.id] });
        ann.client.post(&format!("/projects/{}/issues", project.id), body).await.expect(201);
        server.finish_jobs().await;
        let push = receiver.next().await.body;
        assert_eq!((&push["user_username"], &push["user_email"]), (&json!("ann"), &json!(pushed)));
        let issue = receiver.next().await.body;
        assert_eq!((&issue["user"]["email"], &issue["assignees"][0]["email"]), (&json!(user), &json!(user)));
    }
}

async fn created_and_deleted_refs_have_zero_commit_ids(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
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
    let created = receiver.next().await.body;
    assert_eq!(
        (&created["before"], &created["after"], &created["checkout_sha"]),
        (&json!(ZEROS), &json!(tip), &json!(tip))
    );
    // The commits that the default branch does not contain.
    assert_eq!((&created["total_commits_count"], &created["commits"][0]["id"]), (&json!(1), &json!(tip)));
    assert_eq!(created["commits"][0]["timestamp"], "2020-09-13T14:30:00+02:00");
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
    let deleted_tag = receiver.next().await.body;
    assert_eq!(
        (
            &deleted_tag["before"],
            &deleted_tag["after"],
            &deleted_tag["checkout_sha"],
            &deleted_tag["total_commits_count"]
        ),
        (&json!(object), &json!(ZEROS), &Value::Null, &json!(0))
    );
    assert_eq!(keys(&created), keys(&deleted_tag));
}

async fn large_push_contains_newest_commits_and_total_count(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let work = Work::empty();
    let address = git::address(&server.base, "root", ROOT_TOKEN, &project.path);
    work.git(&["clone", "--quiet", &address, "c"]).await;
    let clone = work.below("c");
    clone.git(&["checkout", "--quiet", "main"]).await;
    let mut created = Vec::new();
    for number in 0..23 {
        created.push(clone.commit("README.md", &format!("{number}")).await);
    }
    clone.git(&["rm", "--quiet", "docs/guide.md"]).await;
    clone.git(&["mv", "run.sh", "go.sh"]).await;
    created.push(clone.commit("new.txt", "x").await);
    clone.git(&["push", "--quiet", "origin", "main"]).await;
    server.finish_jobs().await;
    let delivery = receiver.next().await.body;
    assert_eq!(delivery["total_commits_count"], 24);
    let ids: Vec<&str> =
        delivery["commits"].as_array().unwrap().iter().map(|commit| commit["id"].as_str().unwrap()).collect();
    assert_eq!(ids, created[4..].iter().map(String::as_str).collect::<Vec<_>>());
    let last = &delivery["commits"][19];
    assert_eq!(last["added"], json!(["go.sh", "new.txt"]));
    assert_eq!(last["removed"], json!(["docs/guide.md", "run.sh"]));
    assert_eq!(delivery["commits"][0]["modified"], json!(["README.md"]));
}

async fn push_of_more_than_three_branches_or_tags_triggers_no_webhook(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
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
    let mut delivery: Vec<String> =
        receiver.rest().iter().map(|one| one.body["ref"].as_str().unwrap().to_owned()).collect();
    delivery.sort();
    assert_eq!(delivery, ["refs/heads/e", "refs/heads/f", "refs/heads/g", "refs/tags/t"]);
}

async fn branch_filter_applies_to_branches_and_not_to_tags(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let extra = json!({ "tag_push_events": true, "push_events_branch_filter": "feature/*" });
    hook(&root, project.id, &receiver.url, extra).await;
    hook(&root, project.id, &format!("{}/off", receiver.url), json!({ "push_events": false })).await;
    commit(&root, project.id, "main", "a").await;
    commit(&root, project.id, "feature/x", "b").await;
    root.post(&project.url("/tags"), json!({ "tag_name": "t", "ref": "main" })).await.expect(201);
    server.finish_jobs().await;
    let delivery: Vec<_> = receiver.rest().into_iter().map(|one| (one.line, one.body["ref"].clone())).collect();
    assert_eq!(
        delivery,
        [("POST /".to_owned(), json!("refs/heads/feature/x")), ("POST /".to_owned(), json!("refs/tags/t")),]
    );
}

async fn commit_comment_triggers_note_event(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
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
    let delivery = receiver.next().await;
    assert_eq!(delivery.header("x-service-event"), "Note Hook");
    let delivery = delivery.body;
    assert_eq!(
        keys(&delivery),
        ["object_kind", "event_type", "user", "project_id", "project", "object_attributes", "repository", "commit",]
    );
    assert_eq!((&delivery["object_kind"], &delivery["event_type"]), (&json!("note"), &json!("note")));
    let web = format!("{}/root/p", server.base);
    assert_eq!(keys(&delivery["user"]), ["name", "username", "avatar_url", "email"]);
    assert_eq!(keys(&delivery["repository"]), ["name", "url", "description", "homepage"]);
    assert_eq!(delivery["project"]["visibility_level"], 0);
    let note = &delivery["object_attributes"];
    assert_eq!(
        (&note["note"], &note["noteable_type"], &note["noteable_id"]),
        (&json!("See ![x](/uploads/1/x.png)"), &json!("Commit"), &Value::Null)
    );
    assert_eq!(note["description"], format!("See ![x]({web}/uploads/1/x.png)"));
    assert_eq!((&note["commit_id"], &note["system"], &note["author_id"]), (&json!(sha), &json!(false), &json!(1)));
    assert_eq!(note["url"], format!("{web}/-/commit/{sha}#note_{}", note["id"]));
    assert_eq!(note["st_diff"]["new_path"], "README.md");
    // The SHA-1 of "README.md", followed by the old and new line numbers.
    let line_code = note["line_code"].as_str().expect("a code");
    assert!(line_code.starts_with("8ec9a00bfd09b3190ac6b22251dbb1aa95a0579d_"), "{line_code}");
    let created_at = note["created_at"].as_str().expect("a date");
    assert!(created_at.ends_with(" UTC") && created_at.len() == 23, "{created_at}");
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
    assert_eq!(keys(&delivery["commit"]), ["id", "message", "title", "timestamp", "url", "author"]);
    assert_eq!(delivery["commit"]["id"], sha);
}

on_every_database![
    commit_triggers_push_event_with_all_fields,
    payloads_contain_only_public_email_addresses,
    created_and_deleted_refs_have_zero_commit_ids,
    large_push_contains_newest_commits_and_total_count,
    push_of_more_than_three_branches_or_tags_triggers_no_webhook,
    branch_filter_applies_to_branches_and_not_to_tags,
    commit_comment_triggers_note_event,
];
