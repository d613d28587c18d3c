//! Inherited labels, milestones and epics after a project or group is transferred.

use serde_json::{Value, json};

use crate::planning::boards::{board, list};
use crate::planning::epics::epic;
use crate::planning::issues::open;
use crate::support::spaces::{group, id, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a label below `/projects/:id` or `/groups/:id` and returns its ID.
async fn label(client: &Client, parent: &str, name: &str, color: &str) -> i64 {
    let body = json!({"name": name, "color": color, "description": format!("of {parent}")});
    id(&client.post(&format!("{parent}/labels"), body).await.expect(201).json())
}

async fn milestone(client: &Client, parent: &str, title: &str, due: &str) -> i64 {
    let body = json!({"title": title, "description": "far", "due_date": due});
    id(&client.post(&format!("{parent}/milestones"), body).await.expect(201).json())
}

/// Returns a label of a project or group by its name, or null.
async fn label_by_name(client: &Client, parent: &str, name: &str) -> Value {
    let all = client.get(&format!("{parent}/labels?per_page=100")).await.expect(200).json();
    let found = all.as_array().expect("a list").iter().find(|label| label["name"] == name).cloned();
    found.unwrap_or(Value::Null)
}

async fn merge_request(server: &TestServer, id: i64) -> (Option<i64>, Option<String>) {
    let due: Option<chrono::NaiveDate> = server.merge_request(id, "milestone_due_on").await;
    (server.merge_request(id, "milestone_id").await, due.map(|day| day.to_string()))
}

async fn transferred_project_copies_inherited_labels_and_milestones(server: TestServer) {
    let root = server.root();
    let public = || json!({"visibility": "public"});
    let (old, new) = (group(&root, "old", public()).await, group(&root, "newer", public()).await);
    let (at_old, at_new) = (format!("/groups/{old}"), format!("/groups/{new}"));
    let work = project(&root, "work", json!({"visibility": "public", "namespace_id": old})).await;
    let unmoved = project(&root, "stays", json!({"visibility": "public", "namespace_id": old})).await;
    let (at_work, issues) = (format!("/projects/{work}"), format!("/projects/{work}/issues"));
    let bug = label(&root, &at_old, "bug", "#FF0000").await;
    for (parent, name) in [(&at_old, "both"), (&at_new, "both"), (&at_work, "own"), (&at_old, "unused")] {
        label(&root, parent, name, "#00FF00").await;
    }
    let far = milestone(&root, &at_old, "far", "2031-02-03").await;
    let same = milestone(&root, &at_old, "same", "2031-02-03").await;
    let target_milestone = milestone(&root, &at_new, "same", "2032-02-03").await;
    root.put(&format!("{at_work}/labels/bug"), json!({"priority": 3})).await.expect(200);
    let one = open(&root, work, json!({"title": "one", "labels": "bug,both,own", "milestone_id": far})).await;
    let two = open(&root, work, json!({"title": "two", "labels": "bug", "milestone_id": same})).await;
    let other = open(&root, unmoved, json!({"title": "other", "labels": "bug,both", "milestone_id": far})).await;
    let change = server.insert_merge_request(work, 1, &[bug], Some(far)).await;
    let (epic_iid, _) = epic(&root, old, "gathers", json!({})).await;
    let issue_id = root.get(&format!("{issues}/{one}")).await.expect(200).json()["id"].clone();
    let of_epic = format!("{at_old}/epics/{epic_iid}/issues");
    root.post(&format!("{of_epic}/{issue_id}"), json!({})).await.expect(201);
    let shown = board(&root, &at_work, "b").await;
    list(&root, &at_work, shown, json!({"label_id": bug})).await;
    list(&root, &at_work, shown, json!({"milestone_id": far})).await;
    let own_label = label_by_name(&root, &at_work, "own").await["id"].as_i64().expect("an id");
    let remaining_list = list(&root, &at_work, shown, json!({"label_id": own_label})).await;

    root.put(&format!("{at_work}/transfer"), json!({"namespace": new})).await.expect(200);

    let moved = root.get(&format!("{issues}/{one}?with_labels_details=true")).await.expect(200).json();
    assert_eq!(moved["labels"], json!(["both", "bug", "own"]));
    assert_eq!((&moved["milestone"]["title"], &moved["milestone"]["project_id"]), (&json!("far"), &json!(work)));
    assert_eq!(
        (&moved["milestone"]["due_date"], &moved["milestone"]["description"]),
        (&json!("2031-02-03"), &json!("far"))
    );
    let row = server.issue(moved["id"].as_i64().expect("an id")).await;
    assert_eq!(
        (row.label_priority, row.milestone_due_on.map(|day| day.to_string())),
        (Some(3), Some("2031-02-03".into()))
    );
    let moved = root.get(&format!("{issues}/{two}")).await.expect(200).json();
    assert_eq!((&moved["labels"], &moved["milestone"]["id"]), (&json!(["bug"]), &json!(target_milestone)));
    let row = server.issue(moved["id"].as_i64().expect("an id")).await;
    assert_eq!(row.milestone_due_on.map(|day| day.to_string()).as_deref(), Some("2032-02-03"));
    let created = label_by_name(&root, &at_work, "bug").await;
    assert_eq!(
        (&created["is_project_label"], &created["priority"], &created["color"]),
        (&json!(true), &json!(3), &json!("#FF0000"))
    );
    assert_eq!(created["description"], format!("of {at_old}"));
    assert_eq!(
        label_by_name(&root, &at_work, "both").await["is_project_label"],
        false,
        "the label of the new group is used"
    );
    assert_eq!(label_by_name(&root, &at_work, "unused").await, Value::Null);
    let copied_milestone = root.get(&format!("{at_work}/milestones")).await.expect(200).json()[0].clone();
    assert_eq!(
        (&copied_milestone["title"], &copied_milestone["iid"], copied_milestone["id"].as_i64() == Some(far)),
        (&json!("far"), &json!(1), false)
    );
    assert_eq!(merge_request(&server, change).await, (copied_milestone["id"].as_i64(), Some("2031-02-03".into())));
    assert_eq!(root.get(&of_epic).await.expect(200).json(), json!([]));
    let lists = root.get(&format!("{at_work}/boards/{shown}/lists")).await.expect(200).pluck("id");
    assert_eq!(lists, [json!(remaining_list)]);
    // Other projects are unchanged, and the transferred project does not depend on the old group.
    let untouched = root.get(&format!("/projects/{unmoved}/issues/{other}")).await.expect(200).json();
    assert_eq!((&untouched["labels"], &untouched["milestone"]["id"]), (&json!(["both", "bug"]), &json!(far)));
    root.delete(&format!("{at_old}/labels/bug")).await.expect(204);
    root.delete(&format!("{at_old}/milestones/{far}")).await.expect(204);
    let found = root.get(&format!("{issues}?labels=bug&milestone=far")).await.expect(200).pluck("iid");
    assert_eq!(found, [json!(one)]);
}

async fn transferred_group_copies_inherited_labels_and_milestones(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let subgroup = group(&root, "below", json!({"visibility": "public", "parent_id": top})).await;
    let inner = group(&root, "inner", json!({"visibility": "public", "parent_id": subgroup})).await;
    let (at_top, at_below) = (format!("/groups/{top}"), format!("/groups/{subgroup}"));
    label(&root, &at_top, "bug", "#FF0000").await;
    label(&root, &at_below, "near", "#FF0000").await;
    let far = milestone(&root, &at_top, "far", "2031-02-03").await;
    let near = milestone(&root, &at_below, "near", "2031-02-04").await;
    let mut opened = Vec::new();
    for (parent, title) in [(subgroup, "a"), (inner, "b")] {
        let created = project(&root, title, json!({"visibility": "public", "namespace_id": parent})).await;
        for milestone in [far, near] {
            let body = json!({"title": title, "labels": "bug,near", "milestone_id": milestone});
            opened.push((created, open(&root, created, body).await, milestone));
        }
    }
    let (_, above) = epic(&root, top, "above", json!({})).await;
    let (child, _) = epic(&root, inner, "child", json!({"parent_id": above, "labels": "bug,near"})).await;
    let shown = board(&root, &at_below, "b").await;
    list(&root, &at_below, shown, json!({"milestone_id": far})).await;
    list(&root, &at_below, shown, json!({"milestone_id": near})).await;

    root.post(&format!("{at_below}/transfer"), json!({})).await.expect(201);

    for (project, iid, milestone) in opened {
        let issue = root.get(&format!("/projects/{project}/issues/{iid}")).await.expect(200).json();
        assert_eq!(issue["labels"], json!(["bug", "near"]));
        let milestone_data = &issue["milestone"];
        match milestone == near {
            true => assert_eq!(milestone_data["id"], near),
            false => {
                assert_eq!((&milestone_data["title"], &milestone_data["project_id"]), (&json!("far"), &json!(project)))
            }
        }
    }
    let epic = root.get(&format!("/groups/{inner}/epics/{child}")).await.expect(200).json();
    assert_eq!((&epic["parent_id"], &epic["labels"]), (&Value::Null, &json!(["bug", "near"])));
    assert_eq!(label_by_name(&root, &at_below, "bug").await["color"], "#FF0000");
    let lists = root.get(&format!("{at_below}/boards/{shown}/lists")).await.expect(200).json();
    assert_eq!((lists.as_array().map(Vec::len), &lists[0]["milestone"]["id"]), (Some(1), &json!(near)));
    root.delete(&at_top).await.expect(202);
}

on_every_database![
    transferred_project_copies_inherited_labels_and_milestones,
    transferred_group_copies_inherited_labels_and_milestones,
];
