//! `GET /user`, `GET /users`, `GET /users/:id`.

use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::support::{ApiResponse, TestServer, on_every_database};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn names(response: ApiResponse) -> Vec<String> {
    let names = response.expect(200).pluck("username");
    names.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
}

async fn get_current_user_returns_all_fields(server: TestServer) {
    let ada = server.create_user("Ada").await;
    let account = ada.client.get("/user").await.expect(200).json();
    assert_eq!(account["id"], ada.id);
    assert_eq!(account["username"], "Ada");
    assert_eq!(account["name"], "Name of Ada");
    assert_eq!(account["email"], "Ada@example.com");
    assert_eq!(account["state"], "active");
    assert_eq!(account["web_url"], format!("{}/Ada", server.base));
    for text in ["skype", "linkedin", "twitter", "website_url"] {
        assert_eq!(account[text], "", "{text}");
    }
    let identicon = format!("{}/uploads/-/system/user/avatar/{}/identicon.svg", server.base, ada.id);
    assert_eq!((&account["avatar_url"], &account["commit_email"]), (&json!(identicon), &account["email"]));
    assert_eq!(account["namespace_id"], server.personal_namespace(ada.id).await.id);
    for null in ["bio", "location", "organization", "last_sign_in_at", "current_sign_in_at"] {
        assert!(account[null].is_null(), "{null}");
    }
    for (flag, value) in [
        ("can_create_group", true),
        ("can_create_project", true),
        ("two_factor_enabled", false),
        ("external", false),
        ("private_profile", false),
        ("bot", false),
    ] {
        assert_eq!(account[flag], value, "{flag}");
    }
    assert_eq!((&account["identities"], &account["projects_limit"]), (&json!([]), &json!(100_000)));
    assert!(account.get("is_admin").is_none());
    assert_eq!(server.root().get("/user").await.json()["is_admin"], true);
}

async fn get_current_user_requires_read_user_scope(server: TestServer) {
    assert_eq!(server.anonymous().get("/user").await.status, 401);
    let ada = server.create_user("ada").await;
    for (scope, status) in [("read_user", 200), ("read_api", 200), ("read_repository", 403), ("sudo", 403)] {
        let token = server.create_token(ada.id, &[scope]).await;
        assert_eq!(server.with_token(&token).get("/user").await.status, status, "{scope}");
    }
    assert_eq!(ada.client.get("/user?sudo=%00").await.status, 403);
    assert_eq!(server.root().get("/user?sudo=missing-user").await.status, 404);
}

async fn anonymous_list_users_requires_username_filter(server: TestServer) {
    server.create_user("Ada").await;
    let non_member = server.anonymous();
    let found = non_member.get("/users?username=aDA").await.expect(200).json();
    assert_eq!(keys(&found[0]), ["id", "username", "name", "state", "avatar_url", "web_url"]);
    assert_eq!(non_member.get("/users?username=missing-user").await.expect(200).json(), json!([]));
    for path in ["/users", "/users?search=ada", "/users?username="] {
        let rejected = non_member.get(path).await;
        assert_eq!(rejected.status, 401, "{path}");
        assert_eq!(rejected.message(), "401 Unauthorized");
    }
}

async fn list_users_returns_all_fields_only_to_administrators(server: TestServer) {
    let ada = server.create_user("ada").await;
    let seen = ada.client.get("/users").await.expect(200).json();
    assert_eq!(seen.as_array().map(Vec::len), Some(2));
    assert_eq!(keys(&seen[0]).len(), 6);
    let full = server.root().get("/users").await.json();
    for field in ["email", "is_admin", "identities", "can_create_project", "current_sign_in_at", "note"] {
        assert!(full[0].get(field).is_some(), "{field}");
    }
}

