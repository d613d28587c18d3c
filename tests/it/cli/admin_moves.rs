//! `holdfast admin projects move` and `holdfast admin groups move`, next to a running server.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::git::{self, Work};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::{group, project};

async fn move_project(site: &Site, arguments: &[&str]) -> String {
    site.succeeds(&[&["admin", "projects", "move"], arguments].concat()).await
}

async fn move_group(site: &Site, arguments: &[&str]) -> String {
    site.succeeds(&[&["admin", "groups", "move"], arguments].concat()).await
}

/// Returns the newest audit event of a kind.
async fn audited(root: &Client, name: &str) -> Value {
    let events = root.get("/audit_events?per_page=100").await.expect(200).json();
    let mut events = events.as_array().expect("events").iter().map(|event| event["details"].clone());
    events.find(|details| details["event_name"] == name).expect("an event")
}

async fn moved_project_has_new_path_on_running_server(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let id = root.get("/projects/root%2Fp").await.expect(200).json()["id"].as_i64().unwrap();
    group(&root, "engines", json!({})).await;
    let expected = format!("Project root/p (ID {id}) is now engines/p.\n");
    assert_eq!(move_project(&site, &["root/p", "--to", "engines"]).await, expected);
    // The former path continues to identify the project.
    assert_eq!(root.get("/projects/root%2Fp").await.expect(200).json()["path_with_namespace"], "engines/p");
    let moved = root.get("/projects/engines%2Fp").await.expect(200).json();
    assert_eq!((&moved["id"], &moved["namespace"]["full_path"]), (&json!(id), &json!("engines")));
    let details = audited(&root, "project_transferred").await;
    assert_eq!(
        (&details["author_name"], &details["from"], &details["to"]),
        (&json!("Command line"), &json!("root"), &json!("engines"))
    );
    // The repository is available at the new path.
    work.git(&["ls-remote", "--exit-code", &git::address(&server.base, "root", TOKEN, "engines/p"), "main"]).await;
    // By IDs, to the personal namespace of another user.
    site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
    let printed = move_project(&site, &[&id.to_string(), "--to", "ANN", "--json"]).await;
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(
        printed,
        json!({ "changed": true, "message": format!("Project engines/p (ID {id}) is now ann/p."), "id": id })
    );
    // As with the API, the owner of the namespace becomes a Maintainer of the project.
    let members = root.get(&format!("/projects/{id}/members")).await.expect(200);
    assert!(members.pluck("username").contains(&json!("ann")));
    server.stop().await;
    site.succeeds(&["doctor"]).await;
}

async fn moved_group_has_new_path_on_running_server(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let engines = group(&root, "engines", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": engines })).await;
    group(&root, "machines", json!({})).await;
    let expected = format!("Group engines (ID {engines}) is now machines/engines.\n");
    assert_eq!(move_group(&site, &["engines", "--to", "machines"]).await, expected);
    let moved = root.get("/projects/machines%2Fengines%2Fwork").await.expect(200).json();
    assert_eq!(moved["id"], json!(work));
    assert_eq!(audited(&root, "group_transferred").await["author_name"], "Command line");
    let expected = format!("Group machines/engines (ID {engines}) is now engines.\n");
    assert_eq!(move_group(&site, &["machines/engines", "--top-level"]).await, expected);
    root.get("/groups/engines").await.expect(200);
    server.stop().await;
}

/// The refusals are those of the API.
async fn moves_follow_the_rules_of_the_api(site: Site) {
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let engines = group(&root, "engines", json!({ "visibility": "public" })).await;
    group(&root, "small", json!({ "parent_id": engines, "visibility": "public" })).await;
    group(&root, "hidden", json!({ "visibility": "private" })).await;
    project(&root, "work", json!({})).await;
    project(&root, "work", json!({ "namespace_id": engines })).await;
    for (arguments, reason) in [
        (&["projects", "move", "root/work", "--to", "engines"][..], "has already been taken"),
        (&["projects", "move", "root/work", "--to", "root"], "namespace already contains the project"),
        (&["projects", "move", "root/work", "--to", "missing"], "namespace \"missing\" does not exist"),
        (&["projects", "move", "root/missing", "--to", "engines"], "project \"root/missing\" does not exist"),
        (
            &["groups", "move", "engines", "--to", "engines/small"],
            "must not be the group itself or one of its subgroups",
        ),
        (
            &["groups", "move", "engines", "--to", "hidden"],
            "not allowed since the parent group has a private visibility",
        ),
        (&["groups", "move", "engines", "--top-level"], "is already the parent of the group"),
        (&["groups", "move", "root", "--top-level"], "group \"root\" does not exist"),
        (&["groups", "move", "engines", "--to", "missing"], "group \"missing\" does not exist"),
    ] {
        let output = site.fails(&[&["admin"], arguments].concat()).await;
        assert!(output.contains(reason), "{arguments:?}: {output}");
    }
    for arguments in [
        &["groups", "move", "engines"][..],
        &["groups", "move", "e", "--to", "m", "--top-level"],
        &["projects", "move", "p"],
    ] {
        let status = site.run(&[&["admin"], arguments].concat()).await.status;
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
    root.get("/projects/root%2Fwork").await.expect(200);
    root.get("/groups/engines%2Fsmall").await.expect(200);
    server.stop().await;
}

on_every_site![
    moved_project_has_new_path_on_running_server,
    moved_group_has_new_path_on_running_server,
    moves_follow_the_rules_of_the_api,
];
