//! Commits created from actions.

use sea_orm::ActiveValue::Set;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::repository::Sample;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

fn body(actions: Value) -> Value {
    json!({ "branch": "main", "commit_message": "Rearrange\n\nBecause", "actions": actions })
}

fn new_branch_body(branch: &str, start: Value) -> Value {
    let mut body = json!({
        "branch": branch, "commit_message": "x",
        "actions": [{ "action": "create", "file_path": "new", "content": "x" }],
    });
    for (key, value) in start.as_object().expect("an object") {
        body[key] = value.clone();
    }
    body
}

async fn create_commit_applies_all_action_types(server: TestServer) {
    let sample = Sample::new(&server).await;
    let before = sample.id_of("main");
    let created = server
        .root()
        .post(
            &sample.commits(),
            body(json!([
                { "action": "create", "file_path": "a/b.txt", "content": "one\ntwo\n" },
                { "action": "create", "file_path": "bytes", "content": "AAEC/w==", "encoding": "base64" },
                { "action": "update", "file_path": "crlf.txt", "content": "a\r\nc\r\n" },
                { "action": "move", "file_path": "bin/start", "previous_path": "bin/run" },
                { "action": "move", "file_path": "moved", "previous_path": "README.md", "content": "New\n" },
                { "action": "move", "file_path": "emptied", "previous_path": "topic.txt", "content": "" },
                { "action": "delete", "file_path": "image.bin", "content": "ignored" },
                { "action": "chmod", "file_path": "a/b.txt", "execute_filemode": true },
                { "action": "update", "file_path": "bytes", "content": "later" },
            ])),
        )
        .await
        .expect(201)
        .json();
    let id = sample.id_of("main");
    assert_eq!((&created["id"], &created["parent_ids"]), (&json!(id), &json!([before])));
    assert_eq!((&created["title"], &created["message"]), (&json!("Rearrange"), &json!("Rearrange\n\nBecause")));
    assert_eq!((&created["status"], &created["last_pipeline"]), (&json!(null), &json!(null)));
    assert_eq!(created["project_id"], sample.id);
    let shown = server.root().get(&sample.commit(&id)).await.expect(200).json();
    assert_eq!(shown, created);
    let tree = sample.git_raw(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "main"]);
    for line in ["100755 a/b.txt", "100755 bin/start", "100644 moved", "100644 emptied", "160000 sub"] {
        assert!(tree.lines().any(|found| found == line), "{line}\n{tree}");
    }
    for deleted in ["bin/run", "README.md", "topic.txt", "image.bin"] {
        assert!(!tree.contains(deleted), "{deleted}\n{tree}");
    }
    assert_eq!(sample.git_raw(&["show", "main:moved"]), "New\n");
    assert_eq!(sample.git_raw(&["show", "main:emptied"]), "");
    assert_eq!(sample.git_raw(&["show", "main:bytes"]), "later");
    assert_eq!(sample.git_raw(&["show", "main:crlf.txt"]), "a\r\nc\r\n");
    sample.fsck();
}

async fn create_commit_accepts_form_and_omits_stats(server: TestServer) {
    let sample = Sample::new(&server).await;
    let created = server
        .root()
        .post_form(
            &sample.commits(),
            &[
                ("branch", "main"),
                ("commit_message", "Form"),
                ("stats", "false"),
                ("author_name", "Grace Hopper"),
                ("author_email", "grace@example.com"),
                ("actions[][action]", "create"),
                ("actions[][file_path]", "one"),
                ("actions[][content]", "1"),
                ("actions[][action]", "move"),
                ("actions[][previous_path]", "README.md"),
                ("actions[][file_path]", "two"),
            ],
        )
        .await
        .expect(201)
        .json();
    assert!(created.get("stats").is_none());
    assert_eq!(
        (&created["author_name"], &created["author_email"]),
        (&json!("Grace Hopper"), &json!("grace@example.com"))
    );
    assert_eq!(created["committer_name"], "Administrator");
    let changed = sample.git_raw(&["diff", "--name-only", "--no-renames", "main~1", "main"]);
    assert_eq!(changed, "README.md\none\ntwo\n");
}

