//! Responses for private projects equal those for missing projects.

use std::collections::BTreeSet;

use contract::operation::ResourceKind;
use contract::operation::{InputType, ParameterLocation};
use contract::table::operations;
use reqwest::Method;
use storage::entities::Visibility;

use crate::support::client::segment;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

fn comparable(response: &ApiResponse) -> (u16, String, BTreeSet<String>) {
    let names = response.headers.keys().map(ToString::to_string).collect();
    (response.status, response.text(), names)
}

async fn request_project(
    client: &Client,
    template: &str,
    method: &str,
    query: &[(&str, &str)],
    project: &str,
) -> ApiResponse {
    let path: Vec<String> = template
        .trim_start_matches("/api/v4")
        .split('/')
        .map(|part| match part.split_once('{') {
            Some((_, "id}")) => segment(project),
            Some((before, _)) => format!("{before}1"),
            None => part.to_owned(),
        })
        .collect();
    let request = client.request(method.parse::<Method>().expect("a method"), &path.join("/"));
    client.send(request.query(query)).await
}

async fn private_project_reads_equal_missing_project_reads(server: TestServer) {
    server.insert_project_at("g/hidden", Visibility::Private).await;
    let ann = server.create_user("ann").await;
    let mut compared = 0;
    for client in [server.anonymous(), server.with_token(&ann.token)] {
        let reads =
            operations().iter().filter(|operation| operation.is_read() && operation.access.on == ResourceKind::Project);
        for operation in reads {
            let query: Vec<_> = operation
                .parameters
                .iter()
                .filter(|one| one.location == ParameterLocation::Query && one.required)
                .map(|one| (one.name, if matches!(one.input, InputType::List { .. }) { "" } else { "main" }))
                .collect();
            let hidden = request_project(&client, operation.path, operation.method, &query, "g/hidden").await;
            let absent = request_project(&client, operation.path, operation.method, &query, "g/absent").await;
            assert_eq!(comparable(&hidden), comparable(&absent), "{}", operation.id);
            assert!(hidden.status >= 400, "{} answered {}", operation.id, hidden.status);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

async fn git_responses_for_private_and_missing_projects_are_equal(server: TestServer) {
    server.insert_project_at("g/hidden", Visibility::Private).await;
    let ann = server.create_user("ann").await;
    for client in [server.anonymous(), server.with_token(&ann.token)] {
        for service in ["git-upload-pack", "git-receive-pack"] {
            let of = |project: &str| format!("//{project}.git/info/refs?service={service}");
            let hidden = client.send(client.request(Method::GET, &of("g/hidden"))).await;
            let absent = client.send(client.request(Method::GET, &of("g/absent"))).await;
            assert_eq!(comparable(&hidden), comparable(&absent));
            assert_eq!(hidden.status, 401);
        }
    }
}

on_every_database![
    private_project_reads_equal_missing_project_reads,
    git_responses_for_private_and_missing_projects_are_equal,
];
