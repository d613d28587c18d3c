//! Options of a push, and the message about merge requests.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::{TestServer, on_every_database};

/// Clones a project of root, and returns the directory that must be kept and the clone.
async fn cloned(server: &TestServer, name: &str, token: &str) -> (Work, Work) {
    let clones = Work::empty();
    let url = address(&server.base, "user", token, &format!("root/{name}"));
    clones.git(&["clone", "--quiet", &url, "c"]).await;
    let clone = clones.below("c");
    (clones, clone)
}

async fn merge_requests(server: &TestServer, project: i64) -> Vec<Value> {
    server.finish_jobs().await;
    let listed = server.root().get(&format!("/projects/{project}/merge_requests?sort=asc")).await.expect(200).json();
    listed.as_array().expect("a list").clone()
}

async fn push_option_creates_merge_request_as_the_pusher(server: TestServer) {
    let project = Project::with_commits(&server, "options", Visibility::Private).await;
    let user = server.create_user("dev").await;
    server.insert_member(project.id, user.id, AccessLevel::Developer).await;
    let (_clones, clone) = cloned(&server, "options", &user.token).await;
    clone.git(&["checkout", "--quiet", "-b", "topic"]).await;
    clone.commit("topic.txt", "1").await;
    let output = clone.run(&["push", "-o", "ci.skip", "-o", "merge_request.create", "origin", "topic"]).await;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("A merge request for topic will be created."), "{text}");
    let created = merge_requests(&server, project.id).await;
    assert_eq!(created.len(), 1);
    for (field, value) in [
        ("title", json!("topic.txt")),
        ("source_branch", json!("topic")),
        ("target_branch", json!("main")),
        ("state", json!("opened")),
        ("squash", json!(false)),
        ("draft", json!(false)),
    ] {
        assert_eq!(created[0][field], value, "{field}");
    }
    assert_eq!(created[0]["author"]["username"], "dev");
    // Another push to the branch creates no second one.
    clone.commit("topic.txt", "2").await;
    clone.git(&["push", "--quiet", "-o", "merge_request.create", "origin", "topic"]).await;
    assert_eq!(merge_requests(&server, project.id).await.len(), 1);
    // All attributes.
    clone.git(&["checkout", "--quiet", "-b", "other"]).await;
    let options = [
        "merge_request.create",
        "merge_request.target=feature/x",
        "merge_request.title=Other",
        "merge_request.description=a\\nb",
        "merge_request.draft",
        "merge_request.label=bug",
        "merge_request.squash",
        "merge_request.remove_source_branch",
    ];
    let mut arguments = vec!["push", "--quiet"];
    arguments.extend(options.iter().flat_map(|option| ["-o", *option]));
    arguments.extend(["origin", "other"]);
    clone.git(&arguments).await;
    let created = merge_requests(&server, project.id).await;
    for (field, value) in [
        ("title", json!("Draft: Other")),
        ("target_branch", json!("feature/x")),
        ("description", json!("a\nb")),
        ("labels", json!(["bug"])),
        ("squash", json!(true)),
        ("force_remove_source_branch", json!(true)),
    ] {
        assert_eq!(created[1][field], value, "{field}");
    }
}

async fn invalid_requests_of_merge_requests_do_not_fail_the_push(server: TestServer) {
    let project = Project::with_commits(&server, "invalid", Visibility::Private).await;
    let (_clones, clone) = cloned(&server, "invalid", ROOT_TOKEN).await;
    clone.commit("a", "1").await;
    // The default branch, a missing target, and a target without new commits of its own.
    clone.git(&["push", "--quiet", "-o", "merge_request.create", "origin", "main"]).await;
    let target = "merge_request.target=missing";
    clone.git(&["push", "--quiet", "-o", "merge_request.create", "-o", target, "origin", "main:one"]).await;
    let target = "merge_request.target=two";
    clone.git(&["push", "--quiet", "-o", "merge_request.create", "-o", target, "origin", "main:two"]).await;
    clone.git(&["push", "--quiet", "-o", "merge_request.create", "origin", ":one"]).await;
    assert!(merge_requests(&server, project.id).await.is_empty());
    let many: Vec<String> = (0..33).map(|number| format!("x={number}")).collect();
    let mut arguments = vec!["push"];
    arguments.extend(many.iter().flat_map(|option| ["-o", option.as_str()]));
    arguments.extend(["origin", "main:three"]);
    clone.fails(&arguments).await;
}

async fn push_of_new_branch_shows_how_to_create_merge_request(server: TestServer) {
    let project = Project::with_commits(&server, "hints", Visibility::Private).await;
    let (_clones, clone) = cloned(&server, "hints", ROOT_TOKEN).await;
    let push = async |refs: &str| {
        let output = clone.run(&["push", "origin", refs]).await;
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let hint = "To create a merge request for";
    let shown = push("main:refs/heads/new").await;
    assert!(shown.contains("remote: To create a merge request for new, run:"), "{shown}");
    assert!(shown.contains("git push -o merge_request.create origin new"), "{shown}");
    clone.commit("a", "1").await;
    // Known branches, the default branch, tags and deletions have no hint.
    for refs in ["main:refs/heads/new", "main", "main:refs/tags/v1", ":refs/heads/new"] {
        assert!(!push(refs).await.contains(hint), "{refs}");
    }
    let off = json!({"merge_requests_access_level": "disabled"});
    server.root().put(&format!("/projects/{}", project.id), off).await.expect(200);
    assert!(!push("main:refs/heads/more").await.contains(hint));
}

on_every_database![
    push_option_creates_merge_request_as_the_pusher,
    invalid_requests_of_merge_requests_do_not_fail_the_push,
    push_of_new_branch_shows_how_to_create_merge_request,
];