async fn create_commit_with_invalid_action_changes_nothing(server: TestServer) {
    let sample = Sample::new(&server).await;
    let before = sample.id_of("main");
    let (exists, missing) = ("A file with this name already exists", "A file with this name doesn't exist");
    let traversal = "Path cannot include directory traversal";
    for (action, message) in [
        (json!({ "action": "create", "file_path": "README.md", "content": "" }), exists),
        (json!({ "action": "create", "file_path": "x" }), "You must provide content"),
        (json!({ "action": "create", "file_path": "", "content": "x" }), "You must provide a file path"),
        (json!({ "action": "create", "file_path": "a/../b", "content": "x" }), traversal),
        (json!({ "action": "move", "file_path": "x", "previous_path": "../y" }), traversal),
        (json!({ "action": "update", "file_path": "x" }), "actions[0][content] is missing"),
        (json!({ "action": "update", "file_path": "x", "content": "x" }), missing),
        (json!({ "action": "update", "file_path": "sub", "content": "x" }), missing),
        (json!({ "action": "update", "file_path": "bin", "content": "x" }), missing),
        (json!({ "action": "delete", "file_path": "x" }), missing),
        (json!({ "action": "chmod", "file_path": "x", "execute_filemode": true }), missing),
        (json!({ "action": "chmod", "file_path": "x" }), "actions[0][execute_filemode] is missing"),
        (json!({ "action": "move", "file_path": "x" }), "actions[0][previous_path] is missing"),
        (json!({ "action": "move", "file_path": "x", "previous_path": "y" }), missing),
        (json!({ "action": "move", "file_path": "link", "previous_path": "README.md" }), exists),
        (json!({ "action": "create", "file_path": ".git/config", "content": "x" }), "invalid path: '.git/config'"),
        (json!({ "action": "create", "file_path": "a/GIT~1/x", "content": "x" }), "invalid path: 'a/GIT~1/x'"),
        (
            json!({ "action": "create", "file_path": ".gitmodules", "content": "[submodule \"..\"]\n\turl = x\n" }),
            "invalid file '.gitmodules': the name of a submodule must not be empty or have the component '..'",
        ),
        (
            json!({ "action": "create", "file_path": "x", "content": "?", "encoding": "base64" }),
            "content is not valid Base64",
        ),
        (
            json!({ "action": "update", "file_path": "README.md", "content": "x", "last_commit_id": "0123" }),
            "The file has changed since you started editing it: README.md",
        ),
    ] {
        let answer = server.root().post(&sample.commits(), body(json!([action]))).await.expect(400);
        assert_eq!(answer.message(), message, "{action}");
    }
    for path in ["README.md/x", "bin", "a\u{1}b", "a\0b", &"x".repeat(300), &"d/".repeat(300), &"x".repeat(10 << 20)] {
        let action = json!({ "action": "create", "file_path": path, "content": "x" });
        server.root().post(&sample.commits(), body(json!([action]))).await.expect(400);
    }
    let half = json!([
        { "action": "create", "file_path": "fine", "content": "x" },
        { "action": "delete", "file_path": "missing" },
    ]);
    server.root().post(&sample.commits(), body(half)).await.expect(400);
    let same = json!([{ "action": "chmod", "file_path": "bin/run", "execute_filemode": true }]);
    let answer = server.root().post(&sample.commits(), body(same)).await.expect(400);
    assert_eq!(answer.message(), "The commit contains no changes");
    assert_eq!(sample.id_of("main"), before);
    sample.fsck();
}

async fn create_commit_rejects_missing_and_invalid_parameters(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let empty = root.post(&sample.commits(), json!({})).await.expect(400);
    assert_eq!(empty.message(), "branch is missing, branch is empty, commit_message is missing, actions is missing");
    let one = json!([{ "action": "create", "file_path": "x", "content": "x" }]);
    for body in [
        json!({ "branch": "main", "commit_message": " ", "actions": one }),
        json!({ "branch": "main", "commit_message": "x", "actions": "all" }),
        json!({ "branch": "main", "commit_message": "x", "actions": [{ "action": "burn", "file_path": "x" }] }),
        json!({ "branch": "main", "commit_message": "x", "actions": [{ "action": "delete" }] }),
        json!({ "branch": "main", "commit_message": "x", "actions": [1] }),
        json!({ "branch": "main", "commit_message": "x", "actions": one, "force": "perhaps" }),
        json!({ "branch": { "a": 1 }, "commit_message": "x", "actions": one }),
        json!([1]),
    ] {
        root.post(&sample.commits(), body.clone()).await.expect(400);
    }
    let exclusive = new_branch_body("new", json!({ "start_branch": "main", "start_sha": sample.id_of("main") }));
    let answer = root.post(&sample.commits(), exclusive).await.expect(400);
    assert_eq!(answer.message(), "start_branch, start_sha are mutually exclusive");
}

async fn create_commit_without_actions_creates_empty_commit(server: TestServer) {
    let sample = Sample::new(&server).await;
    let created = server.root().post(&sample.commits(), body(json!([]))).await.expect(201).json();
    assert_eq!(created["stats"], json!({ "additions": 0, "deletions": 0, "total": 0 }));
    assert_eq!(sample.git_raw(&["diff", "main~1", "main"]), "");
}

