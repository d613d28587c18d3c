//! Exporting groups.

use holdfast::jobs::export_group::ExportGroup;
use holdfast::services::group_transfers::{exports, sweep};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::{group_exports, labels, now};

use super::{export, exported, files, kept, records};
use crate::support::places::{group, join};
use crate::support::{TestServer, on_every_database};

/// Makes the time of all archives over.
async fn expire(server: &TestServer) {
    group_exports::Entity::update_many()
        .col_expr(group_exports::Column::ExpiresAt, Expr::value(now()))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
}

async fn rows(server: &TestServer) -> u64 {
    let all = group_exports::Entity::find().count(server.backend.database.read());
    all.await.expect("a count")
}

async fn an_archive_is_written_in_the_background_and_downloaded(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    let path = format!("/groups/{low}/export");
    let download = format!("{path}/download");
    let early = root.get(&download).await.expect(404);
    assert_eq!(early.json(), json!({"message": "404 Not found or has expired"}));
    let taken = root.post(&path, json!({})).await.expect(202);
    assert_eq!(taken.json(), json!({"message": "202 Accepted"}));
    root.get(&download).await.expect(404);
    server.finish_jobs().await;
    let ready = root.get(&download).await.expect(200);
    assert_eq!(ready.header("Content-Type"), "application/octet-stream");
    let disposition = ready.header("Content-Disposition");
    assert!(disposition.starts_with("attachment; filename=\"20"), "{disposition}");
    assert!(disposition.contains("_top_low_export.tar.gz\""), "{disposition}");
    assert_eq!(ready.header("Content-Length"), ready.body.len().to_string());
    let files = files(&ready.body);
    assert_eq!(files["VERSION"], "0.2.4");
    assert_eq!(files["tree/groups/_all.ndjson"], format!("{low}\n"));
    // A download that broke off goes on.
    let rest = root.clone().header("Range", "bytes=5-").get(&download).await.expect(206);
    assert_eq!(rest.body, ready.body[5..]);
    root.clone().header("Range", "bytes=99999999-").get(&download).await.expect(416);
    let known = root.clone().header("If-None-Match", ready.header("ETag"));
    known.get(&download).await.expect(304);
}

async fn the_archive_holds_what_belongs_to_the_groups_and_nothing_else(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"description": "The top"})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    let at = format!("/groups/{low}");
    root.post(&format!("{at}/labels"), json!({"name": "bug", "color": "#ff0000", "description": "Wrong"}))
        .await
        .expect(201);
    root.post(&format!("{at}/variables"), json!({"key": "SECRET", "value": "hushhush"})).await.expect(201);
    let board = root.post(&format!("{at}/boards"), json!({"name": "Plan"})).await.expect(201).json();
    let labels = root.get(&format!("{at}/labels")).await.expect(200).json();
    let list = json!({"label_id": labels[0]["id"]});
    root.post(&format!("{at}/boards/{}/lists", board["id"]), list).await.expect(201);
    let archive = export(&server, &root, top).await;
    let files = files(&archive);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "VERSION".to_owned(),
            format!("tree/groups/{top}.json"),
            format!("tree/groups/{top}/members.ndjson"),
            format!("tree/groups/{low}.json"),
            format!("tree/groups/{low}/boards.ndjson"),
            format!("tree/groups/{low}/labels.ndjson"),
            format!("tree/groups/{low}/members.ndjson"),
            "tree/groups/_all.ndjson".to_owned(),
        ]
    );
    assert_eq!(files["tree/groups/_all.ndjson"], format!("{top}\n{low}\n"));
    let attributes = &records(&files, &format!("tree/groups/{top}.json"))[0];
    assert_eq!((&attributes["path"], &attributes["description"]), (&json!("top"), &json!("The top")));
    assert_eq!(
        records(&files, &format!("tree/groups/{low}/labels.ndjson")),
        [json!({"title": "bug", "color": "#ff0000", "description": "Wrong", "type": "GroupLabel"}),]
    );
    let boards = records(&files, &format!("tree/groups/{low}/boards.ndjson"));
    assert_eq!(boards[0]["lists"][0]["label"]["title"], "bug");
    let all: String = files.into_values().collect();
    for secret in ["hushhush", "SECRET", "runners_token", "created_at"] {
        assert!(!all.contains(secret), "{secret}");
    }
}

