//! Export, import and second export of a group: equal except for IDs and times.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{export, files, import, records};
use crate::support::spaces::{group, join};
use crate::support::{Client, TestServer, on_every_database};

async fn create(client: &Client, path: &str, body: Value) -> Value {
    client.post(path, body).await.expect(201).json()
}

/// Creates a tree of three groups with every kind of record of an archive.
async fn create_tree(server: &TestServer, root: &Client) -> i64 {
    let settings = json!({
        "description": "The *top*\nof all", "share_with_group_lock": true, "membership_lock": true, "project_creation_level": "maintainer",
        "subgroup_creation_level": "owner", "auto_devops_enabled": false, "emails_disabled": true, "mentions_disabled": true,
        "default_branch_protection": 1, "request_access_enabled": true,
        "default_branch": "trunk", "require_two_factor_authentication": true, "two_factor_grace_period": 7,
    });
    let top = group(root, "top", settings).await;
    let mid = group(root, "mid", json!({"parent_id": top, "name": "The Mid (one)"})).await;
    let low = group(root, "low", json!({"parent_id": mid})).await;
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
    let until = json!({"user_id": ada.id, "access_level": 30, "expires_at": "2099-12-31"});
    create(root, &format!("/groups/{top}/members"), until).await;
    join(root, &format!("/groups/{mid}"), ada.id, 40).await;
    join(root, &format!("/groups/{low}"), eve.id, 50).await;
    // The same title in two groups is allowed only if the subgroup's label is created first.
    for (at, color) in [(low, "#111111"), (top, "#222222")] {
        let label = json!({"name": "same", "color": color, "description": format!("of {at}")});
        create(root, &format!("/groups/{at}/labels"), label).await;
    }
    for at in [top, mid, low] {
        let base_path = format!("/groups/{at}");
        let label =
            create(root, &format!("{base_path}/labels"), json!({"name": format!("own {at}"), "color": "#abcdef"}))
                .await;
        let new = json!({"title": format!("M {at} ü"), "description": "See %1", "start_date": "2026-01-01", "due_date": "2026-02-01"});
        let milestone = create(root, &format!("{base_path}/milestones"), new).await;
        let closed = create(root, &format!("{base_path}/milestones"), json!({"title": format!("C {at}")})).await;
        let close = json!({"state_event": "close"});
        root.put(&format!("{base_path}/milestones/{}", closed["id"]), close).await.expect(200);
        let badge = json!({"name": "b", "link_url": "https://h.example.com/%{project_path}", "image_url": "https://h.example.com/x.svg"});
        create(root, &format!("{base_path}/badges"), badge).await;
        let board = create(root, &format!("{base_path}/boards"), json!({"name": "Plan"})).await;
        let lists = format!("{base_path}/boards/{}/lists", board["id"]);
        for list in
            [json!({"milestone_id": milestone["id"]}), json!({"label_id": label["id"]}), json!({"assignee_id": ada.id})]
        {
            create(root, &lists, list).await;
        }
        let narrow = json!({
            "labels": "same", "weight": 5, "assignee_id": ada.id, "milestone_id": closed["id"], "hide_backlog_list": true,
        });
        root.put(&format!("{base_path}/boards/{}", board["id"]), narrow).await.expect(200);
        create(root, &format!("{base_path}/boards"), json!({"name": "Empty"})).await;
    }
    let epics = |at: i64| format!("/groups/{at}/epics");
    let above =
        create(root, &epics(top), json!({"title": "Above", "labels": "same", "description": "# Text\n@ada"})).await;
    let part = json!({"title": "Part", "parent_id": above["id"], "start_date": "2026-01-02", "due_date": "2026-03-04", "confidential": true});
    let part = create(&ada.client, &epics(mid), part).await;
    let labels = format!("own {low},own {top}");
    let further = json!({"title": "Part of part", "parent_id": part["id"], "labels": labels});
    create(root, &epics(low), further).await;
    create(&eve.client, &epics(low), json!({"title": "By eve"})).await;
    let deleted = create(root, &epics(low), json!({"title": "Gone"})).await;
    root.delete(&format!("{}/{}", epics(low), deleted["iid"])).await.expect(204);
    let closed = create(root, &epics(low), json!({"title": "Closed"})).await;
    root.put(&format!("{}/{}", epics(low), closed["iid"]), json!({"state_event": "close"})).await.expect(200);
    top
}

