//! Operations on a ref that another process has locked.

use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::support::code::Project;
use crate::support::{TestServer, on_every_database};

/// Returns operations that update a ref: method, path below the project, body, and the lock file that blocks it.
fn moves(project: &Project) -> Vec<(Method, String, Value, &'static str)> {
    let change = |name: &str| json!({ "branch": "main", "commit_message": "Change", "content": name });
    let main = "refs/heads/main.lock";
    let commit = json!({
        "branch": "main", "commit_message": "Change",
        "actions": [{ "action": "create", "file_path": "new.txt", "content": "new" }],
    });
    let topic = project.id("feature/x");
    let tip = project.id("main");
    let files = "/repository/files/";
    let branches = "/repository/branches";
    let commits = "/repository/commits";
    let tags = "/repository/tags";
    vec![
        (Method::POST, commits.to_owned(), commit, main),
        (Method::POST, format!("{commits}/{topic}/cherry_pick"), json!({ "branch": "main" }), main),
        (Method::POST, format!("{commits}/{tip}/revert"), json!({ "branch": "main" }), main),
        (Method::POST, format!("{files}other.txt"), change("other"), main),
        (Method::PUT, format!("{files}README.md"), change("other"), main),
        (Method::DELETE, format!("{files}README.md"), change("none"), main),
        (Method::POST, branches.to_owned(), json!({ "branch": "new", "ref": "main" }), "refs/heads/new.lock"),
        (Method::DELETE, format!("{branches}/feature%2Fx"), json!({}), "refs/heads/feature/x.lock"),
        (Method::POST, tags.to_owned(), json!({ "tag_name": "v2", "ref": "main" }), "refs/tags/v2.lock"),
        (Method::DELETE, format!("{tags}/v1"), json!({}), "refs/tags/v1.lock"),
        (Method::PUT, String::new(), json!({ "default_branch": "merged" }), "HEAD.lock"),
        (Method::PUT, "/merge_requests/1/merge".to_owned(), json!({}), main),
        (Method::PUT, "/merge_requests/1/rebase".to_owned(), json!({}), "refs/heads/feature/x.lock"),
    ]
}

async fn locked_ref_returns_409_and_changes_nothing(server: TestServer) {
    let project = Project::with_commits(&server, "locked", Visibility::Private).await;
    project.git(&["tag", "v1", "main~1"]);
    crate::review::merge_requests::propose(&server.root(), project.id, "feature/x", "main", json!({})).await;
    let directory = std::path::PathBuf::from(project.git(&["rev-parse", "--absolute-git-dir"]));
    let state = || (project.git(&["show-ref"]), project.git(&["symbolic-ref", "HEAD"]));
    let before = state();
    let root = server.root();
    for (method, path, body, lock) in moves(&project) {
        let lock = directory.join(lock);
        std::fs::create_dir_all(lock.parent().expect("a directory")).expect("a directory");
        std::fs::write(&lock, "").expect("a lock file");
        let request = root.request(method.clone(), &format!("/projects/{}{path}", project.id)).json(&body);
        let response = root.send(request).await;
        assert_eq!(response.status, 409, "{method} {path}: {}", response.text());
        let text = "409 Conflict: Resource lock";
        assert_eq!(response.json(), json!({ "message": text, "error": text }), "{method} {path}");
        std::fs::remove_file(&lock).expect("no lock file");
    }
    assert_eq!(state(), before);
    let shown = root.get(&format!("/projects/{}", project.id)).await.expect(200).json();
    assert_eq!(shown["default_branch"], "main");
}

on_every_database![locked_ref_returns_409_and_changes_nothing,];
