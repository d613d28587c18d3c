//! The order of errors: 401, 400, 404, 403. Forms that may contain a file return 404 and 403 before 400.

use reqwest::multipart::{Form, Part};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// A request that the client is not allowed to send.
struct Refused<'a> {
    client: &'a Client,
    method: Method,
    path: String,
    /// An attribute with an invalid value.
    wrong: (&'static str, &'static str),
    /// A valid body.
    right: Value,
    status: u16,
}

impl Refused<'_> {
    fn request(&self) -> RequestBuilder {
        self.client.request(self.method.clone(), &self.path)
    }

    /// Returns the statuses for an invalid body as JSON, as a form and as a form with a file, and for a valid body.
    async fn statuses(&self) -> [u16; 4] {
        let (name, value) = self.wrong;
        let mut wrong = self.right.clone();
        wrong[name] = json!(value);
        let picture = Part::bytes(b"no picture".as_slice()).file_name("a.png");
        let form = Form::new().text(name, value).part("avatar", picture);
        let requests = [
            self.request().json(&wrong),
            self.request().form(&[(name, value)]),
            self.request().multipart(form),
            self.request().json(&self.right),
        ];
        let mut statuses = [0; 4];
        for (status, request) in statuses.iter_mut().zip(requests) {
            *status = self.client.send(request).await.status;
        }
        statuses
    }
}

async fn parameters_are_checked_before_permissions_except_in_file_forms(server: TestServer) {
    let (root, anonymous_client) = (server.root(), server.anonymous());
    let (dev, non_member) = (server.create_user("dev").await, server.create_user("stranger").await);
    let narrow = server.with_token(&server.create_token(dev.id, &["read_api"]).await);
    let open = group(&root, "open", json!({"visibility": "public"})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    let shown = project(&root, "shown", json!({"visibility": "public"})).await;
    let secret = project(&root, "secret", json!({})).await;
    join(&root, &format!("/groups/{open}"), dev.id, 30).await;
    join(&root, &format!("/projects/{shown}"), dev.id, 30).await;
    let ada = json!({"email": "a@example.com", "name": "Ada", "username": "ada", "force_random_password": true});
    let put = |client, path: String, status| Refused {
        client,
        method: Method::PUT,
        path,
        wrong: ("visibility", "x"),
        right: json!({"description": "d"}),
        status,
    };
    for rejected in [
        Refused {
            client: &dev.client,
            method: Method::POST,
            path: "/users".to_owned(),
            wrong: ("admin", "x"),
            right: ada,
            status: 403,
        },
        Refused {
            client: &dev.client,
            method: Method::PUT,
            path: format!("/users/{}", non_member.id),
            wrong: ("admin", "x"),
            right: json!({"bio": "b"}),
            status: 403,
        },
        Refused {
            client: &root,
            method: Method::PUT,
            path: "/users/999999".to_owned(),
            wrong: ("admin", "x"),
            right: json!({"bio": "b"}),
            status: 404,
        },
        Refused {
            client: &narrow,
            method: Method::POST,
            path: "/groups".to_owned(),
            wrong: ("visibility", "x"),
            right: json!({"name": "a", "path": "a"}),
            status: 403,
        },
        put(&dev.client, format!("/groups/{open}"), 403),
        put(&non_member.client, format!("/groups/{hidden}"), 404),
        put(&dev.client, format!("/projects/{shown}"), 403),
        put(&non_member.client, format!("/projects/{secret}"), 404),
    ] {
        let status = rejected.status;
        assert_eq!(rejected.statuses().await, [400, 400, status, status], "{} {}", rejected.method, rejected.path);
        let anonymous = Refused { client: &anonymous_client, ..rejected };
        assert_eq!(anonymous.statuses().await, [401; 4], "{}", anonymous.path);
    }
}

async fn invalid_path_parameters_return_400_before_lookup(server: TestServer) {
    let ada = server.create_user("ada").await;
    let work = project(&ada.client, "work", json!({"initialize_with_readme": true})).await;
    for (path, fault) in [
        ("/projects/a%00b%2Fc/repository/commits".to_owned(), "id is invalid"),
        ("/projects/a%00b%2Fc/repository/branches".to_owned(), "id is invalid"),
        ("/projects/a%00b%2Fc/languages".to_owned(), "id is invalid"),
        ("/groups/a%00b".to_owned(), "id is invalid"),
        ("/users/a%00b/projects".to_owned(), "user_id is invalid"),
        (format!("/projects/{work}/repository/commits/a%00b"), "sha is invalid"),
        (format!("/projects/{work}/repository/branches/a%00b"), "branch is invalid"),
        ("/projects/999999/repository/branches/a%00b".to_owned(), "branch is invalid"),
    ] {
        for client in [&ada.client, &server.anonymous()] {
            assert_eq!(client.get(&path).await.expect(400).message(), fault, "{path}");
        }
    }
    let picture = || Form::new().part("file", Part::bytes(b"x".as_slice()).file_name("a.png"));
    for (client, status) in [(&ada.client, 400), (&server.anonymous(), 401)] {
        let request = client.request(Method::POST, "/projects/a%00b%2Fc/uploads").multipart(picture());
        client.send(request).await.expect(status);
    }
}

async fn file_size_limit_does_not_apply_to_text_fields(server: TestServer) {
    let ada = server.create_user("ada").await;
    let work = project(&ada.client, "work", json!({})).await;
    let uploads = format!("/projects/{work}/uploads");
    let text = "x".repeat(1_100_000);
    ada.client.post(&uploads, json!({"file": text})).await.expect(413);
    ada.client.post_form(&uploads, &[("file", &text)]).await.expect(413);
    let file = Part::bytes(text.into_bytes()).file_name("a.txt");
    let form = ada.client.request(Method::POST, &uploads).multipart(Form::new().part("file", file));
    ada.client.send(form).await.expect(201);
}

on_every_database![
    parameters_are_checked_before_permissions_except_in_file_forms,
    invalid_path_parameters_return_400_before_lookup,
    file_size_limit_does_not_apply_to_text_fields,
];
