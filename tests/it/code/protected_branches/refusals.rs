//! Roles, invalid input and preconditions of protected branches.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use super::protection;
use crate::support::client::segment;
use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

async fn changes_require_maintainer_and_reads_reporter(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let private = Project::with_commits(&server, "secret", Visibility::Private).await;
    let url = |id: i64| format!("/projects/{id}/protected_branches");
    let (all, one) = (url(project.id), format!("{}/main", url(project.id)));
    for (level, name) in [
        (AccessLevel::Guest, "guest"),
        (AccessLevel::Reporter, "reporter"),
        (AccessLevel::Developer, "developer"),
        (AccessLevel::Maintainer, "maintainer"),
    ] {
        let client = project.member(name, level).await;
        let (reads, writes) = (level >= AccessLevel::Reporter, level >= AccessLevel::Maintainer);
        client.get(&all).await.expect(if reads { 200 } else { 403 });
        client.get(&one).await.expect(if reads { 200 } else { 403 });
        client.post(&all, json!({"name": name})).await.expect(if writes { 201 } else { 403 });
        client.patch(&one, json!({"allow_force_push": false})).await.expect(if writes { 200 } else { 403 });
        client.delete(&format!("{all}/{name}")).await.expect(if writes { 204 } else { 403 });
    }
    let stranger = server.create_user("stranger").await.client;
    for (client, visible, hidden) in [(&stranger, 403, 404), (&server.anonymous(), 401, 401)] {
        for (base, status) in [(&all, visible), (&url(private.id), hidden)] {
            client.get(base).await.expect(status);
            client.get(&format!("{base}/main")).await.expect(status);
            client.post(base, json!({"name": "x"})).await.expect(status);
            client.patch(&format!("{base}/main"), json!({})).await.expect(status);
            client.delete(&format!("{base}/main")).await.expect(status);
        }
    }
    project.archive().await;
    root.get(&all).await.expect(200);
    root.post(&all, json!({"name": "x"})).await.expect(403);
    root.delete(&one).await.expect(403);
}

async fn unprotect_levels_restrict_changes(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let (ann, bob) = (server.create_user("ann").await, server.create_user("bob").await);
    for user in [&ann, &bob] {
        server.insert_member(project.id, user.id, AccessLevel::Maintainer).await;
    }
    let path = format!("/projects/{}", project.id);
    let one = format!("{path}/protected_branches/main");
    let body = json!({"allowed_to_unprotect": [{"user_id": ann.id}]});
    assert_eq!(root.patch(&one, body).await.expect(200).json()["unprotect_access_levels"][0]["user_id"], ann.id);
    let branch = project.url("/branches/main");
    let refused = bob.client.patch(&one, json!({"allow_force_push": true})).await.expect(403);
    assert_eq!(refused.message(), "403 Forbidden - You are not allowed to change the protection of this branch");
    bob.client.delete(&one).await.expect(403);
    bob.client.put(&format!("{branch}/protect"), json!({"developers_can_push": true})).await.expect(403);
    bob.client.put(&format!("{branch}/unprotect"), json!({})).await.expect(403);
    ann.client.patch(&one, json!({"allow_force_push": true})).await.expect(200);
    ann.client.put(&format!("{branch}/unprotect"), json!({})).await.expect(200);
    // Without an entry that includes them, Maintainers are refused, and administrators are not.
    protection(&root, &path, json!({"name": "main", "unprotect_access_level": 60})).await;
    ann.client.delete(&one).await.expect(403);
    root.delete(&one).await.expect(204);
    // A Developer never suffices.
    protection(&root, &path, json!({"name": "main", "unprotect_access_level": 30})).await;
    let developer = project.member("dev", AccessLevel::Developer).await;
    developer.delete(&one).await.expect(403);
    bob.client.delete(&one).await.expect(204);
}

