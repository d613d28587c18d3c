//! Complete moves.

use std::os::unix::fs::PermissionsExt;

use sea_orm::DatabaseBackend;
use serde_json::{Value, json};

use super::{arguments, contents, counts, fill, in_both_directions, open, texts};
use crate::cli::key_rotation::secrets::{Instance, plain, values};
use crate::support::git::{self, Work};
use crate::support::process::{Process, Site, TOKEN};
use crate::support::{Client, DatabaseKind};

/// A group, a project and an issue of the demo.
const LIGHTHOUSE: &str = "/projects/harbor%2Flighthouse";

/// Returns what clients read from an instance.
async fn responses(server: &Process, ada: &str) -> Vec<Value> {
    let root = Client::new(&server.base, Some(TOKEN));
    let mut responses = Vec::new();
    for path in [
        "/version",
        "/users",
        "/projects?order_by=id",
        "/projects?search=light&order_by=name&sort=asc",
        "/groups",
        "/issues?scope=all",
        &format!("{LIGHTHOUSE}/issues?search=lamp"),
        &format!("{LIGHTHOUSE}/issues?labels=bug&order_by=updated_at"),
        &format!("{LIGHTHOUSE}/merge_requests?state=all"),
        &format!("{LIGHTHOUSE}/merge_requests?search=horn"),
        &format!("{LIGHTHOUSE}/repository/commits"),
        "/projects/root%2Fp/variables",
        "/projects/root%2Fp/triggers",
        "/projects/root%2Fp/hooks",
        "/audit_events",
        "/events",
    ] {
        responses.push(root.get(path).await.expect(200).json());
    }
    responses.push(Client::new(&server.base, Some(ada)).get("/user").await.expect(200).json());
    // The address differs after each start, and reading a user changes the time of the last activity.
    let text = serde_json::to_string(&responses).expect("JSON").replace(&server.base, "BASE");
    let mut responses: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    responses.iter_mut().for_each(remove_times_of_use);
    responses
}

fn remove_times_of_use(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, _| !matches!(name.as_str(), "last_used_at" | "last_activity_on"));
            object.values_mut().for_each(remove_times_of_use);
        }
        Value::Array(array) => array.iter_mut().for_each(remove_times_of_use),
        _ => {}
    }
}

/// Creates an instance with the demo, all kinds of secrets, and a deleted row with the last ID of a table.
async fn create(site: &Site) -> (Instance, Work) {
    fill(site).await;
    let instance = Instance::create(site.clone()).await;
    let work = Work::new().await;
    let root = instance.root();
    for title in ["kept", "deleted"] {
        root.post("/projects/root%2Fp/labels", json!({ "name": title, "color": "#112233" })).await.expect(201);
    }
    root.delete("/projects/root%2Fp/labels/deleted").await.expect(204);
    (instance, work)
}

async fn moved_instance_has_all_data_and_works(from: Site, to: Site) {
    let (instance, work) = create(&from).await;
    let before = responses(&instance.server, &instance.ada).await;
    let secrets = instance.values().await;
    let ada = instance.ada.clone();
    instance.stop().await;
    let (identity, rows) = (std::fs::read_to_string(from.data.join("instance.json")).unwrap(), counts(&from).await);
    let url = to.database_url();
    let mut command = from.command(&["admin", "migrate-database", "--json"]);
    let output = command.env("HOLDFAST_TARGET_DATABASE_URL", &url).output().await.unwrap();
    let printed = git::output_text(&output);
    assert!(output.status.success(), "{printed}");
    // The report lists each table, and standard error has a line for each.
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tables = report["tables"].as_array().unwrap();
    for (table, count) in &rows {
        let listed = tables.iter().find(|listed| listed["name"] == table.as_str()).unwrap();
        assert_eq!(listed["rows"].to_string(), *count, "{table}");
        assert_eq!(listed["checksum"].as_str().unwrap().len(), 64);
        assert!(printed.contains(&format!("Copied {table}: {count} rows (")), "{printed}");
        assert!(printed.contains(&format!("Verified {table}: {count} rows (")), "{printed}");
    }
    assert_eq!((tables.len(), counts(&to).await), (rows.len(), rows));
    assert!(printed.contains("(100%)"), "{printed}");
    // Only the kind of the database changes in the identity.
    let moved: Value =
        serde_json::from_str(&std::fs::read_to_string(from.data.join("instance.json")).unwrap()).unwrap();
    let identity: Value = serde_json::from_str(&identity).unwrap();
    assert_eq!((&moved["instance_id"], &report["instance_id"]), (&identity["instance_id"], &identity["instance_id"]));
    assert_eq!((&moved["database"], &report["from"]), (&report["to"], &identity["database"]));

    to.succeeds(&["doctor"]).await;
    let database = open(&to).await;
    assert_eq!(plain(&values(&to, &database).await), plain(&secrets));
    assert!(!database.has_table("database_copy").await.unwrap());
    database.close().await.unwrap();
    let server = to.serve(&[]).await;
    assert_eq!(responses(&server, &ada).await, before);
    let clone = work.below("clone");
    let address = git::address(&server.base, "root", TOKEN, "harbor/lighthouse");
    work.git(&["clone", "--quiet", &address, clone.path.to_str().unwrap()]).await;
    clone.commit("after.txt", "move").await;
    clone.git(&["push", "--quiet", "origin", "HEAD:refs/heads/after"]).await;
    // New rows are indexed, and their IDs are not those of deleted rows.
    let root = Client::new(&server.base, Some(TOKEN));
    let labels = root.get("/projects/root%2Fp/labels").await.expect(200).json();
    let kept = labels[0]["id"].as_i64().unwrap();
    let label = root.post("/projects/root%2Fp/labels", json!({ "name": "new", "color": "#112233" })).await.expect(201);
    assert_eq!(label.json()["id"], kept + 2);
    root.post(&format!("{LIGHTHOUSE}/issues"), json!({ "title": "Zinnober" })).await.expect(201);
    let found = root.get(&format!("{LIGHTHOUSE}/issues?search=zinnob")).await.expect(200).json();
    assert_eq!(found.as_array().unwrap().len(), 1);
    let key = to.succeeds(&["admin", "rotate-key"]).await;
    assert!(key.contains("Encrypted "), "{key}");
    server.stop().await;
    to.succeeds(&["doctor"]).await;
}

