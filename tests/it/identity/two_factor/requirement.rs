//! Requirement to set up a second factor, by the instance and by groups.

use chrono::{DateTime, TimeDelta, Utc};
use domain::identity::two_factor::requirement::{TwoFactorRequirement, check};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, members, namespaces, now, users};

use super::user;
use crate::identity::sign_in::limits::fetch_refs;
use crate::registry::registry_protocol::request_token;
use crate::support::authenticator::disable;
use crate::support::browser::{Browser, Seen};
use crate::support::client::http;
use crate::support::spaces::{group_share, membership};
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database};

async fn require(server: &TestServer, hours: i64) {
    let body = json!({ "require_two_factor_authentication": true, "two_factor_grace_period": hours });
    let settings = server.root().put("/application/settings", body.clone()).await.expect(200).json();
    for (name, value) in body.as_object().expect("an object") {
        assert_eq!(&settings[name], value);
    }
}

async fn row(server: &TestServer, user_id: i64) -> users::Model {
    let found = users::Entity::find_by_id(user_id).one(server.backend.database.read()).await;
    found.expect("the database").expect("a user")
}

async fn requirement(server: &TestServer, user: &TestUser) -> TwoFactorRequirement {
    check(&server.backend, &row(server, user.id).await).await.expect("a requirement")
}

/// Moves the start of the grace period of a user into the past.
async fn let_pass(server: &TestServer, user: &TestUser, time: TimeDelta) {
    let start = row(server, user.id).await.two_factor_grace_started_at.expect("a started period");
    let change = users::Entity::update_many()
        .col_expr(users::Column::TwoFactorGraceStartedAt, Expr::value(start - time))
        .filter(users::Column::Id.eq(user.id));
    change.exec(server.backend.database.write()).await.expect("an update");
}

fn location(seen: &Seen) -> &str {
    seen.headers["location"].to_str().expect("text")
}

async fn instance_requires_second_factor_after_grace_period(server: TestServer) {
    let ada = user(&server, "ada").await;
    let mut earlier = Browser::new(&server);
    assert_eq!(location(&earlier.sign_in("ada", PASSWORD, &[]).await), "/docs");
    require(&server, 48).await;
    let status = async || ada.client.get("/user/two_factor").await.expect(200).json();
    // Tokens do not start the period.
    assert_eq!(
        (status().await["required"].clone(), status().await["grace_period_ends_at"].clone()),
        (json!(true), json!(null))
    );
    assert_eq!(earlier.get("/api/v4/user").await.status, 200);
    let end: DateTime<Utc> = serde_json::from_value(status().await["grace_period_ends_at"].clone()).expect("a time");
    assert!((end - now() - TimeDelta::hours(48)).abs() < TimeDelta::minutes(10), "{end}");
    let mut browser = Browser::new(&server);
    let seen = browser.sign_in("ada", PASSWORD, &[("return_to", "/docs?x=1")]).await;
    assert_eq!(location(&seen), "/users/two_factor?return_to=%2Fdocs%3Fx%3D1");
    let page = browser.get(location(&seen)).await;
    assert!(page.text.contains("You have to set up two-factor authentication by 20"), "{}", page.text);
    assert!(page.text.contains("<a href=\"/docs?x=1\">Set up later</a>"), "{}", page.text);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    let_pass(&server, &ada, TimeDelta::hours(47)).await;
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    let_pass(&server, &ada, TimeDelta::hours(1)).await;
    for browser in [&mut browser, &mut earlier] {
        for path in ["/api/v4/user", "/api/v4/projects", "/-/session"] {
            let refused = browser.get(path).await;
            assert_eq!(refused.status, 403, "{path}");
            let text = format!("Two-factor authentication is required. Set it up at {}/users/two_factor", server.base);
            assert!(refused.text.contains(&text), "{}", refused.text);
            let setting = "\"setting\":\"require_two_factor_authentication\"";
            assert!(refused.text.contains(setting), "{}", refused.text);
        }
        assert_eq!(browser.get("/oauth/authorize?client_id=x").await.status, 403);
    }
    let page = browser.get("/users/two_factor").await;
    assert!(page.text.contains("before you continue") && !page.text.contains("Set up later"), "{}", page.text);
    // A new session is limited, too, and leads to the page.
    let mut late = Browser::new(&server);
    assert_eq!(location(&late.sign_in("ada", PASSWORD, &[]).await), "/users/two_factor?return_to=%2Fdocs");
    assert_eq!(late.get("/api/v4/user").await.status, 403);
    assert_eq!(late.get("/users/sign_in").await.status, 200);
    // Tokens work, and the setup lifts the limit.
    let factor = server.enable_second_factor(&ada).await;
    assert_eq!(status().await["grace_period_ends_at"], json!(null));
    super::sign_in::both_steps(&mut late, "ada", &factor.app.code()).await;
    assert_eq!(late.get("/api/v4/user").await.status, 200);
    // Disabling it does not start another period.
    disable(&ada.client, json!({ "code": factor.recovery_codes[0] })).await.expect(204);
    late.sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(late.get("/api/v4/user").await.status, 403);
}

