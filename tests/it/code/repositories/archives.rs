//! Archives, verified with the programs that unpack them.

use std::io::Write;
use std::process::{Command, Stdio};

use storage::entities::Visibility;

use crate::support::code::{NewCommit, Project, file};
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

async fn get_archive_of_path_contains_only_files_below_it(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let id = project.id("main");
    let anonymous = server.anonymous();
    for (path, name, expected) in [
        ("docs", "docs", &["docs/", "docs/deep/", "docs/deep/note.txt", "docs/guide.md"][..]),
        ("/docs/deep/", "docs-deep", &["docs/", "docs/deep/", "docs/deep/note.txt"]),
        ("docs%2Fguide.md", "docs-guide.md", &["docs/", "docs/guide.md"]),
        ("run.sh", "run.sh", &["run.sh"]),
    ] {
        let root = format!("engine-main-{id}-{name}");
        for (address, flags, extension) in [("/archive?", "-tz", "tar.gz"), ("/archive.tar?sha=main&", "-t", "tar")] {
            let answer = anonymous.get(&project.url(&format!("{address}path={path}"))).await.expect(200);
            check_headers(&answer, &format!("{root}.{extension}"));
            let mut paths = vec![format!("{root}/")];
            paths.extend(expected.iter().map(|path| format!("{root}/{path}")));
            assert_eq!(tar_paths(&answer.body, flags), paths, "{address}{path}");
        }
    }
    let whole = anonymous.get(&project.url("/archive.tar")).await.expect(200);
    for path in ["", "/", "//"] {
        let answer = anonymous.get(&project.url(&format!("/archive.tar?path={path}"))).await.expect(200);
        check_headers(&answer, &format!("engine-main-{id}.tar"));
        assert!(answer.body == whole.body, "{path}");
    }
}

async fn get_archive_reads_path_literally(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let long = "d".repeat(101);
    let names = ["--output=x", ":(glob)a", "[a]b", "*.md", &long];
    let changes: String = names.iter().map(|name| file(&format!("odd/{name}/f"), "x")).collect();
    project.import(&NewCommit { branch: "odd", from: Some("refs/heads/main"), changes, ..NewCommit::default() });
    let commit = project.id("odd");
    let archive = async |path: &str| {
        let path = crate::support::client::segment(path);
        server.anonymous().get(&project.url(&format!("/archive.tar?sha=odd&path={path}"))).await
    };
    for name in names {
        let answer = archive(&format!("odd/{name}")).await.expect(200);
        // A long path is not part of the name of the directory.
        let suffix = if name.len() > 100 { String::new() } else { format!("-odd-{name}") };
        let root = format!("engine-odd-{commit}{suffix}");
        let paths =
            ["", "odd/", &format!("odd/{name}/"), &format!("odd/{name}/f")].map(|path| format!("{root}/{path}"));
        assert_eq!(tar_paths(&answer.body, "-t"), paths, "{name}");
    }
    for path in [
        "none",
        "docs/none",
        "docs/*",
        "d?cs",
        "*",
        ":/",
        ":!docs",
        ":(top)docs",
        ":(exclude)docs",
        "--help",
        "-l",
        ".",
        "..",
        "../docs",
        "docs/..",
        "./docs",
        "docs/../odd",
        "README.md/x",
        "DOCS",
        "docs\n",
        "-- docs",
        "HEAD:docs",
    ] {
        let message = archive(path).await.expect(404).message();
        assert_eq!(message, "404 File Not Found", "{path}");
    }
    for path in ["%00", "docs%00", "%FF"] {
        server.anonymous().get(&project.url(&format!("/archive?path={path}"))).await.expect(400);
    }
    archive(&"x".repeat(4097)).await.expect(400);
}

