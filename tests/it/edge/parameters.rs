//! Encodings of parameters, errors of several parameters, limits, and unknown operations.

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use reqwest::multipart::Form;
use serde_json::{Value, json};

use crate::support::{ApiResponse, Client, TestServer, on_every_database, spaces};

const PATH: &str = "/users/1/impersonation_tokens";

/// Sends a body of a given type.
async fn raw(client: &Client, content_type: &str, body: impl Into<reqwest::Body>) -> ApiResponse {
    let request = client.request(Method::POST, PATH).header(CONTENT_TYPE, content_type);
    client.send(request.body(body)).await
}

async fn parameters_are_accepted_in_every_encoding(server: TestServer) {
    let root = server.root();
    let (name, day) = ("a b&c", "2099-01-31");
    let form = Form::new().text("name", name).text("scopes[]", "api").text("scopes[]", "sudo").text("expires_at", day);
    let query = format!("{PATH}?name=a%20b%26c&scopes[]=api&scopes%5B%5D=sudo&expires_at={day}");
    let half = format!("{PATH}?name=ignored&scopes[]=api&scopes[]=sudo");
    for (form, response) in [
        ("JSON", root.post(PATH, json!({ "name": name, "scopes": ["api", "sudo"], "expires_at": day })).await),
        (
            "urlencoded",
            root.post_form(PATH, &[("name", name), ("scopes[]", "api"), ("scopes[]", "sudo"), ("expires_at", day)])
                .await,
        ),
        ("multipart", root.send(root.request(Method::POST, PATH).multipart(form)).await),
        ("query", root.send(root.request(Method::POST, &query)).await),
        ("both", root.post(&half, json!({ "name": name, "expires_at": day })).await),
        (
            "JSON of a kind",
            raw(
                &root,
                "application/vnd.api+json",
                format!(r#"{{"name":"{name}","scopes":["api","sudo"],"expires_at":"{day}"}}"#),
            )
            .await,
        ),
    ] {
        let created = response.expect(201).json();
        assert_eq!(
            (&created["name"], &created["scopes"], &created["expires_at"]),
            (&json!(name), &json!(["api", "sudo"]), &json!(day)),
            "{form}"
        );
    }
}

async fn form_values_are_converted_to_declared_types(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    for (sent, flag) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        let request = server.root().request(Method::PUT, &path).form(&[("external", sent), ("projects_limit", "7")]);
        let changed = server.root().send(request).await.expect(200).json();
        assert_eq!((&changed["external"], &changed["projects_limit"]), (&json!(flag), &json!(7)));
    }
}

async fn unknown_parameters_are_ignored_and_path_wins_over_body(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    let changed = server.root().put(&path, json!({ "id": 1, "state": "blocked", "nonsense": [[]], "bio": "x" })).await;
    let changed = changed.expect(200).json();
    assert_eq!((&changed["id"], &changed["state"], &changed["bio"]), (&json!(ada.id), &json!("active"), &json!("x")));
}

async fn unknown_parameters_return_400_if_query_is_strict(server: TestServer) {
    let root = server.root();
    let token = server.create_token(1, &["api", "sudo"]).await;
    for (path, unknown) in [
        ("/projects?strict=true&per_page=1&ordr_by=id", Some("ordr_by is not a parameter of this operation")),
        ("/user?per_page=1&strict=true", Some("per_page is not a parameter of this operation")),
        ("/projects?strict=true&per_page=1&order_by=id", None),
        ("/projects?strict=false&ordr_by=id", None),
        ("/projects?ordr_by=id", None),
    ] {
        let response = root.get(path).await;
        match unknown {
            Some(text) => assert_eq!(response.expect(400).message(), text, "{path}"),
            None => drop(response.expect(200)),
        }
    }
    server.anonymous().get(&format!("/user?strict=true&private_token={token}&sudo=root")).await.expect(200);
    let body = json!({ "name": "strict", "id": 1, "nonsense": 1 });
    let rejected = root.post("/projects?strict=true&other=1", body.clone()).await.expect(400);
    let text = "id is not a parameter of this operation, nonsense is not a parameter of this operation, \
                other is not a parameter of this operation";
    assert_eq!(rejected.message(), text);
    root.post("/projects", body).await.expect(201);
}

