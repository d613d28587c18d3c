//! Every path that updates refs, tried against protected refs. The sources are searched for callers of the function
//! that updates refs, so a new caller fails the test until it has an entry here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::kernel::error::Error;
use domain::spaces::repository_import;
use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::code::{protected_branches, protected_tags};
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{group, project};
use crate::support::{TestServer, on_every_database};

/// Source files below `crates` and `src` that call `update_refs` or `prepare_and_update_refs`, with the number of
/// calls, and the test or the reason.
const CALLERS: &[(&str, usize, &str)] = &[
    ("crates/domain/src/code/branches.rs", 2, "requests_of_the_api_respect_protected_refs"),
    ("crates/domain/src/code/commits/cherry_pick.rs", 1, "requests_of_the_api_respect_protected_refs"),
    ("crates/domain/src/code/commits/commit.rs", 1, "requests_of_the_api_respect_protected_refs"),
    ("crates/domain/src/code/jobs/delete_merged_branches.rs", 1, "jobs_respect_protected_refs"),
    ("crates/domain/src/code/mirrored_push.rs", 1, "mirrors_respect_protected_refs"),
    ("crates/domain/src/code/receive_pack.rs", 1, "pushes_respect_protected_refs"),
    ("crates/domain/src/code/ref_updates.rs", 1, "`update_refs` itself"),
    ("crates/domain/src/code/tags.rs", 2, "requests_of_the_api_respect_protected_refs"),
    ("crates/domain/src/review/merge_requests/merge.rs", 1, "merges_respect_protected_refs"),
    ("crates/domain/src/review/merge_requests/post_merge.rs", 1, "jobs_respect_protected_refs"),
    ("crates/domain/src/review/merge_requests/rebase.rs", 1, "requests_of_the_api_respect_protected_refs"),
    ("crates/domain/src/spaces/projects/create.rs", 1, "new_repositories_are_filled_in_spite_of_protections"),
    ("crates/domain/src/spaces/projects/forks.rs", 1, "new_repositories_are_filled_in_spite_of_protections"),
    ("crates/domain/src/spaces/repository_import.rs", 1, "imports_of_the_command_line_respect_protected_refs"),
];

/// Source files that change HEAD of a repository, with the reason.
const HEAD_CHANGES: &[(&str, usize, &str)] = &[
    ("crates/domain/src/code/jobs/set_head.rs", 1, "change_of_default_branch_moves_no_ref"),
    ("crates/domain/src/code/ref_updates.rs", 1, "a formerly empty repository"),
    ("crates/domain/src/mirrors/pull_mirrors/update.rs", 1, "a formerly empty repository"),
    ("crates/domain/src/spaces/repository_import.rs", 1, "imports_of_the_command_line_respect_protected_refs"),
];

/// Returns the number of calls of functions by source file. Unit tests are at the end of files.
fn calls(folder: &Path, names: &[&str], found: &mut BTreeMap<String, usize>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            calls(&path, names, found);
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("a source");
        let source = source.split("#[cfg(test)]").next().unwrap_or_default();
        let count: usize = source
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .map(|line| names.iter().map(|name| called(line, name)).sum::<usize>())
            .sum();
        if count > 0 {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let path = path.strip_prefix(root).expect("a path below the root");
            found.insert(path.to_string_lossy().into_owned(), count);
        }
    }
}

/// Returns the number of calls of a function in a line, without its definition and functions whose names end with it.
fn called(line: &str, name: &str) -> usize {
    let call = format!("{name}(");
    let starts = line.match_indices(&call).filter(|(at, _)| {
        let before = &line[..*at];
        let part_of_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        !part_of_name && !before.trim_end().ends_with("fn")
    });
    starts.count()
}

fn callers(names: &[&str]) -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeMap::new();
    for folder in ["crates/domain/src", "src"] {
        calls(&root.join(folder), names, &mut found);
    }
    found
}

fn every_caller_of_ref_updates_has_a_test_or_a_reason() {
    for (names, expected) in
        [(&["update_refs", "prepare_and_update_refs"][..], CALLERS), (&["set_default_branch"], HEAD_CHANGES)]
    {
        let expected: BTreeMap<String, usize> =
            expected.iter().map(|(file, count, _)| ((*file).to_owned(), *count)).collect();
        assert_eq!(callers(names), expected, "{names:?}");
    }
}

/// A project in which no role can change a ref, with a merge request of `feature/x` into `target`.
struct Sample<'a> {
    project: Project<'a>,
    merge_request: String,
    refs: String,
}

