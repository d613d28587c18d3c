//! Releases of the projects of a group.

use sea_orm::ActiveValue::Set;
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::release;
use crate::support::code::Project;
use crate::support::spaces::group;
use crate::support::{TestServer, on_every_database};

async fn list_group_releases_returns_visible_releases(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let low = group(&root, "low", json!({ "visibility": "public", "parent_id": top })).await;
    let (public, private) = (
        Project::with_commits(&server, "open", Visibility::Public).await,
        Project::with_commits(&server, "closed", Visibility::Private).await,
    );
    public.update(|row| row.namespace_id = Set(top)).await;
    private.update(|row| row.namespace_id = Set(low)).await;
    let elsewhere = Project::with_commits(&server, "elsewhere", Visibility::Public).await;
    for (project, tag, day) in
        [(&public, "a", "01"), (&private, "b", "02"), (&public, "c", "03"), (&elsewhere, "d", "04")]
    {
        let extra = json!({ "released_at": format!("2020-01-{day}"), "name": format!("Name of {tag}") });
        release(&root, &format!("/projects/{}", project.id), tag, extra).await;
    }
    let url = format!("/groups/{top}/releases");
    let all = root.get(&url).await.expect(200);
    assert_eq!((all.pluck("tag_name"), all.header("X-Total")), (vec![json!("c"), json!("b"), json!("a")], "3"));
    assert_eq!(root.get(&format!("{url}?sort=asc&per_page=2")).await.expect(200).pluck("tag_name"), ["a", "b"]);
    let of_project = root.get(&format!("/projects/{}/releases/b", private.id)).await.expect(200).json();
    assert_eq!(all.json()[1], of_project);
    assert_eq!(all.json()[1]["tag_path"], "/top/low/closed/-/tags/b");
    let stranger = server.create_user("stranger").await.client;
    for client in [&server.anonymous(), &stranger] {
        assert_eq!(client.get(&url).await.expect(200).pluck("tag_name"), ["c", "a"]);
        assert_eq!(client.get(&format!("/groups/{low}/releases")).await.expect(200).json(), json!([]));
    }
    // A Guest does not read the code of a private project.
    let guest = private.member("guest", AccessLevel::Guest).await;
    let seen = guest.get(&format!("/groups/{low}/releases")).await.expect(200).json();
    assert_eq!((seen[0].get("tag_name"), &seen[0]["name"]), (None, &json!("Name of b")));
    let simple = root.get(&format!("{url}?simple=true")).await.expect(200).json();
    let found = &simple[0];
    assert_eq!(
        *found,
        json!({
            "tag_name": "c", "name": "Name of c", "description": null, "created_at": found["created_at"],
            "released_at": "2020-01-03T00:00:00.000Z", "upcoming_release": false, "historical_release": true,
        })
    );
    root.get(&format!("{url}?sort=up")).await.expect(400);
}

async fn list_group_releases_hides_private_group(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({ "visibility": "private" })).await;
    let url = format!("/groups/{team}/releases");
    assert_eq!(root.get(&url).await.expect(200).json(), json!([]));
    server.anonymous().get(&url).await.expect(404);
    server.create_user("stranger").await.client.get(&url).await.expect(404);
}

async fn simple_list_hides_tags_of_unreadable_code(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let project = Project::with_commits(&server, "closed", Visibility::Private).await;
    project.update(|row| row.namespace_id = Set(team)).await;
    release(&root, &format!("/projects/{}", project.id), "secret", json!({ "name": "First" })).await;
    let guest = server.create_user("guest").await;
    crate::support::spaces::join(&root, &format!("/groups/{team}"), guest.id, 10).await;
    let seen = guest.client.get(&format!("/groups/{team}/releases?simple=true")).await.expect(200).json();
    assert_eq!((seen[0].get("tag_name"), &seen[0]["name"]), (None, &json!("First")));
}

on_every_database![
    list_group_releases_returns_visible_releases,
    list_group_releases_hides_private_group,
    simple_list_hides_tags_of_unreadable_code,
];