async fn original_is_refused_after_move_and_target_is_named(from: Site, to: Site) {
    let (instance, _) = create(&from).await;
    instance.stop().await;
    let printed = from.succeeds(&arguments(&to.database_url())).await;
    assert!(printed.contains("TABLE") && printed.contains("Moved the instance "), "{printed}");
    // The data directory names the other kind.
    let printed = from.fails(&["doctor"]).await;
    assert!(printed.contains("belongs to an instance on") && printed.contains("migrate-database"), "{printed}");
    // The mark of the original refuses it, also if the file of the directory is removed.
    let file = from.data.join("instance.json");
    let identity = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["doctor"], &["admin", "create-token", "root"]] {
        let printed = from.fails(arguments).await;
        assert!(printed.contains("the instance was moved from this database to "), "{printed}");
        assert!(printed.contains("To go back, run `holdfast admin migrate-database`"), "{printed}");
    }
    std::fs::write(&file, identity).unwrap();
    // A second move from the original is refused, and so is a move back into it.
    let printed = from.fails(&arguments(&to.database_url())).await;
    assert!(printed.contains("belongs to an instance on"), "{printed}");
    let printed = to.fails(&arguments(&from.database_url())).await;
    assert!(printed.contains("the target database is the one from which an instance was moved"), "{printed}");
    to.serve(&[]).await.stop().await;
}

async fn round_trip_changes_no_row(from: Site, to: Site) {
    let (instance, _) = create(&from).await;
    instance.stop().await;
    let before = contents(&from).await;
    assert!(before.values().filter(|rows| !rows.is_empty()).count() > 40, "the sample has too few tables");
    from.succeeds(&arguments(&to.database_url())).await;
    assert_eq!(contents(&from).await, before, "the original has changed");
    let another = from.another().await;
    let back = match from.kind {
        DatabaseKind::Sqlite => {
            std::fs::rename(from.data.join("holdfast.db"), from.sibling_path("former.db")).unwrap();
            from.clone()
        }
        DatabaseKind::Postgresql(_) => from.on_database_of(&another),
    };
    to.succeeds(&arguments(&back.database_url())).await;
    assert_eq!(contents(&back).await, before);
    let database = open(&back).await;
    if database.backend() == DatabaseBackend::Sqlite {
        assert_eq!(texts(&database, "SELECT integrity_check FROM pragma_integrity_check").await, ["ok"]);
        assert_eq!(texts(&database, "SELECT \"table\" FROM pragma_foreign_key_check").await, Vec::<String>::new());
        let mode = std::fs::metadata(back.data.join("holdfast.db")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    database.close().await.unwrap();
    back.serve(&[]).await.stop().await;
    back.succeeds(&["doctor"]).await;
    another.remove().await;
}

in_both_directions![
    moved_instance_has_all_data_and_works,
    original_is_refused_after_move_and_target_is_named,
    round_trip_changes_no_row,
];