async fn list_users_supports_filters_and_orders(server: TestServer) {
    for name in ["ada", "bob", "a_b"] {
        server.create_user(name).await;
    }
    let root = server.root();
    root.post("/users/3/block", json!({})).await.expect(201);
    root.put("/users/2", json!({ "external": true, "provider": "saml", "extern_uid": "u-1" })).await.expect(200);
    for (query, expected) in [
        ("", vec!["a_b", "bob", "ada", "root"]),
        ("sort=asc", vec!["root", "ada", "bob", "a_b"]),
        ("order_by=username&sort=asc", vec!["a_b", "ada", "bob", "root"]),
        ("order_by=name&sort=desc", vec!["bob", "ada", "a_b", "root"]),
        ("order_by=created_at&sort=asc", vec!["root", "ada", "bob", "a_b"]),
        ("search=NAME%20of", vec!["a_b", "bob", "ada"]),
        ("search=_", vec!["a_b"]),
        ("search=%25", vec![]),
        ("search=%5C", vec![]),
        ("search=BOB%40example.com", vec!["bob"]),
        ("search=example.com", vec![]),
        ("search=%27%20OR%201=1--", vec![]),
        ("active=true", vec!["a_b", "ada", "root"]),
        ("blocked=true", vec!["bob"]),
        ("blocked=true&active=true", vec![]),
        ("external=true", vec!["ada"]),
        ("extern_uid=u-1&provider=saml", vec!["ada"]),
        ("extern_uid=u-1&provider=ldap", vec![]),
        ("created_before=2001-01-01T00:00:00Z", vec![]),
        ("created_after=2001-01-01T00:00:00Z", vec!["a_b", "bob", "ada", "root"]),
        ("username=ADA", vec!["ada"]),
        ("per_page=1&page=2", vec!["bob"]),
        ("page=999999999999999999", vec![]),
    ] {
        assert_eq!(names(root.get(&format!("/users?{query}")).await), expected, "{query}");
    }
}

async fn unconfirmed_email_is_searchable_only_by_administrators(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await.client, server.create_user("bob").await);
    let root = server.root();
    let path = format!("/users/{}", bob.id);
    let search = "/users?search=boss%40bank.example";
    root.put(&path, json!({ "email": "boss@bank.example" })).await.expect(200);
    assert_eq!(names(root.get(search).await), ["bob"]);
    assert!(names(ada.get(search).await).is_empty());
    assert_eq!(names(ada.get("/users?search=bob").await), ["bob"]);
    root.put(&path, json!({ "email": "boss@bank.example", "skip_reconfirmation": true })).await.expect(200);
    assert_eq!(names(ada.get(search).await), ["bob"]);
}

async fn anonymous_caller_cannot_search_by_email(server: TestServer) {
    let (ada, anonymous) = (server.create_user("ada").await, server.anonymous());
    let path = format!("/users/{}", ada.id);
    let confirmed = json!({ "email": "ada@bank.example", "skip_reconfirmation": true });
    server.root().put(&path, confirmed).await.expect(200);
    let search = "/users?username=ada&search=ada%40bank.example";
    assert_eq!(names(ada.client.get(search).await), ["ada"]);
    assert!(names(anonymous.get(search).await).is_empty());
    assert_eq!(names(anonymous.get("/users?username=ada&search=name").await), ["ada"]);
}

async fn list_users_rejects_or_ignores_administrator_filters(server: TestServer) {
    let ada = server.create_user("ada").await.client;
    for query in ["external=true", "extern_uid=1&provider=saml"] {
        let rejected = ada.get(&format!("/users?{query}")).await;
        assert_eq!((rejected.status, rejected.message()), (403, "403 Forbidden".to_owned()), "{query}");
    }
    let dropped = "created_before=2001-01-01T00:00:00Z&order_by=username&sort=asc";
    assert_eq!(names(ada.get(&format!("/users?{dropped}")).await), ["ada", "root"]);
    let half = server.root().get("/users?extern_uid=1").await;
    assert_eq!((half.status, half.message().as_str()), (400, "extern_uid, provider provide all or none of parameters"));
}

