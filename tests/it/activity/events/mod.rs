//! Lists of events.

mod recovery;

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, projects, users};

use crate::support::code::Project;
use crate::support::spaces::{self, join};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the action names of a list in its order.
async fn names(client: &Client, path: &str) -> Vec<String> {
    let list = client.get(path).await.expect(200);
    list.pluck("action_name").iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

async fn commit(client: &Client, project: i64, branch: &str, file: &str) -> String {
    let body = json!({
        "branch": branch, "commit_message": format!("Add {file}"),
        "actions": [{ "action": "create", "file_path": file, "content": "x" }],
    });
    let created = client.post(&format!("/projects/{project}/repository/commits"), body).await.expect(201);
    created.json()["id"].as_str().expect("an id").to_owned()
}

async fn list_project_events_returns_all_kinds_newest_first(server: TestServer) {
    let root = server.root();
    let id = spaces::project(&root, "p", json!({ "name": "Engine" })).await;
    let url = format!("/projects/{id}/events");
    let ada = server.create_user("ada").await;
    join(&root, &format!("/projects/{id}"), ada.id, 30).await;
    let first = commit(&root, id, "main", "a").await;
    let second = commit(&root, id, "main", "b").await;
    let repository = format!("/projects/{id}/repository");
    root.post(&format!("{repository}/tags"), json!({ "tag_name": "v1", "ref": "main" })).await.expect(201);
    root.delete(&format!("{repository}/tags/v1")).await.expect(204);
    root.post(&format!("{repository}/commits/{second}/comments"), json!({ "note": "Nice" })).await.expect(201);
    root.delete(&format!("/projects/{id}/members/{}", ada.id)).await.expect(204);
    assert_eq!(
        names(&root, &url).await,
        ["left", "commented on", "deleted", "pushed new", "pushed to", "pushed new", "joined", "created",]
    );
    let listed = root.get(&url).await.expect(200).json();
    assert_eq!(
        listed[4],
        json!({
            "id": listed[4]["id"], "project_id": id, "action_name": "pushed to", "target_id": null, "target_iid": null,
            "target_type": null, "target_title": null, "author_id": 1, "author": listed[4]["author"],
            "author_username": "root", "created_at": listed[4]["created_at"],
            "push_data": {
                "commit_count": 1, "action": "pushed", "ref_type": "branch", "commit_from": first, "commit_to": second,
                "ref": "main", "commit_title": "Add b", "ref_count": null,
            },
        })
    );
    assert_eq!(listed[3]["push_data"]["ref_type"], "tag");
    let note = &listed[1];
    assert_eq!((&note["target_type"], &note["target_title"]), (&json!("Note"), &json!("Add b")));
    assert_eq!((&note["note"]["body"], &note["note"]["noteable_type"]), (&json!("Nice"), &json!("Commit")));
    assert_eq!(listed[6]["author_username"], "ada");
    assert_eq!((&listed[7]["target_type"], &listed[7]["target_title"]), (&json!("Project"), &json!("Engine")));
}

async fn list_events_supports_filters_and_pages(server: TestServer) {
    let root = server.root();
    let id = spaces::project(&root, "p", json!({})).await;
    let url = format!("/projects/{id}/events");
    let sha = commit(&root, id, "main", "a").await;
    root.post(&format!("/projects/{id}/repository/commits/{sha}/comments"), json!({ "note": "x" })).await.expect(201);
    let today = chrono::Utc::now().date_naive();
    let (before, after) = (today + chrono::Days::new(1), today - chrono::Days::new(1));
    for (query, expected) in [
        ("action=pushed".to_owned(), vec!["pushed new"]),
        ("target_type=note".to_owned(), vec!["commented on"]),
        ("target_type=issue".to_owned(), vec![]),
        ("sort=asc".to_owned(), vec!["created", "pushed new", "commented on"]),
        ("sort=asc&per_page=1&page=2".to_owned(), vec!["pushed new"]),
        (format!("before={before}&after={after}&action=created"), vec!["created"]),
        (format!("before={today}"), vec![]),
        (format!("after={today}"), vec![]),
    ] {
        assert_eq!(names(&root, &format!("{url}?{query}")).await, expected, "{query}");
    }
    for path in [url.as_str(), "/events", "/users/root/events"] {
        for query in ["action=odd", "target_type=odd", "sort=odd", "before=odd", "page=x"] {
            assert_eq!(root.get(&format!("{path}?{query}")).await.status, 400, "{path} {query}");
        }
    }
    assert_eq!(root.get("/events?scope=odd").await.status, 400);
}

async fn code_events_require_code_access(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let root = server.root();
    let sha = commit(&root, project.id, "main", "a").await;
    root.post(&project.url(&format!("/commits/{sha}/comments")), json!({ "note": "x" })).await.expect(201);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/projects/{}", project.id), ada.id, 10).await;
    let url = format!("/projects/{}/events", project.id);
    assert_eq!(names(&ada.client, &url).await, ["joined"]);
    assert_eq!(names(&ada.client, "/users/root/events").await, Vec::<String>::new());
    assert_eq!(names(&ada.client, "/events?scope=all").await, ["joined"]);
    let level = json!({ "access_level": 20 });
    root.put(&format!("/projects/{}/members/{}", project.id, ada.id), level).await.expect(200);
    assert_eq!(names(&ada.client, &url).await, ["joined", "commented on", "pushed to"]);
    assert_eq!(names(&ada.client, "/users/1/events").await, ["commented on", "pushed to"]);
    assert_eq!(names(&ada.client, "/events?scope=all").await, ["joined", "commented on", "pushed to"]);
    assert_eq!(names(&ada.client, "/events").await, ["joined"]);
}

async fn user_events_follow_project_visibility(server: TestServer) {
    let root = server.root();
    for visibility in ["private", "internal", "public"] {
        let id = spaces::project(&root, visibility, json!({ "visibility": visibility })).await;
        commit(&root, id, "main", "a").await;
    }
    let ada = server.create_user("ada").await;
    let count = |client: Client| async move { client.get("/users/root/events").await.expect(200).pluck("id").len() };
    assert_eq!(count(server.anonymous()).await, 2);
    assert_eq!(count(ada.client.clone()).await, 4);
    assert_eq!(count(server.root()).await, 6);
    let url = |path: &str| format!("/projects/root%2F{path}/events");
    assert_eq!(server.anonymous().get(&url("public")).await.expect(200).pluck("id").len(), 2);
    assert_eq!(server.anonymous().get(&url("private")).await.status, 404);
    assert_eq!(ada.client.get(&url("private")).await.status, 404);
    assert_eq!(server.anonymous().get("/users/missing-user/events").await.status, 404);
    assert_eq!(server.anonymous().get("/events").await.status, 401);
    for path in [url("public").as_str(), "/users/root/events"] {
        assert_eq!(server.with_token("wrong").get(path).await.status, 401);
    }
    let narrow = server.with_token(&server.create_token(1, &["read_repository"]).await);
    for path in [url("public").as_str(), "/users/root/events", "/events"] {
        assert_eq!(narrow.get(path).await.status, 403, "{path}");
    }
    let reader = server.with_token(&server.create_token(1, &["read_user"]).await);
    assert_eq!(reader.get("/events").await.status, 200);
    assert_eq!(root.get("/events?sudo=missing-user").await.status, 404);
}

async fn private_profile_hides_user_events(server: TestServer) {
    let ada = server.create_user("ada").await;
    let id = spaces::project(&ada.client, "p", json!({ "visibility": "public" })).await;
    assert_eq!(names(&server.anonymous(), "/users/ada/events").await, ["created"]);
    users::Entity::update_many()
        .col_expr(users::Column::PrivateProfile, Expr::value(true))
        .filter(users::Column::Id.eq(ada.id))
        .exec(server.backend.database.write())
        .await
        .unwrap();
    assert_eq!(server.anonymous().get("/users/ada/events").await.expect(200).json(), json!([]));
    assert_eq!(names(&ada.client, "/users/ada/events").await, ["created"]);
    assert_eq!(names(&server.root(), "/users/ada/events").await, ["created"]);
    ada.client.delete(&format!("/projects/{id}")).await.expect(202);
    server.finish_jobs().await;
    let own = ada.client.get("/events").await.expect(200).json();
    assert_eq!(
        (&own[0]["action_name"], &own[0]["target_title"], &own[0]["project_id"]),
        (&json!("destroyed"), &json!("p"), &Value::Null)
    );
    assert_eq!(own.as_array().map(Vec::len), Some(1));
}

async fn events_update_last_activity_of_project(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let root = server.root();
    let long_ago = "2020-01-01T00:00:00Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    let ada = server.create_user("ada").await;
    let sha = project.id("main");
    for step in ["comment", "member", "push"] {
        projects::Entity::update_many()
            .col_expr(projects::Column::LastActivityAt, Expr::value(long_ago))
            .exec(server.backend.database.write())
            .await
            .unwrap();
        match step {
            "comment" => {
                root.post(&project.url(&format!("/commits/{sha}/comments")), json!({ "note": "x" })).await.expect(201);
            }
            "member" => join(&root, &format!("/projects/{}", project.id), ada.id, 30).await,
            _ => {
                commit(&root, project.id, "main", "a").await;
            }
        }
        assert!(project.project().await.last_activity_at > long_ago, "{step}");
    }
}

async fn leaving_group_records_leaving_its_projects(server: TestServer) {
    let root = server.root();
    let group = spaces::group(&root, "g", json!({})).await;
    let id = spaces::project(&root, "p", json!({ "namespace_id": group })).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{group}"), ada.id, 10).await;
    join(&root, &format!("/projects/{id}"), ada.id, AccessLevel::Developer as i64).await;
    root.delete(&format!("/groups/{group}/members/{}", ada.id)).await.expect(204);
    assert_eq!(names(&root, &format!("/projects/{id}/events")).await, ["left", "joined", "created"]);
}

async fn list_events_statement_count_is_constant(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Public).await;
    let root = server.root();
    let sha = project.id("main");
    let comment = || async {
        root.post(&project.url(&format!("/commits/{sha}/comments")), json!({ "note": "x" })).await.expect(201);
    };
    comment().await;
    let paths = [format!("/projects/{}/events", project.id), "/events".to_owned(), "/users/root/events".to_owned()];
    let costs = || async {
        let mut costs = Vec::new();
        for path in &paths {
            let before = server.statements();
            root.get(path).await.expect(200);
            costs.push(server.statements() - before);
        }
        costs
    };
    let few = costs().await;
    // A list that is longer than a page is also counted.
    for number in 0..4 {
        comment().await;
        commit(&root, project.id, "main", &format!("f{number}")).await;
    }
    assert_eq!(costs().await, few);
}

