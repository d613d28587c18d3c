//! Exporting groups.

use domain::transfers::jobs::export_group::ExportGroup;
use domain::transfers::{exports, sweep};
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use serde_json::json;
use storage::entities::{group_exports, labels, now};

use super::{export, files, records, run_export, stored_archives};
use crate::support::spaces::{group, join};
use crate::support::{TestServer, on_every_database};

/// Lets all archives expire.
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

async fn export_is_written_by_job_and_downloadable(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    let path = format!("/groups/{low}/export");
    let download = format!("{path}/download");
    let early = root.get(&download).await.expect(404);
    let text = "404 Not found or has expired";
    assert_eq!(early.json(), json!({"message": text, "error": text}));
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
    // An interrupted download can be resumed.
    let rest = root.clone().header("Range", "bytes=5-").get(&download).await.expect(206);
    assert_eq!(rest.body, ready.body[5..]);
    root.clone().header("Range", "bytes=99999999-").get(&download).await.expect(416);
    let known = root.clone().header("If-None-Match", ready.header("ETag"));
    known.get(&download).await.expect(304);
}

async fn export_contains_group_data_without_secrets(server: TestServer) {
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

/// The description of a label can be long, and many boards and epics can have the same label.
async fn export_does_not_read_descriptions_of_linked_labels(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let at = format!("/groups/{top}");
    let mut labels = Vec::new();
    for (title, color) in [("bug", "#ff0000"), ("all", "#00ff00")] {
        let label = json!({"name": title, "color": color, "description": "x".repeat(60_000)});
        labels.push(root.post(&format!("{at}/labels"), label).await.expect(201).json());
    }
    let board = root.post(&format!("{at}/boards"), json!({"name": "Plan"})).await.expect(201).json();
    let board = format!("{at}/boards/{}", board["id"]);
    root.put(&board, json!({"labels": "bug,all"})).await.expect(200);
    root.post(&format!("{board}/lists"), json!({"label_id": labels[0]["id"]})).await.expect(201);
    for title in ["one", "two"] {
        root.post(&format!("{at}/epics"), json!({"title": title, "labels": "bug,all"})).await.expect(201);
    }
    let before = server.statements();
    let archive = export(&server, &root, top).await;
    let texts = server.statement_texts(before);
    for table in ["board_labels", "board_lists", "epic_labels"] {
        let source = format!("FROM \"{table}\"");
        let of_table: Vec<&String> = texts.iter().filter(|text| text.contains(&source)).collect();
        assert!(of_table.iter().any(|text| text.contains("\"labels\".\"title\"")), "{of_table:?}");
        assert!(of_table.iter().all(|text| !text.contains("\"labels\".\"description\"")), "{of_table:?}");
    }
    let files = files(&archive);
    let both = json!([{"title": "all", "color": "#00ff00"}, {"title": "bug", "color": "#ff0000"}]);
    let boards = records(&files, &format!("tree/groups/{top}/boards.ndjson"));
    assert_eq!((&boards[0]["labels"], &boards[0]["lists"][0]["label"]), (&both, &both[1]));
    let epics = records(&files, &format!("tree/groups/{top}/epics.ndjson"));
    assert_eq!((epics.len(), &epics[0]["labels"], &epics[1]["labels"]), (2, &both, &both));
}

async fn new_export_replaces_previous_one(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    export(&server, &root, top).await;
    let first = stored_archives(&server).await;
    root.put(&format!("/groups/{top}"), json!({"description": "Later"})).await.expect(200);
    let second = export(&server, &root, top).await;
    assert!(files(&second)[&format!("tree/groups/{top}.json")].contains("Later"));
    let now_kept = stored_archives(&server).await;
    assert_eq!((first.len(), now_kept.len(), rows(&server).await), (1, 1, 1));
    assert_ne!(first, now_kept);
}

async fn expired_exports_are_deleted_by_sweep(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    export(&server, &root, top).await;
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    expire(&server).await;
    let response = root.get(&format!("/groups/{top}/export/download")).await.expect(404);
    assert_eq!(response.message(), "404 Not found or has expired");
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 1);
    assert_eq!((stored_archives(&server).await.len(), rows(&server).await), (0, 0));
}

async fn sweep_reports_export_that_cannot_be_deleted(server: TestServer) {
    let root = server.root();
    for name in ["first", "second"] {
        run_export(&server, group(&root, name, json!({})).await).await;
    }
    expire(&server).await;
    let stuck =
        group_exports::Entity::find().order_by_asc(group_exports::Column::Id).one(server.backend.database.read());
    let stuck = stuck.await.expect("a query").expect("a row");
    let object = server.data().join(format!("objects/group_exports/{}", stuck.secret));
    std::fs::remove_file(&object).expect("an object");
    std::fs::create_dir(&object).expect("a directory");
    sweep(&server.backend).await.expect_err("an archive that cannot be deleted");
    assert_eq!(rows(&server).await, 1);
    std::fs::remove_dir(&object).expect("a removal");
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 1);
    assert_eq!(rows(&server).await, 0);
}

async fn deleting_group_deletes_exports(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({"parent_id": top})).await;
    run_export(&server, low).await;
    root.post(&format!("/groups/{low}/export"), json!({})).await.expect(202);
    root.delete(&format!("/groups/{top}")).await.expect(202);
    root.get(&format!("/groups/{low}/export/download")).await.expect(404);
    server.finish_jobs().await;
    assert_eq!((stored_archives(&server).await.len(), rows(&server).await), (0, 0));
}