async fn get_archive_excludes_literal_paths(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let anonymous = server.anonymous();
    let files = async |query: &str| {
        let answer = anonymous.get(&project.url(&format!("/archive.tar?{query}"))).await.expect(200);
        let paths = tar_paths(&answer.body, "-t").into_iter();
        paths.filter_map(|path| Some(path.split_once('/')?.1.to_owned())).collect::<Vec<_>>()
    };
    let all = files("").await;
    let without = |excluded: &[&str]| {
        let is_below = |path: &String| {
            excluded
                .iter()
                .any(|one| path == one || path.trim_end_matches('/') == *one || path.starts_with(&format!("{one}/")))
        };
        all.iter().filter(|path| !is_below(path)).cloned().collect::<Vec<_>>()
    };
    for (query, excluded) in [
        ("exclude_paths=docs", &["docs"][..]),
        ("exclude_paths=/docs/deep/,run.sh", &["docs/deep", "run.sh"]),
        ("exclude_paths=docs%2Fguide.md", &["docs/guide.md"]),
        ("exclude_paths=", &[]),
        ("exclude_paths=none,doc,*,d%3Fcs,:(glob)**,:/,..,docs%2F..,--help,-l,DOCS", &[]),
    ] {
        assert_eq!(files(query).await, without(excluded), "{query}");
    }
    assert_eq!(files("path=docs&exclude_paths=docs/deep").await, ["", "docs/", "docs/guide.md"]);
    assert!(files("path=docs&exclude_paths=docs").await.iter().all(String::is_empty));
    // The other formats contain the same files.
    let url = project.url("/archive.tar.gz?exclude_paths=docs,run.sh");
    let names = tar_paths(&anonymous.get(&url).await.expect(200).body, "-tz");
    let names: Vec<_> = names.iter().filter_map(|path| Some(path.split_once('/')?.1)).collect();
    assert_eq!(names, without(&["docs", "run.sh"]));
    let bzip2 = anonymous.get(&project.url("/archive?format=bz2&exclude_paths=docs")).await.expect(200);
    assert!(bzip2.body.starts_with(b"BZh"));
    let zip = anonymous.get(&project.url("/archive.zip?exclude_paths=docs")).await.expect(200);
    let has = |name: &str| zip.body.windows(name.len()).any(|window| window == name.as_bytes());
    assert!(has("/run.sh") && !has("/docs/guide.md"));
}

async fn get_archive_without_any_file_is_valid(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    project.import(&NewCommit { branch: "single", changes: file("only/deep/f", "x"), ..NewCommit::default() });
    for excluded in ["only", "only/deep", "only/deep/f"] {
        let url = project.url(&format!("/archive.tar?sha=single&exclude_paths={excluded}"));
        let answer = server.anonymous().get(&url).await.expect(200);
        let paths = tar_paths(&answer.body, "-t");
        assert!(paths.iter().all(|path| !path.contains("only")), "{excluded}: {paths:?}");
    }
}

async fn get_archive_rejects_too_many_excluded_paths(server: TestServer) {
    let project = Project::with_commits(&server, "engine", Visibility::Public).await;
    let anonymous = server.anonymous();
    let url = |count: usize| project.url(&format!("/archive.tar?exclude_paths={}", vec!["x"; count].join(",")));
    anonymous.get(&url(100)).await.expect(200);
    let message = anonymous.get(&url(101)).await.expect(400).message();
    assert_eq!(message, "exclude_paths is invalid");
    for path in ["%00", "docs%00", "%FF", &"x".repeat(4097)] {
        anonymous.get(&project.url(&format!("/archive?exclude_paths={path}"))).await.expect(400);
    }
}

on_every_database![
    get_archive_excludes_literal_paths,
    get_archive_without_any_file_is_valid,
    get_archive_rejects_too_many_excluded_paths,
    get_archive_of_path_contains_only_files_below_it,
    get_archive_reads_path_literally,
    get_archive_returns_files_of_default_branch,
    get_archive_supports_any_ref_and_format,
    get_archive_rejects_unknown_format,
    get_archive_of_unknown_ref_returns_404,
];
