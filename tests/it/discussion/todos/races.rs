//! Concurrent changes of to-do items and cross-references.

use futures_util::future::join_all;
use serde_json::json;

use super::{notes, pairs, pending, public_project, write};
use crate::planning::issues::open;
use crate::support::{TestServer, on_every_database};

async fn concurrent_mentions_create_one_todo(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let issue = format!("/projects/{id}/issues/{}", open(&root, id, json!({"title": "t"})).await);
    let mark = format!("{issue}/todo");
    let both = (0..20).map(|_| async {
        write(&root, &issue, "@ann").await;
        let marked = ann.client.post(&mark, json!({})).await.status;
        assert!([201, 304].contains(&marked), "{marked}");
    });
    join_all(both).await;
    assert_eq!(pending(&ann.client).await.len(), 1);
}

async fn concurrent_mutual_references_do_not_deadlock(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "p").await;
    for title in ["a", "b"] {
        open(&root, id, json!({"title": title})).await;
    }
    let (one, other) = (format!("/projects/{id}/issues/1"), format!("/projects/{id}/issues/2"));
    let both = (0..15).map(|number| {
        let (root, one, other) = (&root, &one, &other);
        async move {
            let (first, second) = (format!("#2 and !{number}"), format!("#1 and !{number}"));
            tokio::join!(write(root, one, &first), write(root, other, &second));
        }
    });
    join_all(both).await;
    for on in [&one, &other] {
        let named =
            notes(&root, on).await.iter().filter(|note| note.as_str().unwrap().starts_with("mentioned")).count();
        assert_eq!(named, 1);
    }
}

async fn concurrent_issue_moves_in_both_directions_do_not_deadlock(server: TestServer) {
    let root = server.root();
    let (p, q) = (public_project(&server, "p").await, public_project(&server, "q").await);
    for iid in 1..=8 {
        for project in [p, q] {
            assert_eq!(open(&root, project, json!({"title": "t"})).await, iid);
        }
    }
    let moves = (1..=8).flat_map(|iid| [(iid, p, q), (iid, q, p)]).map(|(iid, from, to)| {
        let root = &root;
        async move {
            let path = format!("/projects/{from}/issues/{iid}/move");
            root.post(&path, json!({"to_project_id": to})).await.expect(201);
        }
    });
    join_all(moves).await;
    for project in [p, q] {
        let open = root.get(&format!("/projects/{project}")).await.expect(200).json();
        assert_eq!(open["open_issues_count"], 8);
    }
}

async fn mentions_succeed_while_referenced_issue_is_deleted(server: TestServer) {
    let (root, ann) = (server.root(), server.create_user("ann").await);
    let id = public_project(&server, "p").await;
    let target = open(&root, id, json!({"title": "t"})).await;
    let many = (0..15).map(|_| open(&ann.client, id, json!({"title": "n", "description": format!("#{target}, @ann")})));
    let deleted = async {
        root.delete(&format!("/projects/{id}/issues/{target}")).await.expect(204);
    };
    tokio::join!(join_all(many), deleted);
    assert_eq!(pending(&ann.client).await.len(), 15);
    assert_eq!(pending(&ann.client).await[0], pairs([("mentioned", "n")])[0]);
}

on_every_database![
    concurrent_mentions_create_one_todo,
    concurrent_mutual_references_do_not_deadlock,
    concurrent_issue_moves_in_both_directions_do_not_deadlock,
    mentions_succeed_while_referenced_issue_is_deleted,
];