impl<'a> Sample<'a> {
    async fn new(server: &'a TestServer) -> Self {
        let project = Project::with_commits(server, "p", Visibility::Private).await;
        project.git(&["branch", "target", "main"]);
        project.git(&["tag", "old", "main"]);
        let root = server.root();
        let iid = propose(&root, project.id, "feature/x", "target", json!({})).await;
        server.finish_jobs().await;
        let merge_request = format!("/projects/{}/merge_requests/{iid}", project.id);
        let refs = project.git(&["for-each-ref"]);
        Self { project, merge_request, refs }
    }

    /// Protects all branches and tags from all roles.
    async fn protect(&self) {
        let (root, path) = (self.project.server.root(), format!("/projects/{}", self.project.id));
        let body = json!({"name": "*", "push_access_level": 0, "merge_access_level": 0});
        protected_branches::protection(&root, &path, body).await;
        let main = json!({
            "allowed_to_push": [{"id": self.role(0).await, "_destroy": true}],
            "allowed_to_merge": [{"id": self.role(1).await, "_destroy": true}],
        });
        root.patch(&format!("{path}/protected_branches/main"), main).await.expect(200);
        protected_tags::protection(&root, &path, json!({"name": "*", "create_access_level": 0})).await;
    }

    /// Returns the ID of the role entry of `main` for pushes (0) or merges (1).
    async fn role(&self, position: usize) -> Value {
        let path = format!("/projects/{}/protected_branches/main", self.project.id);
        let rule = self.project.server.root().get(&path).await.expect(200).json();
        let list = ["push_access_levels", "merge_access_levels"][position];
        rule[list][0]["id"].clone()
    }

    fn assert_unchanged(&self, path: &str) {
        assert_eq!(self.project.git(&["for-each-ref"]), self.refs, "{path}");
    }
}

async fn requests_of_the_api_respect_protected_refs(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect().await;
    let url = |rest: &str| sample.project.url(rest);
    let pick = sample.project.id("feature/x");
    let action = json!({"action": "create", "file_path": "n", "content": "n"});
    let commit = |branch: &str| json!({"branch": branch, "commit_message": "n", "actions": [action]});
    let file = json!({"branch": "target", "commit_message": "m", "content": "m"});
    let start = json!({"branch": "new", "start_branch": "main", "commit_message": "n", "actions": [action]});
    let force = json!({"branch": "target", "start_branch": "merged", "force": true, "commit_message": "n", "actions": [action]});
    let root = server.root();
    for (method, path, body, status) in [
        (Method::POST, url("/commits"), commit("target"), 403),
        (Method::POST, url("/commits"), commit("main"), 403),
        (Method::POST, url("/commits"), start, 403),
        (Method::POST, url("/commits"), force, 403),
        (Method::POST, url("/files/m"), file.clone(), 400),
        (Method::PUT, url("/files/README.md"), file.clone(), 400),
        (Method::DELETE, url("/files/README.md"), file, 400),
        (Method::POST, url(&format!("/commits/{pick}/cherry_pick")), json!({"branch": "target"}), 403),
        (Method::POST, url(&format!("/commits/{pick}/revert")), json!({"branch": "feature/x"}), 403),
        (Method::POST, url("/branches"), json!({"branch": "new", "ref": "main"}), 403),
        (Method::DELETE, url("/branches/merged"), json!({}), 400),
        (Method::DELETE, url("/branches/main"), json!({}), 400),
        (Method::POST, url("/tags"), json!({"tag_name": "new", "ref": "main"}), 403),
        (Method::PUT, format!("{}/rebase", sample.merge_request), json!({}), 403),
        (Method::PUT, format!("{}/merge", sample.merge_request), json!({}), 401),
    ] {
        let answer = root.send(root.request(method, &path).json(&body)).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        sample.assert_unchanged(&path);
    }
    let developer = sample.project.member("dev", AccessLevel::Developer).await;
    developer.delete(&url("/tags/old")).await.expect(403);
    sample.assert_unchanged("/tags/old");
}

async fn pushes_respect_protected_refs(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect().await;
    let remote = address(&server.base, "root", ROOT_TOKEN, "root/p");
    let work = Work::empty();
    work.git(&["clone", "--quiet", &remote, "c"]).await;
    let copy = work.below("c");
    copy.commit("n", "1").await;
    for arguments in [
        vec!["HEAD:refs/heads/target"],
        vec!["HEAD:refs/heads/new"],
        vec!["--force", "HEAD~2:refs/heads/target"],
        vec![":refs/heads/merged"],
        vec!["HEAD:refs/tags/new"],
        vec!["--force", "HEAD:refs/tags/old"],
        vec![":refs/tags/old"],
        vec!["--mirror"],
        vec!["-o", "merge_request.create", "HEAD:refs/heads/new"],
        // A ref that is not protected does not move if another one is refused.
        vec!["HEAD:refs/notes/x", "HEAD:refs/heads/target"],
    ] {
        let output = copy.fails(&[&["push", remote.as_str()][..], &arguments].concat()).await;
        assert!(output.contains("pre-receive hook declined"), "{arguments:?}: {output}");
        sample.assert_unchanged(&format!("{arguments:?}"));
    }
}

