//! Projects that are imported from the URL of a repository.

use domain::mirrors::project_imports;
use domain::spaces::jobs::import_repository::ImportRepository;
use domain::spaces::projects::imports::start;
use git::RepositoryId;
use holdfast::config::ConfigOptions;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::projects::{self, ImportStatus};
use storage::entities::{AccessLevel, Visibility};
use storage::jobs::JobAttempt;

use crate::support::code::Project;
use crate::support::git::address;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, id, project};
use crate::support::webhook_receiver::{Receiver, Reply, unused_address};
use crate::support::{TestServer, on_every_database};

/// Returns the URL of a project of the server, with credentials.
fn url_of(source: &Project<'_>) -> String {
    address(&source.server.base, "root", ROOT_TOKEN, &source.path)
}

/// Returns the branches and tags of a project with their targets.
async fn refs(server: &TestServer, project: i64) -> Vec<(String, String)> {
    let repository = server.backend.repositories.repository(&RepositoryId::of_project(project));
    let found = repository.branches_and_tags().await.expect("refs");
    let mut found: Vec<(String, String)> = found.into_iter().map(|(name, id)| (name, id.to_string())).collect();
    found.sort();
    found
}

async fn row(server: &TestServer, project: i64) -> projects::Model {
    let found = projects::Entity::find_by_id(project).one(server.backend.database.read()).await;
    found.expect("a query").expect("the project")
}

/// Returns the decrypted URL of the import.
async fn stored_url(server: &TestServer, project: i64) -> String {
    let encrypted = row(server, project).await.import_url_encrypted.expect("a URL");
    let context = format!("projects.import_url:{project}");
    let url = server.backend.keyring.decrypt(&encrypted, &context).expect("a value");
    url.into_exposed()
}

/// Creates a project from a URL, runs all jobs, and returns its import.
async fn import(server: &TestServer, path: &str, url: &str) -> Value {
    let created = server.root().post("/projects", json!({ "path": path, "import_url": url })).await.expect(201).json();
    server.finish_jobs().await;
    server.root().get(&format!("/projects/{}/import", created["id"])).await.expect(200).json()
}

