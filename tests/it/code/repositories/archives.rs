//! Archives, verified with the programs that unpack them.

use std::io::Write;
use std::process::{Command, Stdio};

use storage::entities::Visibility;

use crate::support::code::Project;
use crate::support::{ApiResponse, TestServer, on_every_database};

/// Returns the sorted paths in a tar archive.
fn tar_paths(bytes: &[u8], flags: &str) -> Vec<String> {
    let mut child = Command::new("tar").arg(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("tar");
    child.stdin.take().expect("stdin").write_all(bytes).expect("all of the archive");
    let output = child.wait_with_output().expect("output");
    assert!(output.status.success(), "tar rejects the archive");
    let mut paths: Vec<String> = String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect();
    paths.sort();
    paths
}

/// Checks the headers that all archives share.
fn check_headers(answer: &ApiResponse, name: &str) {
    assert_eq!(answer.header("Content-Type"), "application/octet-stream");
    let disposition = answer.header("Content-Disposition");
    assert!(disposition.starts_with(&format!("attachment; filename=\"{name}\"")), "{disposition}");
}

async fn get_archive_returns_files_of_default_branch(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let id = project.id("main");
    let answer = server.anonymous().get(&project.url("/archive")).await.expect(200);
    check_headers(&answer, &format!("engine-main-{id}.tar.gz"));
    let paths = tar_paths(&answer.body, "-tz");
    let root = format!("engine-main-{id}/");
    assert_eq!(paths[0], root);
    assert!(paths.contains(&format!("{root}docs/deep/note.txt")), "{paths:?}");
    assert!(paths.iter().all(|path| path.starts_with(&root)), "{paths:?}");
}

async fn get_archive_supports_any_ref_and_format(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    project.git(&["tag", "-a", "-m", "One", "v1.0", "feature/x"]);
    let id = project.id("feature/x");
    for (path, name) in [
        ("/archive?format=tar&sha=feature%2Fx".to_owned(), format!("engine-feature-x-{id}.tar")),
        ("/archive.tar?sha=v1.0".to_owned(), format!("engine-v1.0-{id}.tar")),
        (format!("/archive.tar?sha={id}"), format!("engine-{id}.tar")),
    ] {
        let answer = server.anonymous().get(&project.url(&path)).await.expect(200);
        check_headers(&answer, &name);
        let root = name.strip_suffix(".tar").expect("a tar archive");
        assert!(tar_paths(&answer.body, "-t").contains(&format!("{root}/x.txt")), "{path}");
    }
    let zipped = server.anonymous().get(&project.url("/archive.zip?sha=v1.0")).await.expect(200);
    check_headers(&zipped, &format!("engine-v1.0-{id}.zip"));
    assert!(zipped.body.starts_with(b"PK\x03\x04"));
    let packed = server.anonymous().get(&project.url("/archive.tar.gz?sha=v1.0")).await.expect(200);
    assert!(tar_paths(&packed.body, "-tz").contains(&format!("engine-v1.0-{id}/x.txt")));
    for format in ["tar.bz2", "tbz", "tbz2", "tb2", "bz2"] {
        for path in [format!("/archive.{format}?sha=v1.0"), format!("/archive?sha=v1.0&format={format}")] {
            let packed = server.anonymous().get(&project.url(&path)).await.expect(200);
            check_headers(&packed, &format!("engine-v1.0-{id}.tar.bz2"));
            assert!(packed.body.starts_with(b"BZh"), "{path}");
        }
    }
    server.anonymous().head(&project.url("/archive.zip")).await.expect(200);
}

async fn get_archive_rejects_unknown_format(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    for path in ["/archive?format=rar", "/archive.rar", "/archive.zip?sha=%00", "/archive?sha=%FF"] {
        server.anonymous().get(&project.url(path)).await.expect(400);
    }
}

async fn get_archive_of_unknown_ref_returns_404(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let empty = Project::empty(&server, "empty", Visibility::Public).await;
    let long = "x".repeat(300);
    for revision in ["none", "--output=x", "a..b", &long] {
        for path in ["/archive?sha=", "/archive.zip?sha="] {
            let answer = server.anonymous().get(&project.url(&format!("{path}{revision}"))).await.expect(404);
            assert_eq!(answer.message(), "404 File Not Found", "{revision}");
        }
    }
    for path in ["/archive", "/archive.tar"] {
        assert_eq!(server.anonymous().get(&empty.url(path)).await.expect(404).message(), "404 File Not Found");
    }
}

on_every_database![
    get_archive_returns_files_of_default_branch,
    get_archive_supports_any_ref_and_format,
    get_archive_rejects_unknown_format,
    get_archive_of_unknown_ref_returns_404,
];