async fn invalid_attributes_are_rejected(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let stranger = server.create_user("stranger").await;
    let all = format!("/projects/{}/protected_branches", project.id);
    let many: Vec<Value> = (1..=51).map(|id| json!({"user_id": id})).collect();
    for (body, status, message) in [
        (json!({}), 400, "name is missing, name is empty"),
        (json!({"name": ""}), 400, "name is empty"),
        (json!({"name": "x".repeat(1_025)}), 400, "name is too long (maximum is 1024 characters)"),
        (json!({"name": "x", "push_access_level": 20}), 400, "push_access_level does not have a valid value"),
        (json!({"name": "x", "push_access_level": 50}), 400, "push_access_level does not have a valid value"),
        (json!({"name": "x", "merge_access_level": "all"}), 400, "merge_access_level is invalid"),
        (json!({"name": "x", "unprotect_access_level": 0}), 400, "unprotect_access_level does not have a valid value"),
        (json!({"name": "x", "allow_force_push": "perhaps"}), 400, "allow_force_push is invalid"),
        (
            json!({"name": "x", "allowed_to_push": [{"access_level": 10}]}),
            400,
            "allowed_to_push[0][access_level] does not have a valid value",
        ),
        (
            json!({"name": "x", "allowed_to_unprotect": [{"access_level": 0}]}),
            400,
            "allowed_to_unprotect[0][access_level] does not have a valid value",
        ),
        (
            json!({"name": "x", "allowed_to_merge": [{}]}),
            400,
            "allowed_to_merge[0] must have exactly one of access_level, user_id, group_id and deploy_key_id",
        ),
        (
            json!({"name": "x", "allowed_to_merge": [{"access_level": 30, "user_id": 1}]}),
            400,
            "allowed_to_merge[0] must have exactly one of access_level, user_id, group_id and deploy_key_id",
        ),
        (json!({"name": "x", "allowed_to_push": [{"user_id": "ann"}]}), 400, "allowed_to_push[0][user_id] is invalid"),
        (json!({"name": "main"}), 409, "Protected branch 'main' already exists"),
        (
            json!({"name": "x", "allowed_to_push": [{"user_id": stranger.id}]}),
            422,
            "Push access levels user is not a member of the project",
        ),
        (
            json!({"name": "x", "allowed_to_merge": [{"user_id": 999_999_999}]}),
            422,
            "Merge access levels user is not a member of the project",
        ),
        (
            json!({"name": "x", "allowed_to_unprotect": [{"group_id": 999_999_999}]}),
            422,
            "Unprotect access levels group does not have access to the project",
        ),
        (
            json!({"name": "x", "allowed_to_push": [{"deploy_key_id": -1}]}),
            422,
            "Push access levels deploy key cannot push to the project",
        ),
        (
            json!({"name": "x", "allowed_to_push": [{"access_level": 30}, {"access_level": 30}]}),
            422,
            "Push access levels access level has already been taken",
        ),
        (
            json!({"name": "x", "push_access_level": 30, "allowed_to_push": [{"access_level": 30}]}),
            422,
            "Push access levels access level has already been taken",
        ),
    ] {
        let answer = root.post(&all, body.clone()).await.expect(status);
        assert_eq!(answer.message(), message, "{body}");
    }
    root.post(&all, json!({"name": "x", "allowed_to_push": many})).await.expect(400);
    root.post(&all, json!({"name": "x\u{0}"})).await.expect(400);
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), ["main"], "nothing was created");
    let one = format!("{all}/main");
    for (body, status, message) in [
        (json!({"allow_force_push": ""}), 200, ""),
        (
            json!({"allowed_to_push": [{"id": 999, "_destroy": true}]}),
            422,
            "Push access levels has no entry with the ID 999",
        ),
        (
            json!({"allowed_to_merge": [{"id": 999, "access_level": 30}]}),
            422,
            "Merge access levels has no entry with the ID 999",
        ),
        (
            json!({"allowed_to_push": [{"_destroy": true}]}),
            400,
            "allowed_to_push[0] must have exactly one of access_level, user_id, group_id and deploy_key_id",
        ),
        (
            json!({"allowed_to_push": [{"access_level": 40}]}),
            422,
            "Push access levels access level has already been taken",
        ),
        (
            json!({"allowed_to_push": [{"user_id": stranger.id}]}),
            422,
            "Push access levels user is not a member of the project",
        ),
    ] {
        let before = root.get(&one).await.expect(200).json();
        let answer = root.patch(&one, body.clone()).await.expect(status);
        if status != 200 {
            assert_eq!(answer.message(), message, "{body}");
        }
        assert_eq!(root.get(&one).await.expect(200).json(), before, "{body}");
    }
    root.patch(&format!("{all}/none"), json!({})).await.expect(404);
    root.delete(&format!("{all}/none")).await.expect(404);
    root.post(&all, json!({"name": "x", "y": "y".repeat(2 << 20)})).await.expect(413);
    root.patch(&one, json!({"y": "y".repeat(2 << 20)})).await.expect(413);
}