async fn import_url_copies_branches_tags_and_default_branch(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    source.git(&["branch", "-m", "main", "trunk"]);
    source.git(&["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    source.git(&["tag", "-a", "-m", "Annotated", "heavy", "trunk"]);
    source.set_default_branch("trunk").await;
    let ada = server.create_user("ada").await;
    let url = url_of(&source);
    let body = json!({ "name": "Copy", "import_url": format!(" {url} "), "description": "Copied" });
    let created = ada.client.post("/projects", body).await.expect(201).json();
    let copy = id(&created);
    assert_eq!((&created["import_status"], &created["import_type"]), (&json!("scheduled"), &json!("git")));
    assert_eq!((&created["import_error"], &created["empty_repo"]), (&Value::Null, &json!(true)));
    assert!(!created.to_string().contains(ROOT_TOKEN));
    assert_eq!(stored_url(&server, copy).await, url);
    server.finish_jobs().await;
    let path = format!("/projects/{copy}");
    let read = ada.client.get(&path).await.expect(200).json();
    assert_eq!((&read["import_status"], &read["default_branch"]), (&json!("finished"), &json!("trunk")));
    assert_eq!((&read["import_type"], &read["import_error"]), (&json!("git"), &Value::Null));
    assert_eq!(refs(&server, copy).await, refs(&server, source.id).await);
    assert_eq!(server.repository(copy).fsck().await.expect("a check"), [""; 0]);
    let expected = json!({
        "id": copy, "description": "Copied", "name": "Copy", "name_with_namespace": "Name of ada / Copy",
        "path": "copy", "path_with_namespace": "ada/copy", "created_at": created["created_at"],
        "import_status": "finished", "import_type": "git", "import_error": null,
    });
    assert_eq!(ada.client.get(&format!("{path}/import")).await.expect(200).json(), expected);
    // The credentials are deleted after the import.
    let stored = stored_url(&server, copy).await;
    assert!(stored.contains("*****") && !stored.contains(ROOT_TOKEN), "{stored}");
    let pushed = root.get(&format!("{path}/events?action=pushed")).await.expect(200).json();
    assert_eq!(pushed[0]["author_username"], "ada");
    // A project that was not imported.
    let empty = project(&root, "empty", json!({ "import_url": "" })).await;
    let none = root.get(&format!("/projects/{empty}/import")).await.expect(200).json();
    assert_eq!(
        (&none["import_status"], &none["import_type"], &none["import_error"]),
        (&json!("none"), &Value::Null, &Value::Null)
    );
}

async fn import_url_must_be_allowed(server: TestServer) {
    let root = server.root();
    let expect = async |url: &str, text: &str| {
        let rejected = root.post("/projects", json!({ "path": "x", "import_url": url })).await.expect(400).json();
        assert_eq!(rejected["message"], json!({ "import_url": [text] }), "{url}");
        rejected
    };
    for url in ["ssh://git@example.com/x.git", "git@example.com:x.git", "file:///etc", "ftp://example.com/x"] {
        expect(url, "is blocked: Only allowed schemes are http, https").await;
    }
    for url in ["https://example.com/x?y", "https://example.com/x#y", "https://example.com/a b"] {
        expect(url, "is blocked: URI is invalid").await;
    }
    let local = "is blocked: Requests to the local network are not allowed";
    for url in ["http://127.0.0.1/x.git", "http://localhost/x.git", "http://10.0.0.1/x.git", "http://[::1]/x.git"] {
        let rejected = expect(url, local).await;
        assert_eq!(rejected["setting"], "allow_local_requests_from_hooks_and_services", "{url}");
    }
    expect("http://169.254.169.254/x.git", local).await;
    let body = json!({ "path": "x", "import_url": "https://example.com/x.git", "initialize_with_readme": true });
    let rejected = root.post("/projects", body).await.expect(400).json();
    let expected = json!({ "initialize_with_readme": ["must be false if import_url is sent"] });
    assert_eq!(rejected["message"], expected);
    let long = format!("https://example.com/{}", "x".repeat(2048));
    root.post("/projects", json!({ "path": "x", "import_url": long })).await.expect(400);
    assert_eq!(root.get("/projects").await.expect(200).json(), json!([]));
    // A name that resolves to a local address is refused when the connection is opened.
    let failed = import(&server, "x", "http://unused_address.invalid/x.git").await;
    assert_eq!(failed["import_status"], "failed");
    assert_eq!(failed["import_error"], "the host does not resolve to an allowed address");
}

async fn failed_import_is_recorded_without_credentials(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let mut other = Receiver::start().await;
    let to = other.url.clone();
    let redirecting = Receiver::with(move |_| Reply::Redirect(302, to.clone())).await;
    let missing = Receiver::with(|_| Reply::Status(404)).await;
    let wrong = address(&server.base, "root", "wrong-password", &source.path);
    let unused = unused_address().await;
    for (number, (url, text)) in [
        (redirecting.url.as_str(), "the remote repository redirects to another URL, which is not followed"),
        (missing.url.as_str(), "the remote repository was not found"),
        (wrong.as_str(), "the remote repository requires other credentials"),
        (unused.as_str(), "the connection failed"),
    ]
    .into_iter()
    .enumerate()
    {
        let failed = import(&server, &format!("copy-{number}"), url).await;
        assert_eq!((&failed["import_status"], &failed["import_error"]), (&json!("failed"), &json!(text)), "{url}");
        assert!(!failed.to_string().contains("wrong-password"));
        let copy = id(&failed);
        assert!(!stored_url(&server, copy).await.contains("wrong-password"));
        assert!(refs(&server, copy).await.is_empty());
        // The project can be used.
        let readme = json!({ "branch": "main", "content": "x", "commit_message": "x" });
        root.post(&format!("/projects/{copy}/repository/files/README.md"), readme).await.expect(201);
    }
    assert_eq!(other.rest().len(), 0);
    // Only Maintainers read the reason.
    let developer = server.create_user("dev").await;
    let failed = id(&root.get("/projects/root%2Fcopy-0").await.expect(200).json());
    server.insert_member(failed, developer.id, AccessLevel::Developer).await;
    let shown = developer.client.get(&format!("/projects/{failed}/import")).await.expect(200).json();
    assert_eq!((&shown["import_status"], &shown["import_error"]), (&json!("failed"), &Value::Null));
    let stranger = server.create_user("stranger").await;
    stranger.client.get(&format!("/projects/{failed}/import")).await.expect(404);
    server.anonymous().get(&format!("/projects/{failed}/import")).await.expect(404);
}

async fn large_repository_is_not_imported(server: TestServer) {
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let failed = import(&server, "copy", &url_of(&source)).await;
    let text = "the pack of the remote repository is too large (setting: max_push_bytes)";
    assert_eq!((&failed["import_status"], &failed["import_error"]), (&json!("failed"), &json!(text)));
    assert!(refs(&server, id(&failed)).await.is_empty());
}

async fn interrupted_import_continues_or_is_recorded(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    // Returns an imported project, and its row before the import.
    let imported = async |path: &str| {
        let body = json!({ "path": path, "import_url": url_of(&source) });
        let created = id(&root.post("/projects", body).await.expect(201).json());
        let scheduled = row(&server, created).await;
        server.finish_jobs().await;
        scheduled
    };
    let first = imported("copy").await;
    let copy = first.id;
    let run = async |project_id: i64, number: i32| {
        let job = ImportRepository { project_id, default_branch: "main".to_owned() };
        let attempt = JobAttempt { number, of: 5 };
        project_imports::run_job(server.backend.clone(), job, attempt).await.expect("a recorded result");
        row(&server, project_id).await
    };
    let interrupt = async |scheduled: &projects::Model| {
        let change = projects::ActiveModel {
            id: Set(scheduled.id),
            import_status: Set(ImportStatus::Started),
            import_url_encrypted: Set(scheduled.import_url_encrypted.clone()),
            ..Default::default()
        };
        change.update(server.backend.database.write()).await.expect("a change");
    };
    // The server was killed after the refs moved, and before the result was recorded.
    interrupt(&first).await;
    assert_eq!(run(copy, 2).await.import_status, ImportStatus::Finished);
    // The server was killed after some of the refs moved.
    source.git(&["branch", "late", "main"]);
    interrupt(&first).await;
    let finished = run(copy, 2).await;
    assert_eq!((finished.import_status, finished.import_error), (ImportStatus::Finished, None));
    assert_eq!(refs(&server, copy).await, refs(&server, source.id).await);
    // The server was killed before it created the repository.
    let other = imported("second").await;
    let second = other.id;
    let repository = RepositoryId::of_project(second);
    server.backend.repositories.remove(&repository).await.expect("a removal");
    interrupt(&other).await;
    assert_eq!(run(second, 3).await.import_status, ImportStatus::Finished);
    assert_eq!(refs(&server, second).await, refs(&server, source.id).await);
    // The last attempt only records that all others were interrupted.
    interrupt(&other).await;
    let failed = run(second, 5).await;
    assert_eq!(failed.import_status, ImportStatus::Failed);
    assert!(failed.import_error.expect("a reason").starts_with("the import was interrupted too often"));
    // An import that has ended does not start again, also if it ends while it is started.
    assert!(!start(server.backend.database.write(), second).await.expect("a query"));
    let unchanged = row(&server, second).await;
    assert_eq!((unchanged.import_status, unchanged.import_error.is_some()), (ImportStatus::Failed, true));
    interrupt(&first).await;
    assert!(start(server.backend.database.write(), copy).await.expect("a query"));
    assert_eq!(run(copy, 2).await.import_status, ImportStatus::Finished);
    assert_eq!(run(second, 1).await.import_status, ImportStatus::Failed);
    run(copy, 1).await;
    let absent = ImportRepository { project_id: 999_999, default_branch: "main".to_owned() };
    let attempt = JobAttempt { number: 1, of: 5 };
    project_imports::run_job(server.backend.clone(), absent, attempt).await.expect("nothing to do");
    assert!(!server.backend.repositories.exists(&RepositoryId::of_project(999_999)).await.expect("a look"));
}

async fn import_needs_the_permissions_of_the_creator(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let ada = server.create_user("ada").await;
    let body = json!({ "name": "copy", "import_url": url_of(&source) });
    let created = id(&ada.client.post("/projects", body.clone()).await.expect(201).json());
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    server.finish_jobs().await;
    let failed = row(&server, created).await;
    assert_eq!(failed.import_status, ImportStatus::Failed);
    assert_eq!(failed.import_error.as_deref(), Some("the user who created the project cannot push to the project"));
    assert!(refs(&server, created).await.is_empty());
    root.post(&format!("/users/{}/unblock", ada.id), json!({})).await.expect(201);
    // An administrator imports for a user, into a group.
    let space = group(&root, "space", json!({})).await;
    crate::support::spaces::join(&root, &format!("/groups/{space}"), ada.id, 30).await;
    let body = json!({ "name": "copy", "import_url": url_of(&source), "namespace_id": space });
    let path = format!("/projects/user/{}", ada.id);
    let created = id(&root.post(&path, body).await.expect(201).json());
    server.finish_jobs().await;
    assert_eq!(row(&server, created).await.import_status, ImportStatus::Finished);
    assert_eq!(refs(&server, created).await, refs(&server, source.id).await);
    // A project that is deleted before the import is not imported.
    let body = json!({ "name": "gone", "import_url": url_of(&source) });
    let gone = id(&root.post("/projects", body).await.expect(201).json());
    root.delete(&format!("/projects/{gone}")).await.expect(202);
    server.finish_jobs().await;
    assert!(!server.backend.repositories.exists(&RepositoryId::of_project(gone)).await.expect("a look"));
}

fn import_url_must_be_allowed_options() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

fn large_repository_is_not_imported_options() -> ConfigOptions {
    ConfigOptions { max_push_bytes: Some(100), ..ConfigOptions::default() }
}

on_every_database![
    import_url_copies_branches_tags_and_default_branch,
    import_url_must_be_allowed with import_url_must_be_allowed_options(),
    failed_import_is_recorded_without_credentials,
    large_repository_is_not_imported with large_repository_is_not_imported_options(),
    interrupted_import_continues_or_is_recorded,
    import_needs_the_permissions_of_the_creator,
];