async fn requirement_without_grace_period_applies_at_once(server: TestServer) {
    let ada = user(&server, "ada").await;
    require(&server, 0).await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(browser.get("/api/v4/user").await.status, 403);
    let signed_out = browser.get("/users/two_factor").await;
    assert!(signed_out.text.contains("before you continue"));
    // Lifting the requirement ends the limit, and the next requirement starts a new period.
    let settings = json!({ "require_two_factor_authentication": false });
    server.root().put("/application/settings", settings).await.expect(200);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    assert_eq!(row(&server, ada.id).await.two_factor_grace_started_at, None);
    require(&server, 1).await;
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    for invalid in [json!(-1), json!(4_000_000_000_i64), json!("x")] {
        let body = json!({ "two_factor_grace_period": invalid });
        server.root().put("/application/settings", body).await.expect(400);
    }
    require(&server, i64::from(i32::MAX)).await;
    let_pass(&server, &ada, TimeDelta::days(3_650)).await;
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
}

async fn passwords_of_clients_are_refused_after_grace_period(server: TestServer) {
    let ada = user(&server, "ada").await;
    let project = server.insert_project_at("g/p", Visibility::Private).await;
    server.insert_member(project.id, ada.id, AccessLevel::Developer).await;
    require(&server, 1).await;
    let http = http().build().expect("a client");
    // Git starts the period for users who never sign in.
    assert_eq!(fetch_refs(&http, &server.base, "ada", PASSWORD).await.0, 200);
    let former =
        crate::registry::registry_protocol::Tool::new(&server.base, Some(("ada", PASSWORD)), "g/p", "pull").await;
    assert_eq!(former.client.get("//v2/").await.status, 200);
    let_pass(&server, &ada, TimeDelta::hours(1)).await;
    assert_eq!(fetch_refs(&http, &server.base, "ada", PASSWORD).await.0, 403);
    assert_eq!(fetch_refs(&http, &server.base, "ada", "wrong password").await.0, 401);
    let refused = request_token(&server.base, Some(("ada", PASSWORD)), &[]).await.expect(403);
    assert!(refused.text().contains("Sign in with a web browser and set it up"), "{}", refused.text());
    assert_eq!(former.client.get("//v2/").await.status, 401);
    assert_eq!(fetch_refs(&http, &server.base, "ada", &ada.token).await.0, 200);
    ada.client.get("/user").await.expect(200);
}

/// Sets the requirement of a group.
async fn set_group(server: &TestServer, path: &str, attributes: Value) {
    let path = path.replace('/', "%2F");
    server.root().put(&format!("/groups/{path}"), attributes).await.expect(200);
}

