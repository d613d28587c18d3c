//! Lists of notes.

use serde_json::json;

use super::{bodies, issue, write};
use crate::support::{TestServer, on_every_database};

async fn list_notes_sorts_by_each_order_with_ties_in_its_direction(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "ordered").await;
    let (early, late) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
    let mut notes = Vec::new();
    for (body, at) in [("a", late), ("b", early), ("c", late), ("d", early)] {
        notes.push(write(&root, &path, json!({"body": body, "created_at": at})).await);
    }
    let created = root.get(&notes[0]).await.expect(200).json();
    assert_eq!(
        (&created["created_at"], &created["updated_at"]),
        (&json!("2021-01-01T00:00:00.000Z"), &created["created_at"])
    );
    // An update to the current text would not change the time.
    for body in ["changed", "b"] {
        root.put(&notes[1], json!({ "body": body })).await.expect(200);
    }
    let list = format!("{path}/notes");
    for (query, order) in [
        ("", ["c", "a", "d", "b"]),
        ("?sort=desc&order_by=created_at", ["c", "a", "d", "b"]),
        ("?sort=asc", ["b", "d", "a", "c"]),
        ("?order_by=updated_at", ["b", "c", "a", "d"]),
        ("?order_by=updated_at&sort=asc", ["d", "a", "c", "b"]),
    ] {
        assert_eq!(bodies(&root, &format!("{list}{query}")).await, order, "{query}");
    }
    for name in ["sort", "order_by"] {
        let refused = root.get(&format!("{list}?{name}=x")).await.expect(400);
        assert_eq!(refused.message(), format!("{name} does not have a valid value"));
    }
    let page = root.get(&format!("{list}?per_page=3&page=2")).await.expect(200);
    assert_eq!(page.pluck("body"), ["b"]);
    assert_eq!((page.header("X-Total"), page.header("X-Total-Pages"), page.header("X-Prev-Page")), ("4", "2", "1"));
    assert!(page.header("Link").contains("rel=\"first\""));
}

async fn list_notes_includes_system_notes_and_none_for_labels(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "watched").await;
    root.put(&path, json!({"add_labels": "bug"})).await.expect(200);
    root.put(&path, json!({"state_event": "close"})).await.expect(200);
    write(&root, &path, json!({"body": "why"})).await;
    let listed = root.get(&format!("{path}/notes?sort=asc")).await.expect(200);
    assert_eq!(listed.pluck("body"), ["closed", "why"]);
    assert_eq!(listed.pluck("system"), [true, false]);
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 1);
}

on_every_database![
    list_notes_sorts_by_each_order_with_ties_in_its_direction,
    list_notes_includes_system_notes_and_none_for_labels,
];