async fn merges_respect_protected_refs(server: TestServer) {
    let sample = Sample::new(&server).await;
    let (root, path) = (server.root(), format!("/projects/{}", sample.project.id));
    root.put(&path, json!({"only_allow_merge_if_pipeline_succeeds": true})).await.expect(200);
    let body = json!({"merge_when_pipeline_succeeds": true});
    root.put(&format!("{}/merge", sample.merge_request), body).await.expect(200);
    sample.protect().await;
    // The automatic merge was allowed before the branch was protected.
    let status = json!({"state": "success", "name": "test", "ref": "feature/x"});
    let head = sample.project.id("feature/x");
    let role = json!({"allowed_to_merge": [{"access_level": 40}]});
    root.patch(&format!("{path}/protected_branches/*"), role).await.expect(200);
    root.post(&format!("{path}/statuses/{head}"), status).await.expect(201);
    let none = root.get(&format!("{path}/protected_branches/*")).await.expect(200).json();
    let entry = json!({"allowed_to_merge": [{"id": none["merge_access_levels"][0]["id"], "_destroy": true}]});
    root.patch(&format!("{path}/protected_branches/*"), entry).await.expect(200);
    server.finish_jobs().await;
    sample.assert_unchanged("automatic merge");
    assert_eq!(root.get(&sample.merge_request).await.expect(200).json()["state"], "opened");
    root.put(&format!("{}/merge", sample.merge_request), json!({})).await.expect(401);
    // With the permission to merge, the merge writes to a branch to which the caller cannot push.
    let role = json!({"allowed_to_merge": [{"access_level": 40}]});
    root.patch(&format!("{path}/protected_branches/*"), role).await.expect(200);
    let remaining = json!({"should_remove_source_branch": true});
    root.put(&format!("{}/merge", sample.merge_request), remaining).await.expect(200);
    server.finish_jobs().await;
    assert!(sample.project.references("refs/heads/").contains(&"feature/x".to_owned()), "the source is protected");
}

async fn jobs_respect_protected_refs(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect().await;
    server.root().delete(&sample.project.url("/merged_branches")).await.expect(202);
    server.finish_jobs().await;
    sample.assert_unchanged("merged branches");
    // The job after a merge deletes the source branch only if no rule protects it: see `merges_respect_protected_refs`.
    let path = format!("/projects/{}/protected_branches", sample.project.id);
    for name in ["*", "main"] {
        server.root().delete(&format!("{path}/{name}")).await.expect(204);
    }
    server.root().delete(&sample.project.url("/merged_branches")).await.expect(202);
    server.finish_jobs().await;
    assert!(!sample.project.references("refs/heads/").contains(&"merged".to_owned()));
}

async fn mirrors_respect_protected_refs(server: TestServer) {
    let sample = Sample::new(&server).await;
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    source.git(&["branch", "new", "feature/x"]);
    source.git(&["branch", "target", "feature/x"]);
    source.git(&["tag", "new", "main"]);
    source.git(&["tag", "old", "main~1"]);
    source.git(&["update-ref", "refs/heads/main", "feature/x"]);
    let root = server.root();
    let mirror = format!("/projects/{}/mirror/pull", sample.project.id);
    let url = address(&server.base, "root", ROOT_TOKEN, &source.path);
    let body = json!({ "url": url, "enabled": true, "mirror_overwrites_diverged_branches": true });
    sample.protect().await;
    root.put(&mirror, body).await.expect(200);
    server.finish_jobs().await;
    sample.assert_unchanged("mirror");
    let state = root.get(&mirror).await.expect(200).json();
    let error = state["last_error"].as_str().expect("an error");
    for name in ["refs/heads/new", "refs/heads/target", "refs/heads/main", "refs/tags/new", "refs/tags/old"] {
        assert!(error.contains(name), "{name}: {error}");
    }
}

async fn change_of_default_branch_moves_no_ref(server: TestServer) {
    let sample = Sample::new(&server).await;
    sample.protect().await;
    let path = format!("/projects/{}", sample.project.id);
    let developer = sample.project.member("dev", AccessLevel::Developer).await;
    developer.put(&path, json!({"default_branch": "target"})).await.expect(403);
    server.root().put(&path, json!({"default_branch": "target"})).await.expect(200);
    sample.assert_unchanged("default branch");
    let seen = server.root().get(&sample.project.url("/branches/main")).await.expect(200).json();
    assert_eq!((&seen["protected"], &seen["default"]), (&json!(true), &json!(false)));
}