async fn groups_require_second_factor_of_their_members(server: TestServer) {
    let db = server.backend.database.write();
    let top = server.insert_group("top", Visibility::Private).await;
    let middle = server.insert_group("top/middle", Visibility::Private).await;
    let bottom = server.insert_group("top/middle/bottom", Visibility::Private).await;
    let sibling = server.insert_group("top/sibling", Visibility::Private).await;
    let guests = server.insert_group("guests", Visibility::Private).await;
    let project = server.insert_project(middle, "p", Visibility::Private).await;
    group_share(middle, guests, AccessLevel::Developer).insert(db).await.expect("a share");
    let mut users = Vec::new();
    for (name, group, expected) in [
        ("above", Some(top), true),
        ("direct", Some(middle), true),
        ("below", Some(bottom), true),
        ("sibling", Some(sibling), false),
        ("invited", Some(guests), false),
        ("in-project", None, false),
        ("stranger", None, false),
    ] {
        let user = user(&server, name).await;
        match group {
            Some(group) => server.insert_owner(group, user.id).await,
            None if name == "in-project" => server.insert_member(project.id, user.id, AccessLevel::Owner).await,
            None => {}
        }
        users.push((user, expected));
    }
    for (user, _) in &users {
        assert_eq!(requirement(&server, user).await, TwoFactorRequirement::Met);
    }
    let body = json!({ "require_two_factor_authentication": true, "two_factor_grace_period": 0 });
    set_group(&server, "top/middle", body).await;
    for (user, expected) in &users {
        let name = &user.row.username;
        let found = requirement(&server, user).await;
        assert_eq!(matches!(found, TwoFactorRequirement::Overdue(_)), *expected, "{name}: {found:?}");
        let status = user.client.get("/user/two_factor").await.json();
        assert_eq!(status["required"], json!(expected), "{name}");
    }
    // Expired memberships do not count, and neither do groups that are being deleted.
    let expire = members::Entity::update_many()
        .col_expr(members::Column::ExpiresAt, Expr::value(now().date_naive()))
        .filter(members::Column::UserId.eq(users[1].0.id));
    expire.exec(db).await.expect("an update");
    assert_eq!(requirement(&server, &users[1].0).await, TwoFactorRequirement::Met);
    let hide = namespaces::Entity::update_many()
        .col_expr(namespaces::Column::DeletionStartedAt, Expr::value(now()))
        .filter(namespaces::Column::Id.eq(middle));
    hide.exec(db).await.expect("an update");
    assert_eq!(requirement(&server, &users[0].0).await, TwoFactorRequirement::Met);
}

async fn shortest_grace_period_applies(server: TestServer) {
    let ada = user(&server, "ada").await;
    let db = server.backend.database.write();
    for (path, hours) in [("a", 30), ("b", 10), ("c", 20)] {
        let group = server.insert_group(path, Visibility::Private).await;
        let member = members::ActiveModel { namespace_id: Set(Some(group)), ..membership(ada.id, AccessLevel::Guest) };
        member.insert(db).await.expect("a member");
        let required = path != "c";
        let body = json!({ "require_two_factor_authentication": required, "two_factor_grace_period": hours });
        set_group(&server, path, body).await;
    }
    let hours_left = async || match requirement(&server, &ada).await {
        TwoFactorRequirement::Grace(Some(end)) => (end - now() + TimeDelta::minutes(30)).num_hours(),
        other => panic!("{other:?}"),
    };
    assert_eq!(hours_left().await, 10);
    require(&server, 40).await;
    assert_eq!(hours_left().await, 10);
    require(&server, 4).await;
    assert_eq!(hours_left().await, 4);
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    let_pass(&server, &ada, TimeDelta::hours(4)).await;
    assert_eq!(browser.get("/api/v4/user").await.status, 403);
}

on_every_database![
    instance_requires_second_factor_after_grace_period,
    requirement_without_grace_period_applies_at_once,
    passwords_of_clients_are_refused_after_grace_period,
    groups_require_second_factor_of_their_members,
    shortest_grace_period_applies,
];
