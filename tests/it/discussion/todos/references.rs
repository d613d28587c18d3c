//! System notes for cross-references.

use serde_json::json;
use storage::entities::Visibility;

use super::{notes, public_project, write};
use crate::planning::issues::open;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn reference_creates_system_note_on_target(server: TestServer) {
    let root = server.root();
    let home = Project::with_commits(&server, "p", Visibility::Public).await;
    let id = home.id;
    let other = public_project(&server, "q").await;
    let issue = |project: i64, iid: i64| format!("/projects/{project}/issues/{iid}");
    for (project, title) in [(id, "first"), (id, "second"), (other, "third")] {
        open(&root, project, json!({"title": title})).await;
    }
    propose(&root, id, "feature/x", "main", json!({"description": "as #1 says"})).await;
    let request = format!("/projects/{id}/merge_requests/1");
    write(&root, &issue(id, 2), "like #1, #1, #2 and !1").await;
    let address = format!("see {}/root/p/-/issues/1 or root/p!1", server.base);
    write(&root, &issue(other, 1), &address).await;
    // A repeated reference creates no second note.
    write(&root, &issue(id, 2), "#1 again").await;
    assert_eq!(
        notes(&root, &issue(id, 1)).await,
        ["mentioned in merge request !1", "mentioned in issue #2", "mentioned in issue of-q/q#1"]
    );
    assert_eq!(notes(&root, &request).await, ["mentioned in issue #2", "mentioned in issue of-q/q#1"]);
    assert_eq!(notes(&root, &issue(id, 2)).await, ["like #1, #1, #2 and !1", "#1 again"]);
    let shown = root.get(&issue(id, 1)).await.expect(200).json();
    assert_eq!(shown["user_notes_count"], 0);
    // References in an edited title or description also create notes.
    root.put(&issue(id, 1), json!({"title": "for !1"})).await.expect(200);
    root.put(&request, json!({"description": "as #2 says"})).await.expect(200);
    assert_eq!(notes(&root, &request).await[2], "mentioned in issue #1");
    assert_eq!(notes(&root, &issue(id, 2)).await[2], "mentioned in merge request !1");
}

async fn references_in_code_or_to_invisible_targets_create_no_note(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let hidden = project(&root, "hidden", json!({})).await;
    let secret = open(&root, hidden, json!({"title": "t"})).await;
    for title in ["a", "b"] {
        open(&root, id, json!({"title": title})).await;
    }
    let confidential = open(&root, id, json!({"title": "c", "confidential": true})).await;
    write(
        &ann.client,
        &format!("/projects/{id}/issues/1"),
        &format!("`#2` root/hidden#{secret} #{confidential} #99 missing-user/none#1"),
    )
    .await;
    for on in [
        format!("/projects/{hidden}/issues/{secret}"),
        format!("/projects/{id}/issues/2"),
        format!("/projects/{id}/issues/{confidential}"),
    ] {
        let none: [&str; 0] = [];
        assert_eq!(notes(&root, &on).await, none, "{on}");
    }
}

async fn reference_notes_from_restricted_sources_are_hidden(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let open_one = format!("/projects/{id}/issues/{}", open(&root, id, json!({"title": "open"})).await);
    let hidden = project(&root, "hidden", json!({})).await;
    open(&root, hidden, json!({"title": "t", "description": "of-p/p#1"})).await;
    let confidential = open(&root, id, json!({"title": "t", "confidential": true, "description": "#1"})).await;
    let confidential_note = json!({"body": "beside #1", "confidential": true});
    let third = open(&root, id, json!({"title": "third"})).await;
    root.post(&format!("/projects/{id}/issues/{third}/notes"), confidential_note).await.expect(201);
    let all = notes(&root, &open_one).await;
    assert_eq!(all, ["mentioned in issue root/hidden#1".to_owned(), format!("mentioned in issue #{confidential}")]);
    let none: [&str; 0] = [];
    assert_eq!(notes(&ann.client, &open_one).await, none);
    let list = ann.client.get(&format!("{open_one}/notes")).await.expect(200);
    assert_eq!(list.header("x-total"), "0");
    let first = root.get(&format!("{open_one}/notes")).await.expect(200).json()[0]["id"].clone();
    ann.client.get(&format!("{open_one}/notes/{first}")).await.expect(404);
    root.put(&format!("/projects/{id}/issues/{confidential}"), json!({"confidential": false})).await.expect(200);
    assert_eq!(notes(&ann.client, &open_one).await, [format!("mentioned in issue #{confidential}")]);
}

async fn move_notes_require_access_to_other_project(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let hidden = project(&root, "hidden", json!({})).await;
    for (from, to) in [(id, hidden), (hidden, id)] {
        let iid = open(&root, from, json!({"title": "t"})).await;
        root.post(&format!("/projects/{from}/issues/{iid}/move"), json!({"to_project_id": to})).await.expect(201);
    }
    for iid in [1, 2] {
        let issue = format!("/projects/{id}/issues/{iid}");
        assert!(notes(&root, &issue).await.iter().any(|note| note.as_str().unwrap().contains("root/hidden#")));
        assert!(!notes(&ann.client, &issue).await.iter().any(|note| note.as_str().unwrap().contains("hidden")));
    }
}

on_every_database![
    reference_creates_system_note_on_target,
    references_in_code_or_to_invisible_targets_create_no_note,
    reference_notes_from_restricted_sources_are_hidden,
    move_notes_require_access_to_other_project,
];
