//! Starred metrics dashboards.

mod annotations;

use reqwest::Method;
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::starred_dashboards::Entity;
use storage::entities::{AccessLevel, Visibility, projects, users};

use crate::support::client::segment;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{Client, TestServer, on_every_database};

const BUILT_IN: &str = "config/prometheus/common_metrics.yml";

/// Creates a project with dashboards and returns it with the path of its stars.
async fn with_dashboards<'a>(server: &'a TestServer, name: &str, visibility: Visibility) -> (Project<'a>, String) {
    let project = Project::with_commits(server, name, visibility).await;
    project.import(&NewCommit {
        time: 1_600_000_200,
        changes: [
            file(".service/dashboards/one.yml", "a\n"),
            file(".service/dashboards/a & b+c.yml", "a\n"),
            file(".service/dashboards/deep/two.yml", "a\n"),
            file(".service/dashboards/notes.txt", "a\n"),
            file(".gitlab/dashboards/three.yml", "a\n"),
            format!("M 120000 inline .service/dashboards/link.yml\ndata 7\none.yml\n{}", file("other.yml", "a\n")),
        ]
        .concat(),
        ..NewCommit::default()
    });
    project.import(&NewCommit {
        branch: "feature/x",
        from: Some("refs/heads/feature/x^0"),
        time: 1_600_000_300,
        changes: file(".service/dashboards/elsewhere.yml", "a\n"),
        ..NewCommit::default()
    });
    project.set_default_branch("main").await;
    let stars = format!("/projects/{}/metrics/user_starred_dashboards", project.id);
    (project, stars)
}

async fn star(client: &Client, stars: &str, path: &str) -> Value {
    client.post(stars, json!({"dashboard_path": path})).await.expect(201).json()
}

/// Deletes stars and returns their number.
async fn unstar(client: &Client, stars: &str, query: &str) -> Value {
    client.delete(&format!("{stars}{query}")).await.expect(200).json()["deleted_rows"].clone()
}

async fn star_accepts_escaped_paths_and_unstar_returns_deleted_rows(server: TestServer) {
    let (project, stars) = with_dashboards(&server, "one", Visibility::Private).await;
    let (root, ada) = (server.root(), server.create_user("ada").await);
    server.insert_member(project.id, ada.id, AccessLevel::Reporter).await;
    let starred = star(&ada.client, &stars, BUILT_IN).await;
    assert_eq!(
        starred,
        json!({"id": starred["id"], "dashboard_path": BUILT_IN, "user_id": ada.id, "project_id": project.id})
    );
    let escaped = segment(".service/dashboards/a & b+c.yml");
    let starred = star(&ada.client, &stars, &escaped).await;
    assert_eq!(starred["dashboard_path"], ".service/dashboards/a & b+c.yml");
    // In the query string the path can be escaped once or twice.
    let star_by_query = async |path: &str| {
        let response =
            ada.client.send(ada.client.request(Method::POST, &format!("{stars}?dashboard_path={path}"))).await;
        response.expect(201).json()["dashboard_path"].clone()
    };
    assert_eq!(star_by_query(".service%2Fdashboards%2Fone.yml").await, ".service/dashboards/one.yml");
    assert_eq!(star_by_query(".gitlab%252Fdashboards%252Fthree.yml").await, ".gitlab/dashboards/three.yml");
    star(&root, &stars, BUILT_IN).await;
    for path in [BUILT_IN, ".service/dashboards/one.yml", &escaped] {
        let again = ada.client.post(&stars, json!({"dashboard_path": path})).await.expect(400);
        assert_eq!(again.json()["message"], json!({"dashboard_path": ["has already been taken"]}), "{path}");
    }
    // Deletes one star, then none, then the remaining stars of the caller only.
    assert_eq!(unstar(&ada.client, &stars, &format!("?dashboard_path={}", segment(&escaped))).await, 1);
    assert_eq!(unstar(&ada.client, &stars, &format!("?dashboard_path={}", segment(&escaped))).await, 0);
    assert_eq!(unstar(&ada.client, &stars, "?dashboard_path=no/such.yml").await, 0);
    assert_eq!(unstar(&ada.client, &stars, "?dashboard_path=.service%252Fdashboards%252Fone.yml").await, 1);
    assert_eq!(unstar(&ada.client, &stars, "").await, 2);
    assert_eq!(unstar(&ada.client, &stars, "").await, 0);
    let request = root.request(Method::DELETE, &stars).json(&json!({"dashboard_path": BUILT_IN}));
    assert_eq!(root.send(request).await.expect(200).json(), json!({"deleted_rows": 1}));
    star(&ada.client, &stars, BUILT_IN).await;
}

