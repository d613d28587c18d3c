//! Numbers of issues.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use crate::support::spaces::{group, id, project};
use crate::support::{Client, TestServer, on_every_database};

fn counts(opened: i64, closed: i64) -> Value {
    json!({"statistics": {"counts": {"all": opened + closed, "opened": opened, "closed": closed}}})
}

/// Creates an issue, and closes it if `closed` is true.
async fn issue(client: &Client, project: i64, attributes: Value, closed: bool) {
    let all = format!("/projects/{project}/issues");
    let created = client.post(&all, attributes).await.expect(201).json();
    if closed {
        client.put(&format!("{all}/{}", created["iid"]), json!({"state_event": "close"})).await.expect(200);
    }
}

async fn statistics_agree_with_lists_for_all_filters(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let parent = group(&root, "g", json!({"visibility": "public"})).await;
    let first = project(&root, "first", json!({"namespace_id": parent, "visibility": "public"})).await;
    let second = project(&root, "second", json!({"namespace_id": parent, "visibility": "public"})).await;
    server.insert_member(first, ada.id, AccessLevel::Developer).await;
    let milestone = root.post(&format!("/projects/{first}/milestones"), json!({"title": "m"})).await.expect(201);
    let milestone = id(&milestone.json());
    issue(&root, first, json!({"title": "apple pie", "labels": "a,b", "milestone_id": milestone}), false).await;
    issue(&root, first, json!({"title": "apple juice", "labels": "a", "weight": 3}), true).await;
    issue(&root, first, json!({"title": "secret", "confidential": true, "assignee_ids": [ada.id]}), false).await;
    issue(&ada.client, first, json!({"title": "of ada", "description": "apple"}), true).await;
    issue(&root, second, json!({"title": "elsewhere", "labels": "a"}), false).await;
    let filters = [
        "",
        "labels=a",
        "labels=a,b",
        "labels=None",
        "not[labels]=b",
        "milestone=m",
        "author_username=ada",
        "assignee_username=ada",
        "assignee_id=None",
        "search=apple",
        "search=apple&in=title",
        "iids[]=1&iids[]=2",
        "confidential=true",
        "weight=3",
        "weight=None",
        "created_after=2000-01-01T00:00:00Z",
        "created_before=2000-01-01T00:00:00Z",
        "updated_after=2999-01-01T00:00:00Z",
        "scope=all",
        "labels=missing",
        "search=apple&labels=a&not[milestone]=m",
        "my_reaction_emoji=None",
    ];
    for (prefix, scope) in
        [(format!("/projects/{first}"), ""), (format!("/groups/{parent}"), ""), (String::new(), "scope=all&")]
    {
        for filter in filters.iter().filter(|filter| scope.is_empty() || !filter.starts_with("scope")) {
            for client in [&root, &ada.client] {
                let numbers = async |state: &str| {
                    let list = client.get(&format!("{prefix}/issues?{scope}{filter}&state={state}")).await.expect(200);
                    list.header("X-Total").parse::<i64>().expect("a number")
                };
                let expected = counts(numbers("opened").await, numbers("closed").await);
                let path = format!("{prefix}/issues_statistics?{scope}{filter}");
                assert_eq!(client.get(&path).await.expect(200).json(), expected, "{path}");
            }
        }
    }
    let path = |rest: &str| format!("/projects/{first}/issues_statistics{rest}");
    assert_eq!(root.get(&path("")).await.expect(200).json(), counts(2, 2));
    // The state and the order are no parameters.
    assert_eq!(root.get(&path("?state=closed&sort=x&page=9")).await.expect(200).json(), counts(2, 2));
}

async fn statistics_of_the_instance_count_own_issues_by_default(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let public = project(&root, "p", json!({"visibility": "public"})).await;
    issue(&root, public, json!({"title": "i"}), false).await;
    issue(&ada.client, public, json!({"title": "own"}), true).await;
    let of_ada = ada.client.get("/issues_statistics").await.expect(200).json();
    assert_eq!(of_ada, counts(0, 1));
    assert_eq!(ada.client.get("/issues_statistics?scope=all").await.expect(200).json(), counts(1, 1));
    root.post(&format!("/projects/{public}/archive"), json!({})).await.expect(201);
    let archived = ada.client.get("/issues_statistics?scope=all&non_archived=true").await.expect(200).json();
    assert_eq!(archived, counts(0, 0));
}

async fn hidden_issues_are_not_counted(server: TestServer) {
    let root = server.root();
    let parent = group(&root, "g", json!({"visibility": "public"})).await;
    let hidden = project(&root, "hidden", json!({"namespace_id": parent, "visibility": "private"})).await;
    let public = project(&root, "public", json!({"namespace_id": parent, "visibility": "public"})).await;
    for project in [hidden, public] {
        issue(&root, project, json!({"title": "i"}), false).await;
        issue(&root, project, json!({"title": "c", "confidential": true}), false).await;
    }
    let outsider = server.create_user("outsider").await;
    let guest = server.create_user("guest").await;
    server.insert_member(hidden, guest.id, AccessLevel::Guest).await;
    let group_path = format!("/groups/{parent}/issues_statistics");
    for (client, of_group) in [(&outsider.client, 1), (&guest.client, 2), (&root, 4)] {
        assert_eq!(client.get(&group_path).await.expect(200).json(), counts(of_group, 0));
    }
    let of_project = |id: i64| format!("/projects/{id}/issues_statistics");
    outsider.client.get(&of_project(hidden)).await.expect(404);
    assert_eq!(guest.client.get(&of_project(hidden)).await.expect(200).json(), counts(1, 0));
    root.put(&format!("/projects/{public}"), json!({"issues_access_level": "disabled"})).await.expect(200);
    assert_eq!(root.get(&of_project(public)).await.expect(200).json(), counts(0, 0));
    for path in ["/issues_statistics", &group_path, &of_project(public)] {
        server.anonymous().get(path).await.expect(401);
        server.with_token("nonsense").get(path).await.expect(401);
        root.get(&format!("{path}?scope=unknown")).await.expect(400);
        root.get(&format!("{path}?created_after=x")).await.expect(400);
        let narrow = server.with_token(&server.create_token(outsider.id, &["read_user"]).await);
        narrow.get(path).await.expect(403);
    }
    root.get("/groups/999999/issues_statistics").await.expect(404);
    root.get(&of_project(999_999)).await.expect(404);
}

on_every_database![
    statistics_agree_with_lists_for_all_filters,
    statistics_of_the_instance_count_own_issues_by_default,
    hidden_issues_are_not_counted,
];
