//! Creating, reading, updating and deleting epics.

use serde_json::{Value, json};

use super::{epic, group, join};
use crate::support::{TestServer, on_every_database};

async fn create_and_get_epic_return_all_fields(server: TestServer) {
    let root = server.root();
    let id = group(&server, "shown", json!({})).await;
    let body = json!({
        "title": " Accessible pages ", "description": "For all", "labels": "b,a", "start_date": "2026-01-01",
        "due_date": "2026-06-30", "created_at": "2016-03-11T03:45:40Z",
    });
    let all = format!("/groups/{id}/epics");
    let created = root.post(&all, body).await.expect(201).json();
    let keys: Vec<&String> = created.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "id",
            "iid",
            "group_id",
            "parent_id",
            "title",
            "description",
            "confidential",
            "state",
            "web_url",
            "references",
            "author",
            "start_date",
            "due_date",
            "end_date",
            "created_at",
            "updated_at",
            "closed_at",
            "labels",
            "upvotes",
            "downvotes",
            "user_notes_count",
            "_links",
        ]
    );
    for (field, value) in [
        ("iid", json!(1)),
        ("group_id", json!(id)),
        ("parent_id", Value::Null),
        ("title", json!("Accessible pages")),
        ("description", json!("For all")),
        ("confidential", json!(false)),
        ("state", json!("opened")),
        ("web_url", json!(format!("{}/groups/shown/-/epics/1", server.base))),
        ("references", json!({"short": "&1", "relative": "&1", "full": "shown&1"})),
        ("start_date", json!("2026-01-01")),
        ("due_date", json!("2026-06-30")),
        ("end_date", json!("2026-06-30")),
        ("created_at", json!("2016-03-11T03:45:40.000Z")),
        ("closed_at", Value::Null),
        ("labels", json!(["a", "b"])),
        ("upvotes", json!(0)),
        ("downvotes", json!(0)),
        ("user_notes_count", json!(0)),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    assert_eq!(created["author"]["username"], "root");
    let api = format!("{}/api/v4/groups/{id}", server.base);
    let links = json!({"self": format!("{api}/epics/1"), "epic_issues": format!("{api}/epics/1/issues"), "group": api});
    assert_eq!(created["_links"], links);
    assert_eq!(root.get(&format!("{all}/1")).await.expect(200).json(), created);
    assert_eq!(root.get("/groups/shown/epics").await.expect(200).json(), json!([created]));
    let detailed = root.get(&format!("{all}?with_labels_details=true")).await.expect(200).json();
    assert_eq!((&detailed[0]["labels"][0]["name"], &detailed[0]["labels"][1]["name"]), (&json!("a"), &json!("b")));
}

async fn epic_iids_are_per_group_and_never_reused(server: TestServer) {
    let root = server.root();
    let (one, other) = (group(&server, "one", json!({})).await, group(&server, "other", json!({})).await);
    assert_eq!(epic(&root, one, "a", json!({})).await.0, 1);
    assert_eq!(epic(&root, one, "b", json!({})).await.0, 2);
    assert_eq!(epic(&root, other, "c", json!({})).await.0, 1);
    root.post(&format!("/groups/{one}/epics"), json!({"title": ""})).await.expect(400);
    root.delete(&format!("/groups/{one}/epics/2")).await.expect(204);
    assert_eq!(epic(&root, one, "d", json!({})).await.0, 3);
    root.get(&format!("/groups/{one}/epics/2")).await.expect(404);
}

async fn update_epic_accepts_only_an_empty_list(server: TestServer) {
    let root = server.root();
    let id = group(&server, "lists", json!({})).await;
    let (iid, _) = epic(&root, id, "First", json!({})).await;
    let this = format!("/groups/{id}/epics/{iid}");
    let before = root.get(&this).await.expect(200).json();
    for name in ["labels", "add_labels", "remove_labels"] {
        let updated = root.put(&this, json!({name: []})).await.expect(200).json();
        assert_eq!(updated["updated_at"], before["updated_at"], "{name}");
    }
    root.put(&this, json!({})).await.expect(400);
}