async fn star_rejects_paths_that_are_not_dashboards(server: TestServer) {
    let (project, stars) = with_dashboards(&server, "one", Visibility::Private).await;
    let root = server.root();
    let message = async |body: Value| root.post(&stars, body).await.expect(400).message();
    for path in [
        "README.md",
        "other.yml",
        ".service/dashboards",
        ".service/dashboards/",
        ".service/dashboards/none.yml",
        ".service/dashboards/notes.txt",
        ".service/dashboards/deep/two.yml",
        ".service/dashboards/deep/../one.yml",
        ".service/dashboards/elsewhere.yml",
        "/.service/dashboards/one.yml",
        "../../etc/passwd.yml",
        "config/prometheus/other.yml",
        "'; DROP TABLE starred_dashboards; --",
    ] {
        let text = message(json!({"dashboard_path": path})).await;
        assert_eq!(text, "Dashboard with requested path can not be found", "{path}");
    }
    assert_eq!(message(json!({})).await, "dashboard_path is missing, dashboard_path is empty");
    for (path, text) in [
        ("", "dashboard_path is empty"),
        ("+%20", "dashboard_path is empty"),
        ("%FF", "dashboard_path is invalid"),
        ("a%00", "dashboard_path is invalid"),
    ] {
        assert_eq!(message(json!({"dashboard_path": path})).await, text, "{path}");
        let escaped = segment(path);
        assert_eq!(
            root.delete(&format!("{stars}?dashboard_path={escaped}")).await.expect(400).message(),
            text,
            "{path}"
        );
    }
    message(json!({"dashboard_path": "x".repeat(4_097)})).await;
    // The current default branch applies. Without one only the built-in dashboard exists.
    project.set_default_branch("feature/x").await;
    star(&root, &stars, ".service/dashboards/elsewhere.yml").await;
    message(json!({"dashboard_path": ".service/dashboards/one.yml"})).await;
    project.set_default_branch("gone").await;
    message(json!({"dashboard_path": ".service/dashboards/one.yml"})).await;
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    let stars = format!("/projects/{}/metrics/user_starred_dashboards", empty.id);
    root.post(&stars, json!({"dashboard_path": ".service/dashboards/one.yml"})).await.expect(400);
    star(&root, &stars, BUILT_IN).await;
}

async fn star_and_unstar_require_reporter(server: TestServer) {
    let (project, stars) = with_dashboards(&server, "open", Visibility::Public).await;
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    server.insert_member(project.id, guest.id, AccessLevel::Guest).await;
    server.insert_member(project.id, reporter.id, AccessLevel::Reporter).await;
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 403), (&guest.client, 403)] {
        client.post(&stars, json!({"dashboard_path": BUILT_IN})).await.expect(status);
        client.delete(&stars).await.expect(status);
    }
    star(&reporter.client, &stars, ".service/dashboards/one.yml").await;
    let (hidden, hidden_stars) = with_dashboards(&server, "hidden", Visibility::Private).await;
    non_member.post(&hidden_stars, json!({"dashboard_path": BUILT_IN})).await.expect(404);
    non_member.delete(&hidden_stars).await.expect(404);
    // Dashboard files are hidden from users who cannot read the code.
    hidden
        .update(|row| row.repository_access_level = sea_orm::ActiveValue::Set(projects::FeatureAccess::Disabled))
        .await;
    server.root().post(&hidden_stars, json!({"dashboard_path": ".service/dashboards/one.yml"})).await.expect(400);
    star(&server.root(), &hidden_stars, BUILT_IN).await;
    project.archive().await;
    reporter.client.post(&stars, json!({"dashboard_path": BUILT_IN})).await.expect(403);
}

async fn stars_are_unique_and_deleted_with_their_user_and_project(server: TestServer) {
    let (project, stars) = with_dashboards(&server, "one", Visibility::Private).await;
    let (other, other_stars) = with_dashboards(&server, "other", Visibility::Private).await;
    let ada = server.create_user("ada").await;
    for project in [&project, &other] {
        server.insert_member(project.id, ada.id, AccessLevel::Reporter).await;
    }
    let body = json!({"dashboard_path": ".service/dashboards/one.yml"});
    let all = (0..4).map(|_| ada.client.post(&stars, body.clone()));
    let mut statuses: Vec<u16> =
        futures_util::future::join_all(all).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400, 400]);
    star(&ada.client, &other_stars, BUILT_IN).await;
    star(&server.root(), &other_stars, BUILT_IN).await;
    let db = server.backend.database.write();
    let remaining = async || Entity::find().all(db).await.expect("rows").len();
    assert_eq!(remaining().await, 3);
    projects::Entity::delete_by_id(project.id).exec(db).await.expect("a removal");
    assert_eq!(remaining().await, 2);
    // The namespace of the user prevents deletion of the row, so the user is deleted through the API.
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    server.finish_jobs().await;
    assert!(users::Entity::find_by_id(ada.id).one(db).await.expect("a look").is_none());
    assert_eq!(remaining().await, 1);
}

on_every_database![
    star_accepts_escaped_paths_and_unstar_returns_deleted_rows,
    star_rejects_paths_that_are_not_dashboards,
    star_and_unstar_require_reporter,
    stars_are_unique_and_deleted_with_their_user_and_project,
];