async fn a_new_archive_takes_the_place_of_the_one_before(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    export(&server, &root, top).await;
    let first = kept(&server).await;
    root.put(&format!("/groups/{top}"), json!({"description": "Later"})).await.expect(200);
    let second = export(&server, &root, top).await;
    assert!(files(&second)[&format!("tree/groups/{top}.json")].contains("Later"));
    let now_kept = kept(&server).await;
    assert_eq!((first.len(), now_kept.len(), rows(&server).await), (1, 1, 1));
    assert_ne!(first, now_kept);
}

async fn archives_expire_and_are_swept(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    export(&server, &root, top).await;
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    expire(&server).await;
    let answer = root.get(&format!("/groups/{top}/export/download")).await.expect(404);
    assert_eq!(answer.message(), "404 Not found or has expired");
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 1);
    assert_eq!((kept(&server).await.len(), rows(&server).await), (0, 0));
}

async fn archives_go_with_their_groups(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    exported(&server, low).await;
    root.post(&format!("/groups/{low}/export"), json!({})).await.expect(202);
    root.delete(&format!("/groups/{top}")).await.expect(202);
    root.get(&format!("/groups/{low}/export/download")).await.expect(404);
    server.finish_jobs().await;
    assert_eq!((kept(&server).await.len(), rows(&server).await), (0, 0));
}

async fn a_writer_that_is_killed_again_and_again_leaves_nothing_that_is_not_swept(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let job = ExportGroup { group_id: top, user_id: 1 };
    let mut attempt = std::time::Duration::from_micros(50);
    while tokio::time::timeout(attempt, exports::run(&server.backend, &job)).await.is_err() {
        attempt = attempt * 3 / 2;
    }
    root.get(&format!("/groups/{top}/export/download")).await.expect(200);
    expire(&server).await;
    sweep(&server.backend).await.expect("a sweep");
    assert_eq!((kept(&server).await.len(), rows(&server).await), (0, 0));
}

async fn addresses_for_mail_are_told_to_administrators_and_what_is_public_to_all(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let (ada, eve) = (server.person("ada").await, server.person("eve").await);
    join(&root, &format!("/groups/{top}"), ada.id, 50).await;
    join(&root, &format!("/groups/{top}"), eve.id, 20).await;
    root.put(&format!("/users/{}", eve.id), json!({"public_email": "eve@example.com"})).await.expect(200);
    for (client, expected) in [
        (&ada.client, [json!([null, null]), json!(["ada@example.com", null]), json!([null, "eve@example.com"])]),
        (
            &root,
            [
                json!(["admin@example.com", null]),
                json!(["ada@example.com", null]),
                json!(["eve@example.com", "eve@example.com"]),
            ],
        ),
    ] {
        let files = files(&export(&server, client, top).await);
        let members = records(&files, &format!("tree/groups/{top}/members.ndjson"));
        let told = members.iter().map(|member| json!([member["user"]["email"], member["user"]["public_email"]]));
        let mut told: Vec<_> = told.collect();
        if told[0][0].is_string() {
            // Whatever the first administrator's is.
            told[0][0] = json!("admin@example.com");
        }
        assert_eq!(told, expected);
    }
}