/// Many notes can belong to an issue with a long description, which lists of events do not contain.
async fn events_of_notes_do_not_read_descriptions(server: TestServer) {
    let root = server.root();
    let id = spaces::project(&root, "p", json!({})).await;
    let issues = format!("/projects/{id}/issues");
    root.post(&issues, json!({ "title": "First" })).await.expect(201);
    let body = json!({ "title": "Second", "description": "x".repeat(100_000) });
    let iid = root.post(&issues, body).await.expect(201).json()["iid"].clone();
    for number in 0..3 {
        let note = json!({ "body": format!("Note {number}") });
        root.post(&format!("{issues}/{iid}/notes"), note).await.expect(201);
    }
    let before = server.statements();
    let listed = root.get(&format!("/projects/{id}/events?target_type=note")).await.expect(200).json();
    let texts = server.statement_texts(before).into_iter();
    let read: Vec<String> = texts.filter(|text| text.contains("\"issues\".\"description\"")).collect();
    assert!(read.is_empty(), "{read:?}");
    let iids = listed.as_array().expect("a list").iter().map(|event| event["note"]["noteable_iid"].clone());
    assert_eq!(iids.collect::<Vec<_>>(), vec![iid; 3]);
}

on_every_database![
    list_project_events_returns_all_kinds_newest_first,
    list_events_supports_filters_and_pages,
    code_events_require_code_access,
    user_events_follow_project_visibility,
    private_profile_hides_user_events,
    events_update_last_activity_of_project,
    leaving_group_records_leaving_its_projects,
    list_events_statement_count_is_constant,
    events_of_notes_do_not_read_descriptions,
];
