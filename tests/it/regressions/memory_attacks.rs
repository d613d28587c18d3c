//! Memory of the server under requests that try to exhaust it.

use futures_util::future::join_all;
use reqwest::Method;
use sea_orm::{ActiveValue::Set, DatabaseTransaction, DbErr, EntityTrait, QuerySelect};
use serde_json::json;
use storage::database::{Database, DatabaseOptions};
use storage::entities::packages::{self, PackageStatus, PackageType};
use storage::entities::{now, package_metadata};
use tokio::io::AsyncReadExt;

use crate::support::attacks::Attack;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::raw_http::RawConnection;
use crate::support::{Client, DatabaseKind, spaces};

/// Size of an attacking body in bytes.
const ATTACK_BYTES: usize = 57 << 20;
/// Length of the start of a status line that contains the status.
const STATUS_BYTES: usize = 12;

async fn dense_json_uses_bounded_memory() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let own = spaces::project(&client, "own", json!({})).await.to_string();
    let body = bytes::Bytes::from(format!(r#"{{"actions": [{}{{}}]}}"#, r#"{"":0},"#.repeat(ATTACK_BYTES / 7)));
    let attack = async |project: &str| {
        let path = format!("/projects/{project}/repository/commits");
        let request = client.request(Method::POST, &path).header("Content-Type", "application/json");
        // The server may close the connection before it has read the body.
        request.body(body.clone()).send().await.map_or(404, |response| response.status().as_u16())
    };
    let mut measured = Attack::start("dense JSON", &server);
    let strange = measured.probed(join_all((0..8).map(|_| attack("0")))).await;
    assert!(strange.iter().all(|status| *status == 404), "{strange:?}");
    let statuses = measured.probed(join_all((0..8).map(|_| attack(&own)))).await;
    assert!(statuses.iter().all(|status| matches!(status, 400 | 503)), "{statuses:?}");
    client.get("/version").await.expect(200);
    measured.check();
    server.stop().await;
}

async fn unread_files_in_json_use_bounded_memory() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    // Otherwise one file is stored as a delta of the other.
    work.git(&["config", "core.bigFileThreshold", "1m"]).await;
    // Files up to 20 MiB are sent in JSON.
    for (name, megabytes) in [("large", 32), ("allowed", 19)] {
        std::fs::write(work.path.join(name), vec![b'x'; megabytes << 20]).expect("a file");
    }
    work.git(&["add", "."]).await;
    work.git(&["commit", "--quiet", "-m", "Add"]).await;
    site.import("p", &work.path).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.put("/projects/root%2Fp", json!({"visibility": "public"})).await.expect(200);
    let mut attack = Attack::start("unread files in JSON", &server);
    let mut unread = Vec::new();
    for name in ["large", "allowed"] {
        let path = format!("/api/v4/projects/root%2Fp/repository/files/{name}?ref=main");
        let connections = join_all((0..40).map(|_| async {
            let mut connection = RawConnection::connect(&server.base).await;
            connection.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
            let mut start = [0; STATUS_BYTES];
            connection.stream.read_exact(&mut start).await.expect("a status line");
            (connection, String::from_utf8_lossy(&start[9..]).into_owned())
        }));
        unread.extend(attack.probed(connections).await);
    }
    let count = |status: &str| unread.iter().filter(|(_, found)| found == status).count();
    assert_eq!(count("413"), 40);
    assert!(count("200") > 0 && count("503") > 0, "{} {}", count("200"), count("503"));
    client.get("/version").await.expect(200);
    attack.check();
    server.stop().await;
}

/// Adds an npm package with a thousand versions of the maximum size, whose manifests contain as many values as
/// possible.
async fn add_dense_npm_package(site: &Site, project_id: i64) {
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database");
    let at = now();
    let entries: Vec<String> = (0..2_200).map(|number| format!(r#""{number:03x}":"""#)).collect();
    let manifest = format!(r#"{{"dependencies":{{{}}}}}"#, entries.join(","));
    let content = format!(r#"{{"shasum":"0","integrity":"sha512-0","manifest":{manifest}}}"#);
    let versions = (0..1_000).map(|number| packages::ActiveModel {
        project_id: Set(project_id),
        package_type: Set(PackageType::Npm),
        name: Set("dense".to_owned()),
        name_key: Set("dense".to_owned()),
        lookup_name: Set("dense".to_owned()),
        version: Set(format!("1.0.{number}")),
        status: Set(PackageStatus::Default),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    });
    let insert = async |transaction: &DatabaseTransaction| {
        packages::Entity::insert_many(versions).exec_without_returning(transaction).await?;
        let ids: Vec<i64> = packages::of_project(project_id)
            .select_only()
            .column(packages::Column::Id)
            .into_tuple()
            .all(transaction)
            .await?;
        for ids in ids.chunks(100) {
            let documents = ids.iter().map(|id| package_metadata::ActiveModel {
                package_id: Set(*id),
                content: Set(content.clone()),
                ..Default::default()
            });
            package_metadata::Entity::insert_many(documents).exec_without_returning(transaction).await?;
        }
        Ok::<_, DbErr>(())
    };
    // One transaction, because each transaction waits for the disk.
    database.transaction(insert).await.expect("versions");
    database.close().await.expect("closing");
}

async fn npm_metadata_uses_bounded_memory() {
    let site = Site::migrated(&DatabaseKind::Sqlite).await;
    let server = site.serve(&[]).await;
    let client = Client::new(&server.base, Some(TOKEN));
    let id = spaces::project(&client, "own", json!({"visibility": "public"})).await;
    server.stop().await;
    add_dense_npm_package(&site, id).await;
    let server = site.serve(&[]).await;
    let mut attack = Attack::start("npm metadata", &server);
    let request = async {
        let mut connection = RawConnection::connect(&server.base).await;
        let path = format!("/api/v4/projects/{id}/packages/npm/dense");
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        let mut start = [0; STATUS_BYTES];
        connection.stream.read_exact(&mut start).await.expect("a status line");
        String::from_utf8_lossy(&start[9..]).into_owned()
    };
    // The texts fit into the memory for bodies, but their values take twenty times as much.
    assert_eq!(attack.probed(request).await, "200");
    attack.check();
    server.stop().await;
}

harness::tests![
    dense_json_uses_bounded_memory,
    unread_files_in_json_use_bounded_memory,
    npm_metadata_uses_bounded_memory,
];