async fn list_users_reports_all_invalid_filters(server: TestServer) {
    let rejected = server.root().get("/users?order_by=email&per_page=x&created_after=soon&active=maybe").await;
    assert_eq!(rejected.status, 400);
    for name in ["order_by", "per_page", "created_after", "active"] {
        assert!(rejected.message().contains(name), "{name}: {}", rejected.message());
    }
    let long = format!("/users?search={}", "x".repeat(5_000));
    assert_eq!(server.root().get(&long).await.status, 400);
    assert_eq!(server.root().get("/users?search=%00").await.status, 400);
    assert_eq!(server.root().get("/users?search=%FF").await.status, 400);
    assert_eq!(server.with_token("unknown").get("/users?username=root").await.status, 401);
    assert_eq!(server.root().get("/users?sudo=missing-user").await.status, 404);
}

async fn list_users_uses_constant_number_of_statements(server: TestServer) {
    let root = server.root();
    root.get("/users").await.expect(200);
    let count = async || {
        let before = server.statements();
        root.get("/users").await.expect(200);
        server.statements() - before
    };
    let one = count().await;
    // A list that is longer than a page is also counted.
    for number in 0..18 {
        server.create_user(&format!("user-{number}")).await;
    }
    let before = server.statements();
    root.get("/users?per_page=20").await.expect(200);
    assert_eq!(server.statements() - before, one);
    assert!(one <= 5, "{one}");
}

async fn get_user_fields_depend_on_caller(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let path = format!("/users/{}", bob.id);
    let public = ada.client.get(&path).await.expect(200).json();
    assert_eq!(
        keys(&public),
        [
            "id",
            "username",
            "name",
            "state",
            "avatar_url",
            "web_url",
            "created_at",
            "bio",
            "location",
            "public_email",
            "skype",
            "linkedin",
            "twitter",
            "website_url",
            "organization",
            "job_title",
            "bot",
        ]
    );
    let full = server.root().get(&path).await.expect(200).json();
    assert_eq!((&full["email"], &full["is_admin"]), (&json!("bob@example.com"), &json!(false)));
    assert_eq!((&full["commit_email"], &full["bot"]), (&full["email"], &json!(false)));
    assert_eq!(full["namespace_id"], server.personal_namespace(bob.id).await.id);
    assert_eq!(server.anonymous().get(&path).await.status, 401);
    let token = server.create_token(ada.id, &["read_repository"]).await;
    assert_eq!(server.with_token(&token).get(&path).await.status, 403);
}

async fn get_user_accepts_only_numeric_id(server: TestServer) {
    let root = server.root();
    let missing = root.get("/users/4711").await;
    assert_eq!((missing.status, missing.message()), (404, "404 User Not Found".to_owned()));
    for bad in ["root", "1%00", "1.5", "999999999999999999999", "%FF"] {
        assert_eq!(root.get(&format!("/users/{bad}")).await.status, 400, "{bad}");
    }
    assert_eq!(root.get("/users/-1").await.status, 404);
}

async fn can_create_project_is_false_at_projects_limit(server: TestServer) {
    let ada = server.create_user("ada").await;
    server.root().put(&format!("/users/{}", ada.id), json!({ "projects_limit": 1 })).await.expect(200);
    assert_eq!(ada.client.get("/user").await.json()["can_create_project"], true);
    let space = server.personal_namespace(ada.id).await;
    server.insert_project(space.id, "engine", Visibility::Public).await;
    assert_eq!(ada.client.get("/user").await.json()["can_create_project"], false);
}

on_every_database![
    get_current_user_returns_all_fields,
    get_current_user_requires_read_user_scope,
    anonymous_list_users_requires_username_filter,
    list_users_returns_all_fields_only_to_administrators,
    list_users_supports_filters_and_orders,
    unconfirmed_email_is_searchable_only_by_administrators,
    anonymous_caller_cannot_search_by_email,
    list_users_rejects_or_ignores_administrator_filters,
    list_users_reports_all_invalid_filters,
    list_users_uses_constant_number_of_statements,
    get_user_fields_depend_on_caller,
    get_user_accepts_only_numeric_id,
    can_create_project_is_false_at_projects_limit,
];