async fn killed_export_job_leaves_no_files_after_sweep(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let job = ExportGroup { group_id: top, user_id: 1 };
    let mut attempt = std::time::Duration::from_micros(50);
    loop {
        match tokio::time::timeout(attempt, exports::run(&server.backend, &job)).await {
            Ok(finished) => break finished.expect("an export"),
            Err(_) => attempt = attempt * 3 / 2,
        }
    }
    root.get(&format!("/groups/{top}/export/download")).await.expect(200);
    // PostgreSQL may end a statement of a killed attempt later.
    let swept = async {
        loop {
            expire(&server).await;
            sweep(&server.backend).await.expect("a sweep");
            if (stored_archives(&server).await.len(), rows(&server).await) == (0, 0) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), swept).await.expect("no files and rows");
}

async fn export_contains_private_emails_only_for_administrators(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
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
        let emails = members.iter().map(|member| json!([member["user"]["email"], member["user"]["public_email"]]));
        let mut emails: Vec<_> = emails.collect();
        if emails[0][0].is_string() {
            // Normalizes the address of the first administrator.
            emails[0][0] = json!("admin@example.com");
        }
        assert_eq!(emails, expected);
    }
}

async fn download_export_returns_own_archive_or_newest_to_administrators(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
    join(&root, &format!("/groups/{top}"), ada.id, 50).await;
    join(&root, &format!("/groups/{top}"), eve.id, 50).await;
    let path = format!("/groups/{top}/export");
    let download = format!("{path}/download");
    // The archive of the administrator contains all addresses.
    let by_root = export(&server, &root, top).await;
    ada.client.get(&download).await.expect(404);
    let ada_archive = export(&server, &ada.client, top).await;
    eve.client.get(&download).await.expect(404);
    let addresses = |archive: &[u8]| -> Vec<_> {
        let members = records(&files(archive), &format!("tree/groups/{top}/members.ndjson"));
        members.iter().filter_map(|member| member["user"]["email"].as_str().map(str::to_owned)).collect()
    };
    assert!(addresses(&by_root).contains(&"eve@example.com".to_owned()));
    assert_eq!(addresses(&ada_archive), ["ada@example.com"]);
    // A later export of another user does not replace it. An administrator gets the newest one.
    assert_eq!(root.get(&download).await.expect(200).body, ada_archive);
    export(&server, &root, top).await;
    assert_eq!(ada.client.get(&download).await.expect(200).body, ada_archive);
    assert_eq!((stored_archives(&server).await.len(), rows(&server).await), (2, 2));
    // A request while another user's job waits does not replace that job.
    for client in [&eve.client, &root] {
        client.post(&path, json!({})).await.expect(202);
    }
    server.finish_jobs().await;
    let eve_archive = eve.client.get(&download).await.expect(200).body;
    assert_eq!(addresses(&eve_archive), ["eve@example.com"]);
}

async fn export_rejects_group_above_import_limits(server: TestServer) {
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
    // Together with the member, the group exceeds the limit.
    let path = format!("/groups/{top}/export");
    let message = root.post(&path, json!({})).await.expect(400).message();
    assert_eq!(message, "The group exceeds the import limit of 25000 records in one group");
    // The job checks the limit again.
    let job = ExportGroup { group_id: top, user_id: 1 };
    let rejected = exports::run(&server.backend, &job).await.expect_err("a refusal");
    assert_eq!(rejected.to_string(), message);
    assert_eq!((stored_archives(&server).await.len(), rows(&server).await), (0, 0));
    labels::Entity::delete_many()
        .filter(labels::Column::Title.eq("0"))
        .exec(server.backend.database.write())
        .await
        .expect("a removal");
    root.post(&path, json!({})).await.expect(202);
}

async fn export_requires_owner(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let path = format!("/groups/{top}/export");
    for (level, user) in server.create_member_per_role(&root, top).await {
        let owner = level == 50;
        assert_eq!(user.client.post(&path, json!({})).await.status, if owner { 202 } else { 403 }, "{level}");
        server.finish_jobs().await;
        let response = user.client.get(&format!("{path}/download")).await;
        assert_eq!(response.status, if owner { 200 } else { 403 }, "{level}");
    }
}

async fn export_rate_limit_returns_429(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let path = format!("/groups/{top}/export");
    for _ in 0..6 {
        root.post(&path, json!({})).await.expect(202);
    }
    let response = root.post(&path, json!({})).await.expect(429);
    assert_eq!(
        response.json()["message"]["error"],
        "This endpoint has been requested too many times. Try again later."
    );
    assert!(response.header("Retry-After").parse::<u64>().is_ok());
    // Requests before the archive is ready do not count.
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
    export_is_written_by_job_and_downloadable,
    export_contains_group_data_without_secrets,
    export_does_not_read_descriptions_of_linked_labels,
    new_export_replaces_previous_one,
    expired_exports_are_deleted_by_sweep,
    sweep_reports_export_that_cannot_be_deleted,
    deleting_group_deletes_exports,
    killed_export_job_leaves_no_files_after_sweep,
    export_contains_private_emails_only_for_administrators,
    download_export_returns_own_archive_or_newest_to_administrators,
    export_rejects_group_above_import_limits,
    export_requires_owner,
    export_rate_limit_returns_429,
];
