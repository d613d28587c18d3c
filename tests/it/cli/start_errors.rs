//! Errors of the start name what was found, and what to do.

use sea_orm::ConnectionTrait;
use storage::database::{Database, DatabaseOptions};
use tokio::process::Command;

use crate::support::git::{self, Work};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::{Client, DatabaseKind};

async fn import_of_invalid_source_creates_no_project(site: Site) {
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    for (source, reason) in [(missing.as_path(), "No such file"), (folder.path(), "is not a Git repository")] {
        let source = source.to_str().unwrap();
        let output = site.fails(&["admin", "import-repo", "--project", "root/p", source]).await;
        assert!(output.contains(reason) && output.contains(source), "{output}");
    }
    let root = Client::new(&server.base, Some(TOKEN));
    root.get("/projects/root%2Fp").await.expect(404);
    site.import("p", &work.path).await;
    root.get("/projects/root%2Fp").await.expect(200);
    server.stop().await;
}

async fn first_start_refuses_token_that_can_be_guessed(site: Site) {
    for (token, reason) in [
        ("short", "root_token is too short (minimum is 20 characters)"),
        ("twenty characters and spaces", "root_token can contain only ASCII characters without spaces"),
    ] {
        let output = site.fails(&["serve", "--listen", "127.0.0.1:0", "--root-token", token]).await;
        assert!(output.contains(reason), "{output}");
    }
    // A refused start creates no user, so that the next one is still the first.
    let server = site.serve(&[]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    assert_eq!(root.get("/user").await.expect(200).json()["username"], "root");
    server.stop().await;
}

async fn newer_schema_is_named(site: Site) {
    site.serve(&[]).await.stop().await;
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.unwrap();
    let insert = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m30001231_000001_newer', 0)";
    database.write().execute_unprepared(insert).await.unwrap();
    database.close().await.unwrap();
    for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["doctor"]] {
        let output = site.fails(command).await;
        assert!(output.contains("migrated by a newer version of Holdfast (m30001231_000001_newer"), "{output}");
    }
}

async fn unreachable_postgresql_is_explained() {
    let site = Site::new(&DatabaseKind::postgresql()).await;
    let DatabaseKind::Postgresql(url) = &site.kind else { panic!("another database") };
    let mut url = url::Url::parse(url).unwrap();
    let attempt = async |url: &url::Url| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--database-url", url.as_str(), "--data-dir"]);
        let output = command.arg(&site.data).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        git::output_text(&output)
    };
    url.set_path("/missing_database");
    let output = attempt(&url).await;
    assert!(output.contains("the database \"missing_database\" does not exist; create it with: createdb"), "{output}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(closed.port())).unwrap();
    let _ = url.set_password(Some("secret-word"));
    let output = attempt(&url).await;
    let expected = format!("cannot connect to PostgreSQL at {closed}: the connection was refused");
    assert!(output.contains(&expected) && !output.contains("secret-word"), "{output}");
    site.remove().await;
}

async fn settings_file_may_be_empty_or_explains_its_fault(site: Site) {
    site.serve(&["--config", "/dev/null"]).await.stop().await;
    let path = site.sibling_path("other.toml");
    std::fs::write(&path, "log_json = true\ntrusted_proxies = \"10.0.0.0/8\"\n").unwrap();
    let output = site.fails(&["doctor", "--config", path.to_str().unwrap()]).await;
    assert!(output.contains("other.toml: line 2: trusted_proxies is a text, but must be a list"), "{output}");
    assert!(output.contains("write trusted_proxies = [\"10.0.0.0/8\"]"), "{output}");
}

on_every_site![
    import_of_invalid_source_creates_no_project,
    first_start_refuses_token_that_can_be_guessed,
    newer_schema_is_named,
    settings_file_may_be_empty_or_explains_its_fault,
];
harness::tests![requires harness::postgresql::missing; unreachable_postgresql_is_explained];