/// Imports the repository of a project into the project with this path, as `admin import-repo` does.
async fn import(server: &TestServer, path: &str, source: &Project<'_>) -> Result<(), Error> {
    let folder = PathBuf::from(source.git(&["rev-parse", "--absolute-git-dir"]));
    repository_import::import(&server.backend, path, Visibility::Private, folder, None).await.map(drop)
}

async fn imports_of_the_command_line_respect_protected_refs(server: TestServer) {
    let sample = Sample::new(&server).await;
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    source.git(&["branch", "new", "feature/x"]);
    source.git(&["branch", "target", "feature/x"]);
    source.git(&["tag", "new", "main"]);
    source.git(&["tag", "old", "main~1"]);
    source.git(&["update-ref", "refs/heads/main", "feature/x"]);
    sample.protect().await;
    let head = sample.project.git(&["symbolic-ref", "HEAD"]);
    let refused = import(&server, "root/p", &source).await.expect_err("a refusal");
    let Error::Rejected(text) = refused else { panic!("{refused}") };
    for name in ["refs/heads/new", "refs/heads/target", "refs/heads/main", "refs/tags/new", "refs/tags/old"] {
        assert!(text.contains(&format!("{name}: ")), "{name}: {text}");
    }
    sample.assert_unchanged("import");
    assert_eq!(sample.project.git(&["symbolic-ref", "HEAD"]), head);
    // A new project is filled, and its first branch is protected.
    let team = group(&server.root(), "team", json!({})).await;
    let body = json!({"name": "*", "push_access_level": 0, "merge_access_level": 0});
    protected_branches::protection(&server.root(), &format!("/groups/{team}"), body).await;
    import(&server, "team/copy", &source).await.expect("an import into a new project");
    let path = "/projects/team%2Fcopy/repository/branches/main";
    let main = server.root().get(path).await.expect(200).json();
    assert_eq!((&main["commit"]["id"], &main["protected"]), (&json!(source.id("main")), &json!(true)));
    // Maintainers can push to the branch, but not discard its commits.
    source.git(&["update-ref", "refs/heads/main", "feature/x~1"]);
    let refused = import(&server, "team/copy", &source).await.expect_err("a refusal");
    assert!(refused.to_string().contains("force push to the branch main"), "{refused}");
    let next = source.git(&["commit-tree", "-p", "feature/x", "-m", "Next", "feature/x^{tree}"]);
    source.git(&["update-ref", "refs/heads/main", &next]);
    import(&server, "team/copy", &source).await.expect("a fast-forward");
    assert_eq!(server.root().get(path).await.expect(200).json()["commit"]["id"], next);
}

/// A repository without refs can be filled: no ref exists that a rule could protect. The first branch gets a rule of
/// its own, which is more permissive than the rule of the group.
async fn new_repositories_are_filled_in_spite_of_protections(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let body = json!({"name": "*", "push_access_level": 0, "merge_access_level": 0});
    protected_branches::protection(&root, &format!("/groups/{team}"), body).await;
    let source = project(&root, "p", json!({"namespace_id": team, "initialize_with_readme": true})).await;
    let commit = json!({"branch": "new", "start_branch": "main", "commit_message": "m", "content": "m"});
    let files = |id: i64| format!("/projects/{id}/repository/files/m");
    root.post(&files(source), commit.clone()).await.expect(400);
    let forked =
        root.post(&format!("/projects/{source}/fork"), json!({"path": "f", "name": "f", "namespace_id": team})).await;
    let forked = forked.expect(201).json()["id"].as_i64().expect("an ID");
    server.finish_jobs().await;
    for id in [source, forked] {
        let listed = root.get(&format!("/projects/{id}/repository/branches")).await.expect(200);
        assert_eq!(listed.pluck("name"), ["main"]);
        root.post(&files(id), commit.clone()).await.expect(400);
    }
}

harness::tests![every_caller_of_ref_updates_has_a_test_or_a_reason];

on_every_database![
    requests_of_the_api_respect_protected_refs,
    pushes_respect_protected_refs,
    merges_respect_protected_refs,
    jobs_respect_protected_refs,
    mirrors_respect_protected_refs,
    change_of_default_branch_moves_no_ref,
    imports_of_the_command_line_respect_protected_refs,
    new_repositories_are_filled_in_spite_of_protections,
];