async fn update_epic_creates_system_notes(server: TestServer) {
    let root = server.root();
    let id = group(&server, "changed", json!({})).await;
    let (iid, number) = epic(&root, id, "First", json!({"labels": "a,b"})).await;
    let this = format!("/groups/{id}/epics/{iid}");
    let before = root.get(&this).await.expect(200).json();
    let changed = root.put(&this, json!({"title": "Second", "add_labels": "c", "remove_labels": "a"})).await;
    let changed = changed.expect(200).json();
    assert_eq!((&changed["title"], &changed["labels"]), (&json!("Second"), &json!(["b", "c"])));
    assert!(changed["updated_at"].as_str() > before["updated_at"].as_str());
    let rest = json!({
        "description": "Why", "confidential": true, "due_date": "2026-01-02", "start_date": "2026-01-01",
        "labels": "", "state_event": "close",
    });
    let closed = root.put(&this, rest).await.expect(200).json();
    assert_eq!((&closed["description"], &closed["confidential"]), (&json!("Why"), &json!(true)));
    assert_eq!((&closed["state"], &closed["labels"]), (&json!("closed"), &json!([])));
    assert!(closed["closed_at"].is_string());
    let opened = root.put(&this, json!({"state_event": "reopen", "due_date": "", "description": ""})).await;
    let opened = opened.expect(200).json();
    assert_eq!((&opened["state"], &opened["closed_at"]), (&json!("opened"), &Value::Null));
    assert_eq!(
        (&opened["due_date"], &opened["end_date"], &opened["description"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let system_notes = root.get(&format!("/groups/{id}/epics/{number}/notes?sort=asc")).await.expect(200);
    assert_eq!(
        system_notes.pluck("body"),
        [
            "changed title from **{-First-}** to **{+Second+}**",
            "changed the description",
            "changed due date to January 2, 2026",
            "made the epic confidential",
            "closed",
            "changed the description",
            "removed due date",
            "reopened",
        ]
    );
    assert!(system_notes.pluck("system").iter().all(|system| *system == true));
    assert_eq!(root.get(&this).await.expect(200).json()["user_notes_count"], 0);
    let dated = root.put(&this, json!({"updated_at": "2016-03-11T03:45:40Z"})).await.expect(200).json();
    assert_eq!(dated["updated_at"], "2016-03-11T03:45:40.000Z");
}

async fn epic_writes_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let id = group(&server, "refused", json!({})).await;
    let (iid, _) = epic(&root, id, "Kept", json!({"due_date": "2026-01-10"})).await;
    let (all, this) = (format!("/groups/{id}/epics"), format!("/groups/{id}/epics/{iid}"));
    assert_eq!(root.post(&all, json!({})).await.expect(400).message(), "title is missing");
    for title in [" ".to_owned(), "x".repeat(256)] {
        root.post(&all, json!({"title": title})).await.expect(400);
        root.put(&this, json!({"title": title})).await.expect(400);
    }
    let days = json!({"title": "t", "start_date": "2026-02-01", "due_date": "2026-01-01"});
    root.post(&all, days).await.expect(400);
    root.put(&this, json!({"start_date": "2026-01-11"})).await.expect(400);
    root.put(&this, json!({"state_event": "end"})).await.expect(400);
    let nothing = root.put(&this, json!({})).await.expect(400);
    assert!(nothing.message().ends_with("at least one parameter must be provided"));
    root.get(&format!("{all}/one")).await.expect(400);
    for missing in [
        root.get(&format!("{all}/99")).await,
        root.put(&format!("{all}/99"), json!({"title": "t"})).await,
        root.delete(&format!("{all}/99")).await,
    ] {
        assert_eq!(missing.expect(404).message(), "404 Epic Not Found");
    }
    let old = root.request(reqwest::Method::DELETE, &this);
    let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    root.send(old).await.expect(412);
    root.get(&this).await.expect(200);
}

async fn epic_parent_rejects_cycles_and_deep_nesting(server: TestServer) {
    let root = server.root();
    let top = group(&server, "top", json!({})).await;
    let sub = group(&server, "sub", json!({"parent_id": top})).await;
    let unrelated = group(&server, "beside", json!({})).await;
    let (_, whole) = epic(&root, top, "Whole", json!({})).await;
    let (part_iid, part) = epic(&root, sub, "Part", json!({"parent_id": whole})).await;
    assert_eq!(root.get(&format!("/groups/{sub}/epics/{part_iid}")).await.expect(200).json()["parent_id"], whole);
    // An epic of a subgroup, of an unrelated group, and a missing epic.
    let (_, other) = epic(&root, unrelated, "Other", json!({})).await;
    for (group, parent) in [(top, part), (sub, other), (sub, 999_999)] {
        let rejected = root.post(&format!("/groups/{group}/epics"), json!({"title": "t", "parent_id": parent})).await;
        assert!(rejected.expect(400).text().contains("is invalid"));
    }
    let (third_iid, third) = epic(&root, top, "Third", json!({"parent_id": whole})).await;
    for (iid, parent) in [(1, third), (third_iid, third)] {
        root.put(&format!("/groups/{top}/epics/{iid}"), json!({"parent_id": parent})).await.expect(400);
    }
    let mut above = third;
    for number in 0..6 {
        above = epic(&root, top, &format!("Deeper {number}"), json!({"parent_id": above})).await.1;
    }
    let deep = root.post(&format!("/groups/{top}/epics"), json!({"title": "t", "parent_id": above})).await.expect(400);
    assert!(deep.text().contains("nested too deeply"), "{}", deep.text());
    // The descendants of the epic count too: the deepest epic has seven ancestors already.
    let (_, new) = epic(&root, top, "New", json!({})).await;
    let (_, under_new) = epic(&root, top, "Under new", json!({"parent_id": new})).await;
    let third = format!("/groups/{top}/epics/{third_iid}");
    root.put(&third, json!({"parent_id": new})).await.expect(200);
    let deep = root.put(&third, json!({"parent_id": under_new})).await.expect(400);
    assert!(deep.text().contains("nested too deeply"), "{}", deep.text());
    let free = root.put(&third, json!({"parent_id": null})).await;
    assert_eq!(free.expect(200).json()["parent_id"], Value::Null);
}

async fn concurrent_parent_updates_cannot_create_cycle(server: TestServer) {
    let root = server.root();
    let id = group(&server, "circle", json!({})).await;
    let ((one, one_id), (two, two_id)) =
        (epic(&root, id, "One", json!({})).await, epic(&root, id, "Two", json!({})).await);
    let put = async |iid: i64, parent: i64| {
        root.put(&format!("/groups/{id}/epics/{iid}"), json!({"parent_id": parent})).await.status
    };
    let (first, second) = tokio::join!(put(one, two_id), put(two, one_id));
    let mut statuses = [first, second];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 400]);
}

async fn epic_timestamps_require_owner(server: TestServer) {
    let id = group(&server, "dated", json!({})).await;
    let reporter = server.create_user("reporter").await;
    join(&server, id, reporter.id, 20).await;
    let body = json!({"title": "t", "created_at": "2016-03-11T03:45:40Z"});
    let created = reporter.client.post(&format!("/groups/{id}/epics"), body).await.expect(201).json();
    assert!(created["created_at"] != "2016-03-11T03:45:40.000Z");
    let this = format!("/groups/{id}/epics/{}", created["iid"]);
    let changed = reporter.client.put(&this, json!({"updated_at": "2016-03-11T03:45:40Z"})).await.expect(200).json();
    assert!(changed["updated_at"] != "2016-03-11T03:45:40.000Z");
}

on_every_database![
    create_and_get_epic_return_all_fields,
    epic_iids_are_per_group_and_never_reused,
    update_epic_accepts_only_an_empty_list,
    update_epic_creates_system_notes,
    epic_writes_reject_invalid_attributes,
    epic_parent_rejects_cycles_and_deep_nesting,
    concurrent_parent_updates_cannot_create_cycle,
    epic_timestamps_require_owner,
];