async fn an_archive_is_that_of_who_asked_for_it_and_of_administrators(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let (ada, eve) = (server.person("ada").await, server.person("eve").await);
    join(&root, &format!("/groups/{top}"), ada.id, 50).await;
    join(&root, &format!("/groups/{top}"), eve.id, 50).await;
    let path = format!("/groups/{top}/export");
    let download = format!("{path}/download");
    // All addresses are told in that of the administrator.
    let told = export(&server, &root, top).await;
    ada.client.get(&download).await.expect(404);
    let hers = export(&server, &ada.client, top).await;
    eve.client.get(&download).await.expect(404);
    let addresses = |archive: &[u8]| -> Vec<_> {
        let members = records(&files(archive), &format!("tree/groups/{top}/members.ndjson"));
        members.iter().filter_map(|member| member["user"]["email"].as_str().map(str::to_owned)).collect()
    };
    assert!(addresses(&told).contains(&"eve@example.com".to_owned()));
    assert_eq!(addresses(&hers), ["ada@example.com"]);
    // One that somebody else asks for later takes the place of none of theirs, and an administrator gets the newest.
    assert_eq!(root.get(&download).await.expect(200).body, hers);
    export(&server, &root, top).await;
    assert_eq!(ada.client.get(&download).await.expect(200).body, hers);
    assert_eq!((kept(&server).await.len(), rows(&server).await), (2, 2));
    // Who asks while the job of another waits takes nothing from them either.
    for client in [&eve.client, &root] {
        client.post(&path, json!({})).await.expect(202);
    }
    server.finish_jobs().await;
    let theirs = eve.client.get(&download).await.expect(200).body;
    assert_eq!(addresses(&theirs), ["eve@example.com"]);
}

async fn what_no_import_would_read_is_not_exported(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    let labels: Vec<_> = (0..25_000)
        .map(|n| labels::ActiveModel {
            namespace_id: Set(Some(low)),
            title: Set(n.to_string()),
            title_key: Set(n.to_string()),
            color: Set("#ff0000".to_owned()),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        })
        .collect();
    for some in labels.chunks(1_000) {
        labels::Entity::insert_many(some.to_vec())
            .exec_without_returning(server.backend.database.write())
            .await
            .expect("rows");
    }
    // With its member it has one more.
    let path = format!("/groups/{top}/export");
    let message = root.post(&path, json!({})).await.expect(400).message();
    assert_eq!(message, "The group exceeds the import limit of 25000 records in one group");
    // What came after the request was admitted is found by the job.
    let job = ExportGroup { group_id: top, user_id: 1 };
    let refused = exports::run(&server.backend, &job).await.expect_err("a refusal");
    assert_eq!(refused.to_string(), message);
    assert_eq!((kept(&server).await.len(), rows(&server).await), (0, 0));
    labels::Entity::delete_many()
        .filter(labels::Column::Title.eq("0"))
        .exec(server.backend.database.write())
        .await
        .expect("a removal");
    root.post(&path, json!({})).await.expect(202);
}

async fn only_owners_export_and_download(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let path = format!("/groups/{top}/export");
    for (level, person) in server.cast(&root, top).await {
        let owner = level == 50;
        assert_eq!(person.client.post(&path, json!({})).await.status, if owner { 202 } else { 403 }, "{level}");
        server.finish_jobs().await;
        let answer = person.client.get(&format!("{path}/download")).await;
        assert_eq!(answer.status, if owner { 200 } else { 403 }, "{level}");
    }
}

async fn who_asks_too_often_waits(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let path = format!("/groups/{top}/export");
    for _ in 0..6 {
        root.post(&path, json!({})).await.expect(202);
    }
    let answer = root.post(&path, json!({})).await.expect(429);
    assert_eq!(answer.json()["message"]["error"], "This endpoint has been requested too many times. Try again later.");
    assert!(answer.header("Retry-After").parse::<u64>().is_ok());
    // Waiting for an archive costs nothing.
    for _ in 0..20 {
        root.get(&format!("{path}/download")).await.expect(404);
    }
    server.finish_jobs().await;
    for _ in 0..12 {
        root.get(&format!("{path}/download")).await.expect(200);
    }
    root.get(&format!("{path}/download")).await.expect(429);
}

on_every_database![
    an_archive_is_written_in_the_background_and_downloaded,
    the_archive_holds_what_belongs_to_the_groups_and_nothing_else,
    a_new_archive_takes_the_place_of_the_one_before,
    archives_expire_and_are_swept,
    archives_go_with_their_groups,
    a_writer_that_is_killed_again_and_again_leaves_nothing_that_is_not_swept,
    addresses_for_mail_are_told_to_administrators_and_what_is_public_to_all,
    an_archive_is_that_of_who_asked_for_it_and_of_administrators,
    what_no_import_would_read_is_not_exported,
    only_owners_export_and_download,
    who_asks_too_often_waits,
];