/// Returns the records of an archive, with IDs of groups, users and epics replaced by names.
fn normalized(archive: &[u8]) -> BTreeMap<String, Vec<Value>> {
    let files = files(archive);
    let ids: Vec<i64> = records(&files, "tree/groups/_all.ndjson").iter().filter_map(Value::as_i64).collect();
    let mut paths: HashMap<i64, String> = HashMap::new();
    for id in &ids {
        let attributes = &records(&files, &format!("tree/groups/{id}.json"))[0];
        let above = attributes["parent_id"].as_i64().and_then(|id| paths.get(&id).cloned());
        let path = above
            .map_or("ROOT".to_owned(), |above| format!("{above}/{}", attributes["path"].as_str().expect("a path")));
        paths.insert(*id, path);
    }
    let (mut users, mut epics) = (HashMap::new(), HashMap::new());
    for id in &ids {
        for member in records(&files, &format!("tree/groups/{id}/members.ndjson")) {
            users.insert(member["user"]["id"].as_i64(), member["user"]["username"].clone());
        }
        for epic in records(&files, &format!("tree/groups/{id}/epics.ndjson")) {
            epics.insert(epic["id"].as_i64(), json!(format!("{}&{}", paths[id], epic["iid"])));
        }
    }
    let mut normalized = BTreeMap::new();
    for id in &ids {
        let mut attributes = records(&files, &format!("tree/groups/{id}.json"));
        let object = attributes[0].as_object_mut().expect("an object");
        for name in ["id", "parent_id"] {
            object.remove(name);
        }
        if *id == ids[0] {
            object.remove("name");
            object.remove("path");
        }
        normalized.insert(paths[id].clone(), attributes);
        for relation in ["milestones", "labels", "badges", "members", "boards", "epics"] {
            let mut all = records(&files, &format!("tree/groups/{id}/{relation}.ndjson"));
            for record in &mut all {
                for (name, known) in
                    [("id", &epics), ("parent_id", &epics), ("author_id", &users), ("assignee_id", &users)]
                {
                    if let Some(value) = record.get_mut(name).filter(|value| !value.is_null()) {
                        *value = known[&value.as_i64()].clone();
                    }
                }
                if let Some(user) = record.get_mut("user") {
                    user["id"] = json!(null);
                }
                for list in record.get_mut("lists").and_then(Value::as_array_mut).into_iter().flatten() {
                    if !list["user_id"].is_null() {
                        list["user_id"] = users[&list["user_id"].as_i64()].clone();
                    }
                }
            }
            all.sort_by_key(Value::to_string);
            normalized.insert(format!("{} {relation}", paths[id]), all);
        }
    }
    normalized
}

async fn export_of_imported_group_equals_original(server: TestServer) {
    let root = server.root();
    let top = create_tree(&server, &root).await;
    let first = export(&server, &root, top).await;
    let (copy, status) = import(&server, &root, "copy", None, first.clone()).await;
    assert_eq!((&status["import_status"], &status["unmapped"]), (&json!("finished"), &json!([])));
    let second = export(&server, &root, copy).await;
    let (before, after) = (normalized(&first), normalized(&second));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, records) in &before {
        assert_eq!(records, &after[name], "{name}");
    }
    // Records of each kind were compared.
    for relation in ["milestones", "labels", "badges", "members", "boards", "epics"] {
        assert!(!before[&format!("ROOT/mid {relation}")].is_empty(), "{relation}");
    }
    assert_eq!(before["ROOT/mid/low epics"].len(), 3);
    assert_eq!(before["ROOT/mid epics"][0]["parent_id"], "ROOT&1");
}

on_every_database![export_of_imported_group_equals_original,];