async fn all_parameter_errors_are_returned_under_both_keys(server: TestServer) {
    let rejected =
        server.root().post("/users", json!({ "email": 7.5, "admin": "perhaps", "projects_limit": "many" })).await;
    let body = rejected.expect(400).json();
    assert_eq!(body["message"], body["error"]);
    let text = body["message"].as_str().expect("a text");
    for part in ["name is missing", "username is missing", "admin is invalid", "projects_limit is invalid"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

async fn errors_contain_the_allowed_values(server: TestServer) {
    let root = server.root();
    let group = root.post("/groups", json!({"name": "g", "path": "g"})).await.expect(201).json()["id"].clone();
    let project = root.post("/projects", json!({"name": "p", "initialize_with_readme": true})).await.expect(201);
    let project = project.json()["id"].clone();
    for (path, body, allowed) in [
        (
            format!("/projects/{project}/issues"),
            json!({"title": "t", "iid": 0, "issue_type": "task"}),
            json!({"iid": "1 to 2147483647"}),
        ),
        (
            "/groups".to_owned(),
            json!({"path": "x", "visibility": "open"}),
            json!({"visibility": "private, internal, public"}),
        ),
        (
            format!("/projects/{project}/protected_branches"),
            json!({"name": "x", "push_access_level": 20}),
            json!({"push_access_level": "0, 30, 40, 60"}),
        ),
        (
            format!("/groups/{group}/share"),
            json!({"group_id": group, "group_access": 15}),
            json!({"group_access": "10, 20, 30, 40, 50"}),
        ),
        ("/features/f".to_owned(), json!({"value": 101}), json!({"value": "true, false, 0 to 100"})),
        (
            format!("/projects/{project}/issues?scope=mine&sort=up&created_after=soon"),
            Value::Null,
            json!({"sort": "asc, desc"}),
        ),
        (
            format!("/projects/{project}/issues?scope=mine"),
            Value::Null,
            json!({"scope": "created_by_me, assigned_to_me, all"}),
        ),
        ("/users".to_owned(), json!({}), Value::Null),
    ] {
        let response = match body.is_null() {
            true => root.get(&path).await,
            false => root.post(&path, body).await,
        };
        let rejected = response.expect(400).json();
        assert_eq!(rejected["allowed_values"], allowed, "{path}: {rejected}");
    }
}

async fn malformed_bodies_return_400(server: TestServer) {
    let root = server.root();
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let wide = format!("{{\"name\":\"x\",\"scopes\":{deep}}}");
    for (content_type, body) in [
        ("application/json", "{\"name\":"),
        ("application/json", "[1]"),
        ("application/json", "7"),
        ("application/json", "{\"name\":\"a\",\"name\":\"b\",\"scopes\":[\"api\"]}"),
        ("application/json", &wide),
        ("text/plain", "name=x"),
        ("application/xml", "<name/>"),
        ("multipart/form-data", "no boundary"),
        ("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\ncut"),
        ("application/x-www-form-urlencoded", "name=%FF"),
        ("application/x-www-form-urlencoded", "name=%00&scopes[]=api"),
        ("application/x-www-form-urlencoded", "name[[[[=x"),
    ] {
        let rejected = raw(&root, content_type, body.to_owned()).await;
        assert_eq!(rejected.status, 400, "{content_type}: {}", &body[..body.len().min(60)]);
    }
    let invalid = raw(&root, "application/json", b"{\"name\":\"\xff\"}".to_vec()).await;
    assert_eq!(invalid.status, 400);
    let many = "a[b]".to_owned() + &"[c]".repeat(1_000);
    assert_eq!(raw(&root, "application/x-www-form-urlencoded", many + "=1").await.status, 400);
}

async fn empty_body_of_any_type_is_accepted(server: TestServer) {
    let root = server.root();
    for content_type in ["application/json", "application/x-www-form-urlencoded", "text/plain"] {
        let request = root.request(Method::GET, "/user").header(CONTENT_TYPE, content_type);
        root.send(request).await.expect(200);
        assert_eq!(raw(&root, content_type, "").await.message(), "name is missing, name is empty");
    }
}

async fn oversized_bodies_return_413(server: TestServer) {
    let root = server.root();
    let rejected = root.post(PATH, json!({ "name": "x".repeat(1_100_000) })).await;
    assert_eq!((rejected.status, rejected.message()), (413, "413 Request Entity Too Large".to_owned()));
    let chunks = futures_util::stream::iter((0..40).map(|_| Ok::<_, std::io::Error>(vec![b' '; 65_536])));
    let rejected = raw(&root, "application/json", reqwest::Body::wrap_stream(chunks)).await;
    assert_eq!(rejected.status, 413);
}

async fn page_parameters_are_bounded(server: TestServer) {
    let root = server.root();
    for (query, page, size) in [
        ("", "1", "20"),
        ("per_page=7&page=2", "2", "7"),
        ("per_page=101", "1", "100"),
        ("per_page=0", "1", "20"),
        ("per_page=-1", "1", "20"),
        ("page=0", "1", "20"),
        ("page=-5", "1", "20"),
        ("page=1000000000000000000", "1000000000000000000", "20"),
    ] {
        let seen = root.get(&format!("/users?{query}")).await.expect(200);
        assert_eq!((seen.header("x-page"), seen.header("x-per-page")), (page, size), "{query}");
        assert_eq!((seen.header("x-total"), seen.header("x-next-page")), ("1", ""), "{query}");
    }
    for query in ["page=x", "per_page=1.5", "page=99999999999999999999", "per_page[]=1"] {
        assert_eq!(root.get(&format!("/users?{query}")).await.status, 400, "{query}");
    }
}

async fn link_header_lists_pages_without_token(server: TestServer) {
    for name in ["a", "b", "c", "d"] {
        server.create_user(name).await;
    }
    let token = server.create_token(1, &["api"]).await;
    let seen = server
        .anonymous()
        .get(&format!("/users?per_page=2&page=2&active=true&private_token={token}"))
        .await
        .expect(200);
    let link = |page: u32, rel: &str| {
        format!("<{}/api/v4/users?page={page}&per_page=2&active=true>; rel=\"{rel}\"", server.base)
    };
    let expected = [link(1, "prev"), link(3, "next"), link(1, "first"), link(3, "last")].join(", ");
    assert_eq!(seen.header("link"), expected);
    assert_eq!((seen.header("x-total"), seen.header("x-total-pages"), seen.header("x-prev-page")), ("5", "3", "1"));
}

async fn links_repeat_filters_of_the_body(server: TestServer) {
    let root = server.root();
    for name in ["engine-1", "engine-2", "other"] {
        spaces::project(&root, name, json!({})).await;
    }
    for paging in ["offset", "keyset"] {
        let body = json!({ "search": "engine", "per_page": 1, "pagination": paging, "sort": "asc", "order_by": "id" });
        let request = root.request(Method::GET, "/projects?search=other").json(&body);
        let first = root.send(request).await.expect(200);
        assert_eq!(first.pluck("path"), ["engine-1"], "{paging}");
        let next = first.header("link").split('<').find(|link| link.contains("rel=\"next\"")).expect("a link");
        let next = next.trim_start_matches(&server.base).split('>').next().expect("an address");
        assert_eq!(root.get(&format!("/{next}")).await.expect(200).pluck("path"), ["engine-2"], "{next}");
    }
}

async fn unknown_operations_return_404_405_or_410_in_json(server: TestServer) {
    let root = server.root();
    for path in ["/nothing", "/users/1/nothing", "/", "//api/v5/user", "/projects/1/nothing"] {
        let missing = root.get(path).await;
        assert_eq!((missing.status, missing.message()), (404, "404 Not Found".to_owned()), "{path}");
        assert_eq!(missing.header("content-type"), "application/json", "{path}");
    }
    let unencoded = root.get("/projects/group/project/nothing").await.expect(404).json();
    let text = "404 Not Found - the path of a project or group must be URL-encoded, such as group%2Fproject";
    assert_eq!((&unencoded["message"], &unencoded["error"]), (&json!(text), &json!(text)));
    for (method, path, allow) in [
        (Method::POST, "/user", "GET, HEAD"),
        (Method::PATCH, "/users/1", "DELETE, GET, HEAD, PUT"),
        (Method::GET, "/users/1/block", "POST"),
        (Method::POST, "/projects/1/packages/maven/a/b/1.0/x.jar", "GET, HEAD, PUT"),
        (Method::PATCH, "/projects/1/packages/npm/@s/pkg", "GET, HEAD, PUT"),
        (Method::PATCH, "/projects/1/packages/cargo/ab/cd/abcd", "GET, HEAD"),
        (Method::PATCH, "/projects/1/releases/v1/downloads/a/b", "GET, HEAD"),
        (Method::DELETE, "//oauth/token", "POST"),
        (Method::PUT, "//oauth/authorize", "GET, HEAD, POST"),
        (Method::GET, "//users/two_factor/disable", "POST"),
        (Method::POST, "//.well-known/oauth-authorization-server", "GET, HEAD"),
    ] {
        let rejected = root.send(root.request(method, path)).await.expect(405);
        assert_eq!(rejected.header("allow"), allow, "{path}");
        assert_eq!(rejected.json()["message"], rejected.json()["error"]);
    }
    let deleted = root.get("//api/v3/projects").await.expect(410);
    assert_eq!(deleted.json()["error"], "API V3 is no longer supported. Use API V4 instead.");
}

async fn valid_request_id_is_echoed(server: TestServer) {
    let id = |sent: &'static str| {
        let client = server.root().header("X-Request-Id", sent);
        async move { client.get("/version").await.header("x-request-id").to_owned() }
    };
    assert_eq!(id("abc-123_x.y").await, "abc-123_x.y");
    for bad in ["a b", "", "<script>"] {
        let created = id(bad).await;
        assert!(created.len() == 32 && created != bad, "{created}");
    }
    let seen = server.root().get("/version").await;
    assert_eq!((seen.header("x-frame-options"), seen.header("x-content-type-options")), ("SAMEORIGIN", "nosniff"));
}

async fn head_returns_headers_of_get_without_body(server: TestServer) {
    let root = server.root();
    for path in ["/user", "/users", "/version", "/users/1"] {
        let (get, head) = (root.get(path).await, root.head(path).await);
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        assert_eq!(head.header("x-total"), get.header("x-total"), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    assert_eq!(server.anonymous().head("/user").await.status, 401);
}

async fn null_and_wrong_types_return_400(server: TestServer) {
    for name in [json!(null), json!({}), json!([]), json!("")] {
        let body: Value = json!({ "name": name, "scopes": ["api"] });
        assert_eq!(server.root().post(PATH, body).await.status, 400, "{name}");
    }
    for scopes in [json!({ "a": 1 }), json!([{}]), json!([[]]), json!(["x".repeat(65)])] {
        assert_eq!(server.root().post(PATH, json!({ "name": "x", "scopes": scopes })).await.status, 400);
    }
}

on_every_database![
    parameters_are_accepted_in_every_encoding,
    form_values_are_converted_to_declared_types,
    unknown_parameters_are_ignored_and_path_wins_over_body,
    unknown_parameters_return_400_if_query_is_strict,
    all_parameter_errors_are_returned_under_both_keys,
    errors_contain_the_allowed_values,
    malformed_bodies_return_400,
    empty_body_of_any_type_is_accepted,
    oversized_bodies_return_413,
    page_parameters_are_bounded,
    link_header_lists_pages_without_token,
    links_repeat_filters_of_the_body,
    unknown_operations_return_404_405_or_410_in_json,
    valid_request_id_is_echoed,
    head_returns_headers_of_get_without_body,
    null_and_wrong_types_return_400,
];