async fn create_commit_starts_at_given_branch_or_commit(server: TestServer) {
    let sample = Sample::new(&server).await;
    let root = server.root();
    let url = sample.commits();
    let first = sample.id_of("v1.0");
    root.post(&url, new_branch_body("one", json!({ "start_branch": "topic" }))).await.expect(201);
    assert_eq!(sample.id_of("one~1"), sample.id_of("topic"));
    root.post(&url, new_branch_body("two", json!({ "start_sha": first }))).await.expect(201);
    assert_eq!(sample.id_of("two~1"), first);
    let on_a_branch = "You can only create or edit files when you are on a branch".to_owned();
    let taken = "A branch called 'topic' already exists. Switch to that branch in order to make changes".to_owned();
    let unknown = "0123456789012345678901234567890123456789";
    let tree = sample.git_raw(&["rev-parse", "main^{tree}"]).trim().to_owned();
    for (branch, start, message) in [
        ("none", json!({}), on_a_branch.clone()),
        ("none", json!({ "start_branch": "unknown" }), on_a_branch.clone()),
        ("none", json!({ "start_sha": "main" }), "Invalid start_sha 'main'".to_owned()),
        ("none", json!({ "start_sha": &first[..10] }), format!("Invalid start_sha '{}'", &first[..10])),
        ("none", json!({ "start_sha": unknown }), format!("Cannot find start_sha '{unknown}'")),
        ("none", json!({ "start_sha": tree }), format!("Cannot find start_sha '{tree}'")),
        ("topic", json!({ "start_branch": "main" }), taken.clone()),
        ("topic", json!({ "start_sha": first }), taken),
    ] {
        let answer = root.post(&url, new_branch_body(branch, start.clone())).await.expect(400);
        assert_eq!(answer.message(), message, "{branch} {start}");
    }
    let forced = new_branch_body("topic", json!({ "start_sha": first, "force": true }));
    root.post(&url, forced).await.expect(201);
    assert_eq!(sample.id_of("topic~1"), first);
    let appended = json!({
        "branch": "topic", "commit_message": "x", "force": true,
        "actions": [{ "action": "create", "file_path": "more", "content": "x" }],
    });
    root.post(&url, appended).await.expect(201);
    assert_eq!(sample.id_of("topic~2"), first);
    sample.fsck();
}

async fn create_commit_can_start_in_project_of_fork_network(server: TestServer) {
    let source = Sample::new(&server).await;
    let fork = Sample::empty(&server, Visibility::Private).await;
    fork.update(|row| row.forked_from_id = Set(Some(source.id))).await;
    let root = server.root();
    let first = source.id_of("v1.0");
    let by_branch = new_branch_body("topic", json!({ "start_project": source.id, "start_branch": "topic" }));
    let created = root.post(&fork.commits(), by_branch).await.expect(201).json();
    assert_eq!(created["parent_ids"], json!([source.id_of("topic")]));
    let path = format!("root/{}", source.project().await.path);
    let by_sha = new_branch_body("two", json!({ "start_project": path, "start_sha": first }));
    root.post(&fork.commits(), by_sha).await.expect(201);
    assert_eq!(fork.id_of("two~1"), first);
    let unknown = new_branch_body("three", json!({ "start_project": path, "start_branch": "unknown" }));
    root.post(&fork.commits(), unknown).await.expect(400);
    let missing = new_branch_body("three", json!({ "start_project": "no/such", "start_branch": "main" }));
    assert_eq!(root.post(&fork.commits(), missing).await.expect(404).message(), "404 Project Not Found");
    let outside = fork.member(Some(AccessLevel::Developer)).await;
    let hidden = new_branch_body("three", json!({ "start_project": path, "start_branch": "main" }));
    assert_eq!(outside.post(&fork.commits(), hidden.clone()).await.expect(404).message(), "404 Project Not Found");
    let stranger = Sample::new(&server).await;
    let answer = root.post(&stranger.commits(), hidden.clone()).await.expect(403);
    let name = stranger.project().await.name;
    assert_eq!(
        answer.message(),
        format!("403 Forbidden - Project is not included in the fork network for Administrator / {name}")
    );
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({ "parent_id": outer, "name": "Inner" })).await;
    let nested = json!({ "namespace_id": inner, "initialize_with_readme": true });
    let nested = project(&root, "nested", nested).await;
    let answer = root.post(&format!("/projects/{nested}/repository/commits"), hidden).await.expect(403);
    assert_eq!(
        answer.message(),
        "403 Forbidden - Project is not included in the fork network for outer / Inner / nested"
    );
    fork.fsck();
}