async fn hostile_names_are_rejected_or_protect_only_their_matches(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let root = server.root();
    let all = format!("/projects/{}/protected_branches", project.id);
    for name in [
        " ",
        "a b",
        "a..b",
        "/x",
        "x/",
        "-x",
        "x.lock",
        "refs/heads/x",
        "HEAD",
        "a\nb",
        "a\tb",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "[a]",
        "a\\b",
        "@{1}",
        ".x",
        "x/.y",
        "\u{7f}",
    ] {
        let answer = root.post(&all, json!({"name": name})).await.expect(400);
        let expected = json!({"name": ["is not a valid name or wildcard"]});
        assert!(
            answer.json()["message"] == expected || answer.message() == "name is empty",
            "{name:?}: {}",
            answer.text()
        );
    }
    let long = format!("{}*", "x".repeat(200));
    let stars = format!("{}y", "*x".repeat(100));
    for name in ["'; DROP TABLE users; --%", "%", "_", "<b>", "日本/*", "$(id)", "{}", "a%2Fb", "*", &long, &stars] {
        let name = name.replace([' ', ';'], "-");
        let created = root.post(&all, json!({"name": name})).await.expect(201).json();
        assert_eq!(created["name"], name);
        let one = format!("{all}/{}", segment(&name));
        assert_eq!(root.get(&one).await.expect(200).json(), created, "{name}");
        let seen = root.get(&project.url("/branches/feature%2Fx")).await.expect(200).json();
        assert_eq!(seen["protected"], name == "*", "{name}");
        root.delete(&one).await.expect(204);
    }
    for path in ["a%00b", "%FF"] {
        root.get(&format!("{all}/{path}")).await.expect(400);
    }
    root.get(&format!("{all}/{}", "x".repeat(1_025))).await.expect(400);
}

async fn delete_checks_time_of_last_change(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Private).await;
    let one = format!("/projects/{}/protected_branches/main", project.id);
    let old = server.root().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&one).await.expect(412);
    let new = server.root().header("If-Unmodified-Since", "Fri, 01 Jan 2100 00:00:00 GMT");
    new.delete(&one).await.expect(204);
}

async fn concurrent_requests_create_one_protection(server: TestServer) {
    let project = Project::empty(&server, "engine", Visibility::Private).await;
    let all = format!("/projects/{}/protected_branches", project.id);
    let root = server.root();
    let requests = (0..8).map(|_| root.post(&all, json!({"name": "x"})));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(requests).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(root.get(&all).await.expect(200).pluck("name"), ["x"]);
}

on_every_database![
    changes_require_maintainer_and_reads_reporter,
    unprotect_levels_restrict_changes,
    invalid_attributes_are_rejected,
    hostile_names_are_rejected_or_protect_only_their_matches,
    delete_checks_time_of_last_change,
    concurrent_requests_create_one_protection,
];
