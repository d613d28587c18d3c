//! Issues of epics.

use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, epic_issues, issues, now};

use super::{epic, group, join, titles};
use crate::planning::issues::open;
use crate::support::spaces::{id as id_of, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates an issue and returns its ID.
async fn issue(client: &Client, project: i64, body: Value) -> i64 {
    let iid = open(client, project, body).await;
    let returned = client.get(&format!("/projects/{project}/issues/{iid}")).await;
    returned.expect(200).json()["id"].as_i64().expect("an id")
}

/// Creates a public group with a project and an epic. Returns the IDs of both and the path of the epic's issues.
async fn setup(server: &TestServer, name: &str) -> (i64, i64, String) {
    let root = server.root();
    let id = group(server, name, json!({})).await;
    let inside = json!({"namespace_id": id, "visibility": "public"});
    let inside = project(&root, "inside", inside).await;
    let (iid, _) = epic(&root, id, "Whole", json!({})).await;
    (id, inside, format!("/groups/{id}/epics/{iid}/issues"))
}

async fn epic_issues_can_be_added_listed_and_removed(server: TestServer) {
    let root = server.root();
    let (_, inside, list) = setup(&server, "whole").await;
    let none: [Value; 0] = [];
    assert_eq!(titles(&root, &list).await, none);
    let (one, two) =
        (issue(&root, inside, json!({"title": "One"})).await, issue(&root, inside, json!({"title": "Two"})).await);
    let added = root.post(&format!("{list}/{one}"), json!({})).await.expect(201).json();
    assert_eq!((&added["epic"]["title"], &added["issue"]["id"]), (&json!("Whole"), &json!(one)));
    assert_eq!(
        (&added["issue"]["epic_issue_id"], &added["issue"]["relative_position"]),
        (&added["id"], &added["relative_position"])
    );
    root.post(&format!("{list}/{two}"), json!({})).await.expect(201);
    assert_eq!(titles(&root, &list).await, ["One", "Two"]);
    let listed = root.get(&format!("{list}?per_page=1")).await.expect(200);
    assert_eq!((listed.json()[0].clone(), listed.header("X-Total")), (added["issue"].clone(), "2"));
    assert_eq!(listed.json()[0]["references"]["relative"], "whole/inside#1");
    // The issue itself does not include its epic position.
    let alone = root.get(&format!("/projects/{inside}/issues/1")).await.expect(200).json();
    assert_eq!((alone.get("epic_issue_id"), alone.get("relative_position")), (None, None));
    let again = root.post(&format!("{list}/{one}"), json!({})).await.expect(409);
    assert_eq!(again.message(), "Issue(s) already assigned");
    let link = format!("{list}/{}", added["id"]);
    let removed = root.delete(&link).await.expect(200).json();
    assert_eq!((&removed["id"], &removed["issue"]["id"]), (&added["id"], &json!(one)));
    root.delete(&link).await.expect(404);
    assert_eq!(titles(&root, &list).await, ["Two"]);
    for missing in [
        root.post(&format!("{list}/999999"), json!({})).await,
        root.put(&format!("{list}/999999"), json!({"move_after_id": 1})).await,
        root.get("/groups/whole/epics/99/issues").await,
        root.post(&format!("/groups/whole/epics/99/issues/{one}"), json!({})).await,
        root.delete("/groups/whole/epics/99/issues/1").await,
    ] {
        missing.expect(404);
    }
    root.post(&format!("{list}/one"), json!({})).await.expect(400);
    root.delete(&format!("{list}/one")).await.expect(400);
    root.get("/groups/whole/epics/one/issues").await.expect(400);
}

async fn moved_issue_stays_in_epic_only_within_group(server: TestServer) {
    let root = server.root();
    let (id, inside, list) = setup(&server, "moving").await;
    let below = json!({"visibility": "public", "parent_id": id, "name": "below", "path": "below"});
    let below = id_of(&root.post("/groups", below).await.expect(201).json());
    let deep = project(&root, "deep", json!({"namespace_id": below, "visibility": "public"})).await;
    let elsewhere = group(&server, "elsewhere", json!({})).await;
    let outside = project(&root, "outside", json!({"namespace_id": elsewhere, "visibility": "public"})).await;
    for title in ["One", "Two", "Three"] {
        let issue = issue(&root, inside, json!({"title": title})).await;
        root.post(&format!("{list}/{issue}"), json!({})).await.expect(201);
    }
    let before = root.get(&list).await.expect(200).json();
    let go = async |project: i64, iid: i64, to: i64| {
        let path = format!("/projects/{project}/issues/{iid}/move");
        root.post(&path, json!({"to_project_id": to})).await.expect(201).json()
    };
    let moved = go(inside, 2, deep).await;
    let after = root.get(&list).await.expect(200).json();
    assert_eq!(titles(&root, &list).await, ["One", "Two", "Three"], "a moved issue keeps its position");
    assert_eq!((&after[1]["id"], &after[1]["project_id"]), (&moved["id"], &json!(deep)));
    assert_eq!(after[1]["epic_issue_id"], before[1]["epic_issue_id"]);
    go(deep, 1, outside).await;
    assert_eq!(titles(&root, &list).await, ["One", "Three"]);
    // An issue without an epic is not added to one.
    let loose = open(&root, inside, json!({"title": "Loose"})).await;
    go(inside, loose, deep).await;
    assert_eq!(titles(&root, &list).await, ["One", "Three"]);
}

async fn issue_belongs_to_one_epic(server: TestServer) {
    let root = server.root();
    let (id, inside, list) = setup(&server, "one").await;
    let other = epic(&root, id, "Other", json!({})).await.0;
    let other = format!("/groups/{id}/epics/{other}/issues");
    let one = issue(&root, inside, json!({"title": "One"})).await;
    let first = root.post(&format!("{list}/{one}"), json!({})).await.expect(201).json();
    let second = root.post(&format!("{other}/{one}"), json!({})).await.expect(201).json();
    assert_eq!(first["id"], second["id"]);
    let none: [Value; 0] = [];
    assert_eq!(titles(&root, &list).await, none);
    assert_eq!(titles(&root, &other).await, ["One"]);
    root.delete(&format!("{list}/{}", second["id"])).await.expect(404);
    let race = issue(&root, inside, json!({"title": "Race"})).await;
    let add = async |list: &str| root.post(&format!("{list}/{race}"), json!({})).await.status;
    let (one, two) = tokio::join!(add(&list), add(&list));
    let mut statuses = [one, two];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
}

async fn concurrent_add_and_remove_add_the_issue(server: TestServer) {
    let root = server.root();
    let (id, inside, list) = setup(&server, "swap").await;
    let other = epic(&root, id, "Other", json!({})).await.0;
    let other = format!("/groups/{id}/epics/{other}/issues");
    let one = issue(&root, inside, json!({"title": "One"})).await;
    for (from, to) in [(&list, &other), (&other, &list)].into_iter().cycle().take(16) {
        let known = root.get(from).await.expect(200).json();
        let association = match known.get(0) {
            Some(known) => known["epic_issue_id"].clone(),
            None => root.post(&format!("{from}/{one}"), json!({})).await.expect(201).json()["id"].clone(),
        };
        let (remove, add) = (format!("{from}/{association}"), format!("{to}/{one}"));
        let (removed, added) = tokio::join!(root.delete(&remove), root.post(&add, json!({})));
        assert!([200, 404].contains(&removed.status), "{removed:?}");
        assert_eq!(added.status, 201, "{added:?}");
        assert_eq!(titles(&root, to).await, ["One"]);
    }
}

async fn update_epic_issue_changes_position(server: TestServer) {
    let root = server.root();
    let (_, inside, list) = setup(&server, "order").await;
    let mut links = Vec::new();
    for title in ["One", "Two", "Three"] {
        let number = issue(&root, inside, json!({"title": title})).await;
        let added = root.post(&format!("{list}/{number}"), json!({})).await.expect(201).json();
        links.push(added["id"].clone());
    }
    let put = async |moved: usize, body: Value| root.put(&format!("{list}/{}", links[moved]), body).await;
    let moved = put(2, json!({"move_after_id": links[0]})).await.expect(200);
    assert_eq!(moved.pluck("title"), ["Three", "One", "Two"]);
    assert_eq!(titles(&root, &list).await, ["Three", "One", "Two"]);
    let moved = put(2, json!({"move_before_id": links[0]})).await.expect(200);
    assert_eq!(moved.pluck("title"), ["One", "Three", "Two"]);
    let moved = put(0, json!({"move_before_id": links[1], "move_after_id": links[2]})).await.expect(200);
    assert_eq!(moved.pluck("title"), ["Three", "Two", "One"], "the first of two parameters counts");
    let nothing = put(0, json!({})).await.expect(400);
    assert!(nothing.message().ends_with("at least one parameter must be provided"));
    put(0, json!({"move_before_id": 999_999})).await.expect(404);
    // Positions are spread if two neighbors have no gap.
    for round in 0..30 {
        let (moved, after) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        let answer = put(moved, json!({"move_before_id": links[2], "move_after_id": links[after]})).await;
        let expected = if round % 2 == 0 { ["Three", "One", "Two"] } else { ["Three", "Two", "One"] };
        assert_eq!(answer.expect(200).pluck("title"), expected, "{round}");
    }
    let positions = root.get(&list).await.expect(200).pluck("relative_position");
    let mut sorted: Vec<i64> = positions.iter().map(|place| place.as_i64().expect("a position")).collect();
    sorted.dedup();
    assert_eq!(sorted.len(), 3, "positions must be unique: {positions:?}");
}

async fn epic_issues_follow_issue_visibility(server: TestServer) {
    let root = server.root();
    let (id, inside, list) = setup(&server, "seen").await;
    let (ann, guest, reporter) =
        (server.create_user("ann").await, server.create_user("guest").await, server.create_user("reporter").await);
    join(&server, id, guest.id, 10).await;
    join(&server, id, reporter.id, 20).await;
    let hidden = project(&root, "hidden", json!({"namespace_id": id})).await;
    for (project, body) in [
        (inside, json!({"title": "Open"})),
        (inside, json!({"title": "Confidential", "confidential": true})),
        (hidden, json!({"title": "Hidden"})),
    ] {
        let number = issue(&root, project, body).await;
        reporter.client.post(&format!("{list}/{number}"), json!({})).await.expect(201);
    }
    server.anonymous().get(&list).await.expect(401);
    let listed = ann.client.get(&list).await.expect(200);
    assert_eq!((listed.pluck("title"), listed.header("X-Total")), (vec![json!("Open")], "1"));
    assert_eq!(titles(&guest.client, &list).await, ["Open", "Hidden"]);
    assert_eq!(titles(&reporter.client, &list).await, ["Open", "Confidential", "Hidden"]);
    let link = root.get(&list).await.expect(200).pluck("epic_issue_id")[0].clone();
    for user in [&ann, &guest] {
        user.client.post(&format!("{list}/1"), json!({})).await.expect(403);
        user.client.put(&format!("{list}/{link}"), json!({"move_after_id": link})).await.expect(403);
        user.client.delete(&format!("{list}/{link}")).await.expect(403);
    }
    // Only visible issues of the group hierarchy can be added.
    let elsewhere = project(&root, "elsewhere", json!({"visibility": "public"})).await;
    let other = issue(&root, elsewhere, json!({"title": "Elsewhere"})).await;
    let rejected = root.post(&format!("{list}/{other}"), json!({})).await.expect(404);
    assert_eq!(rejected.message(), "404 Issue Not Found");
    let sub = group(&server, "sub", json!({"parent_id": id})).await;
    let below = project(&root, "below", json!({"namespace_id": sub})).await;
    let owner = server.create_user("owner").await;
    server.insert_member(below, owner.id, AccessLevel::Owner).await;
    let lowest = issue(&owner.client, below, json!({"title": "Lowest"})).await;
    reporter.client.post(&format!("{list}/{lowest}"), json!({})).await.expect(201);
    // An issue that is no longer visible is not listed.
    root.put(&format!("/projects/{below}"), json!({"issues_access_level": "disabled"})).await.expect(200);
    assert_eq!(titles(&reporter.client, &list).await, ["Open", "Confidential", "Hidden"]);
}

async fn epic_rejects_more_than_1000_issues(server: TestServer) {
    let root = server.root();
    let (_, inside, list) = setup(&server, "full").await;
    let first = issue(&root, inside, json!({"title": "First"})).await;
    let link = root.post(&format!("{list}/{first}"), json!({})).await.expect(201).json();
    let db = server.backend.database.write();
    let rows = (2..=1001).map(|iid| issues::ActiveModel {
        project_id: Set(inside),
        iid: Set(iid),
        title: Set(format!("Issue {iid}")),
        state: Set(issues::IssueState::Opened),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    issues::Entity::insert_many(rows).exec_without_returning(db).await.expect("issues");
    let others = issues::Entity::find().filter(issues::Column::Id.ne(first)).all(db).await.expect("issues");
    let (last, most) = others.split_last().expect("issues");
    let epic_id = link["epic"]["id"].as_i64().expect("an id");
    let rows = most.iter().map(|other| epic_issues::ActiveModel {
        epic_id: Set(epic_id),
        issue_id: Set(other.id),
        ..Default::default()
    });
    epic_issues::Entity::insert_many(rows).exec_without_returning(db).await.expect("links");
    let full = root.post(&format!("{list}/{}", last.id), json!({})).await.expect(400);
    assert_eq!(full.message(), "The maximum number of issues in the epic (1000) is reached");
    root.delete(&format!("{list}/{}", link["id"])).await.expect(200);
    root.post(&format!("{list}/{}", last.id), json!({})).await.expect(201);
}

on_every_database![
    epic_issues_can_be_added_listed_and_removed,
    moved_issue_stays_in_epic_only_within_group,
    issue_belongs_to_one_epic,
    concurrent_add_and_remove_add_the_issue,
    update_epic_issue_changes_position,
    epic_issues_follow_issue_visibility,
    epic_rejects_more_than_1000_issues,
];