async fn create_commit_requires_developer_and_push_access(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect("main", 40, 40).await;
    let url = sample.commits();
    let ready = body(json!([{ "action": "create", "file_path": "x", "content": "x" }]));
    for level in [AccessLevel::Guest, AccessLevel::Reporter] {
        let client = sample.member(Some(level)).await;
        assert_eq!(client.post(&url, json!({})).await.expect(403).message(), "403 Forbidden");
    }
    sample.member(None).await.post(&url, ready.clone()).await.expect(404);
    server.anonymous().post(&url, ready.clone()).await.expect(401);
    let developer = sample.member(Some(AccessLevel::Developer)).await;
    let rejected = developer.post(&url, ready.clone()).await.expect(403);
    assert_eq!(rejected.message(), "403 Forbidden - You are not allowed to push into this branch");
    developer.post(&url, new_branch_body("mine", json!({ "start_branch": "main" }))).await.expect(201);
    sample.member(Some(AccessLevel::Maintainer)).await.post(&url, ready.clone()).await.expect(201);
    sample.update(|row| row.archived = Set(true)).await;
    server.root().post(&url, ready).await.expect(403);
}

async fn create_commit_with_force_follows_the_rule_for_forced_pushes(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect("main", 30, 30).await;
    sample.protect("release/*", 30, 30).await;
    let (url, first, head) = (sample.commits(), sample.id_of("v1.0"), sample.id_of("main"));
    let developer = sample.member(Some(AccessLevel::Developer)).await;
    let forced = |branch: &str, start: Value| {
        let mut body = new_branch_body(branch, start);
        body["force"] = json!(true);
        body
    };
    let refused = "403 Forbidden - You are not allowed to force push into this branch";
    for client in [&developer, &server.root()] {
        for start in [json!({ "start_sha": first }), json!({ "start_branch": "topic" })] {
            let answer = client.post(&url, forced("main", start.clone())).await.expect(403);
            assert_eq!(answer.message(), refused, "{start}");
        }
    }
    assert_eq!(sample.id_of("main"), head);
    // The rule concerns only commits that a branch loses.
    developer.post(&url, forced("ahead", json!({ "start_branch": "main" }))).await.expect(201);
    let ahead = sample.id_of("ahead");
    let next = json!({
        "branch": "main", "commit_message": "x", "force": true, "start_branch": "ahead",
        "actions": [{ "action": "create", "file_path": "next", "content": "x" }],
    });
    developer.post(&url, next).await.expect(201);
    assert_eq!(sample.id_of("main~1"), ahead);
    developer.post(&url, forced("release/1", json!({ "start_sha": first }))).await.expect(201);
    developer.post(&url, forced("ahead", json!({ "start_sha": first }))).await.expect(201);
    assert_eq!(sample.id_of("ahead~1"), first);
    // Only Maintainers may force-push to a default branch without protection.
    sample.update(|row| row.default_branch = Set(Some("topic".to_owned()))).await;
    let reset = forced("topic", json!({ "start_sha": first }));
    assert_eq!(developer.post(&url, reset.clone()).await.expect(403).message(), refused);
    sample.member(Some(AccessLevel::Maintainer)).await.post(&url, reset).await.expect(201);
    sample.fsck();
}

async fn first_commit_sets_default_branch(server: TestServer) {
    let sample = Sample::empty(&server, Visibility::Private).await;
    let created = server.root().post(&sample.commits(), new_branch_body("trunk", json!({}))).await.expect(201).json();
    assert_eq!(created["parent_ids"], json!([]));
    assert_eq!(sample.project().await.default_branch.as_deref(), Some("trunk"));
    let listed = server.root().get(&sample.commits()).await.expect(200);
    assert_eq!(listed.pluck("id"), [created["id"].clone()]);
    sample.fsck();
}

async fn create_commit_accepts_100_actions_and_5_megabytes(server: TestServer) {
    let sample = Sample::new(&server).await;
    let large = "0123456789abcde\n".repeat(5 << 16);
    let mut actions: Vec<Value> = (0..99)
        .map(
            |number| json!({ "action": "create", "file_path": format!("d{}/f{number}", number % 7), "content": "x\n" }),
        )
        .collect();
    actions.push(json!({ "action": "create", "file_path": "large", "content": large }));
    let created = server.root().post(&sample.commits(), body(json!(actions))).await.expect(201).json();
    assert_eq!(created["stats"]["additions"], 99 + (5 << 16));
    assert_eq!(sample.git_raw(&["show", "main:large"]), large);
    sample.fsck();
}

on_every_database![
    create_commit_applies_all_action_types,
    create_commit_accepts_form_and_omits_stats,
    create_commit_with_invalid_action_changes_nothing,
    create_commit_rejects_missing_and_invalid_parameters,
    create_commit_without_actions_creates_empty_commit,
    create_commit_starts_at_given_branch_or_commit,
    create_commit_can_start_in_project_of_fork_network,
    create_commit_requires_developer_and_push_access,
    create_commit_with_force_follows_the_rule_for_forced_pushes,
    first_commit_sets_default_branch,
    create_commit_accepts_100_actions_and_5_megabytes,
];
