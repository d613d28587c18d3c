//! Issues that merge requests close, seen from both sides.

use domain::identity::access::ProjectAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::kernel::page::PageRequest;
use domain::lifecycle::deletion::projects::delete_permanently;
use domain::review::jobs::post_merge::PostMerge;
use domain::review::merge_requests::{self, MergeRequestUpdate, closing_issues};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{propose, public_project};
use crate::planning::issues::open;
use crate::support::body_memory::request_memory;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

async fn closes_issues_lists_issues_from_description_and_commits(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "closing").await;
    let id = project.id;
    let other = Project::with_commits(&server, "elsewhere", Visibility::Public).await;
    for title in ["one", "two", "three"] {
        open(&root, id, json!({"title": title})).await;
    }
    open(&root, other.id, json!({"title": "far"})).await;
    project.fast_import(
        b"commit refs/heads/feature/x\ncommitter A <a@x> 1600000300 +0000\ndata 9\nFixes #3\n\nfrom refs/heads/feature/x^0\nM 100644 inline y.txt\ndata 1\ny\n",
    );
    let text = "Closes #1 and root/elsewhere#1, see #2";
    let iid = propose(&root, id, "feature/x", "main", json!({"description": text})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let closed = async || {
        let mut titles = server.anonymous().get(&format!("{path}/closes_issues")).await.expect(200).pluck("title");
        titles.sort_by_key(ToString::to_string);
        titles
    };
    assert_eq!(closed().await, [json!("far"), json!("one"), json!("three")]);
    let count = async |project: i64, iid: i64| {
        root.get(&format!("/projects/{project}/issues/{iid}")).await.expect(200).json()["merge_requests_count"].clone()
    };
    assert_eq!((count(id, 1).await, count(id, 2).await, count(other.id, 1).await), (json!(1), json!(0), json!(1)));
    let far = root.get(&format!("{path}/closes_issues")).await.expect(200).json();
    let far = far.as_array().expect("a list").iter().find(|issue| issue["title"] == "far").expect("one").clone();
    assert_eq!(far["references"]["relative"], "root/elsewhere#1");
    for (project, issue) in [(id, 1), (id, 3), (other.id, 1)] {
        let closers = server.anonymous().get(&format!("/projects/{project}/issues/{issue}/closed_by")).await;
        assert_eq!(closers.expect(200).pluck("iid"), [json!(iid)], "{project} {issue}");
    }
    // An issue removed from the description is no longer closed. Issues named in commits still are.
    root.put(&path, json!({"description": "Resolves #2"})).await.expect(200);
    assert_eq!(closed().await, [json!("three"), json!("two")]);
    assert_eq!((count(id, 1).await, count(id, 2).await, count(other.id, 1).await), (json!(0), json!(1), json!(0)));
    // Only merge requests into the default branch close issues.
    root.put(&path, json!({"target_branch": "merged"})).await.expect(200);
    assert_eq!(closed().await, [json!(null); 0]);
    root.put(&path, json!({"target_branch": "main"})).await.expect(200);
    assert_eq!(count(id, 2).await, 1);
    // Messages of later commits are processed as well.
    let commit = json!({
        "branch": "feature/x", "commit_message": "Closes #1",
        "actions": [{"action": "create", "file_path": "later.txt", "content": "x"}],
    });
    root.post(&format!("/projects/{id}/repository/commits"), commit).await.expect(201);
    server.finish_jobs().await;
    assert_eq!(closed().await, [json!("one"), json!("three"), json!("two")]);
    root.delete(&path).await.expect(204);
    assert_eq!((count(id, 1).await, count(id, 2).await), (json!(0), json!(0)));
}

async fn closes_issues_excludes_invisible_issues_and_respects_autoclose(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "quiet").await;
    let id = project.id;
    let hidden = Project::with_commits(&server, "hidden", Visibility::Private).await;
    open(&root, id, json!({"title": "shown"})).await;
    open(&root, hidden.id, json!({"title": "hush"})).await;
    let developer = project.member("developer", AccessLevel::Developer).await;
    let text = json!({"description": "Closes #1 and root/hidden#1"});
    let iid = propose(&developer, id, "feature/x", "main", text.clone()).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let closed = root.get(&format!("{path}/closes_issues")).await.expect(200);
    assert_eq!(closed.pluck("title"), [json!("shown")]);
    root.put(&path, json!({"description": "Closes root/hidden#1"})).await.expect(200);
    assert_eq!(root.get(&format!("{path}/closes_issues")).await.expect(200).pluck("title"), [json!("hush")]);
    let seen = developer.get(&format!("{path}/closes_issues")).await.expect(200);
    assert_eq!((seen.json(), seen.header("X-Total")), (json!([]), "0"));
    project.update(|row| row.autoclose_referenced_issues = sea_orm::ActiveValue::Set(false)).await;
    root.put(&path, text).await.expect(200);
    assert_eq!(root.get(&format!("{path}/closes_issues")).await.expect(200).json(), json!([]));
}

async fn deletion_of_a_project_updates_counts_of_issues_in_other_projects(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "stays").await;
    let deleted = Project::with_commits(&server, "goes", Visibility::Public).await;
    for (project, title) in [(project.id, "one"), (deleted.id, "own")] {
        open(&root, project, json!({"title": title})).await;
    }
    propose(&root, project.id, "feature/x", "main", json!({"description": "Closes #1"})).await;
    propose(&root, deleted.id, "feature/x", "main", json!({"description": "Closes #1 and root/stays#1"})).await;
    let count = async || {
        let issue = root.get(&format!("/projects/{}/issues/1", project.id)).await.expect(200).json();
        issue["merge_requests_count"].clone()
    };
    assert_eq!(count().await, 2);
    root.delete(&format!("/projects/{}", deleted.id)).await.expect(202);
    delete_permanently(&server.backend, deleted.id, None, None).await.expect("a deletion");
    assert_eq!(count().await, 1);
}

async fn merge_requests_count_includes_only_visible_merge_requests(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "counted").await;
    let id = project.id;
    let hidden = Project::with_commits(&server, "hidden", Visibility::Private).await;
    for title in ["one", "two"] {
        open(&root, id, json!({"title": title})).await;
    }
    let path = root.get(&format!("/projects/{id}")).await.expect(200).json()["path_with_namespace"].clone();
    let path = path.as_str().expect("a path");
    propose(&root, id, "feature/x", "main", json!({"description": "Closes #1"})).await;
    let text = format!("Closes {path}#1, closes {path}#2");
    propose(&root, hidden.id, "feature/x", "main", json!({"description": text})).await;
    let insider = hidden.member("insider", AccessLevel::Reporter).await;
    let guest = hidden.member("guest", AccessLevel::Guest).await;
    let outsider = server.create_user("outsider").await.client;
    for (name, client, counts) in [
        ("root", &root, [2, 1]),
        ("insider", &insider, [2, 1]),
        ("guest", &guest, [1, 0]),
        ("outsider", &outsider, [1, 0]),
    ] {
        let list = client.get(&format!("/projects/{id}/issues?order_by=created_at&sort=asc")).await.expect(200);
        assert_eq!(list.pluck("merge_requests_count"), counts.map(|count| json!(count)), "{name}");
        let one = client.get(&format!("/projects/{id}/issues/1")).await.expect(200).json();
        assert_eq!(one["merge_requests_count"], counts[0], "{name}");
    }
    let waiting = outsider.post(&format!("/projects/{id}/issues/1/todo"), json!({})).await.expect(201).json();
    assert_eq!(waiting["target"]["merge_requests_count"], 1);
    // Nor do they see the note about the merge request that closed the issue.
    root.put(&format!("/projects/{}/merge_requests/1/merge", hidden.id), json!({})).await.expect(200);
    server.finish_jobs().await;
    let notes = format!("/projects/{id}/issues/2/notes");
    let bodies = root.get(&notes).await.expect(200).pluck("body");
    assert!(bodies.contains(&json!("closed via merge request root/hidden!1")), "{bodies:?}");
    assert_eq!(insider.get(&notes).await.expect(200).pluck("body"), bodies);
    for client in [&guest, &outsider] {
        let seen = client.get(&notes).await.expect(200);
        assert_eq!((seen.json(), seen.header("X-Total")), (json!([]), "0"));
    }
    let closed = outsider.get(&format!("/projects/{id}/issues/2")).await.expect(200).json();
    assert_eq!((&closed["state"], &closed["user_notes_count"]), (&json!("closed"), &json!(0)));
}

async fn closing_issues_are_recounted_when_project_settings_change(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "turning").await;
    let id = project.id;
    for title in ["one", "two", "three"] {
        open(&root, id, json!({"title": title})).await;
    }
    let into = async |target: &str, text: &str| {
        let iid = propose(&root, id, "feature/x", target, json!({"description": text})).await;
        format!("/projects/{id}/merge_requests/{iid}")
    };
    let (first, second) = (into("main", "Closes #1").await, into("merged", "Closes #2").await);
    let more = json!({
        "branch": "y", "start_branch": "main", "commit_message": "More",
        "actions": [{"action": "create", "file_path": "y.txt", "content": "y"}],
    });
    root.post(&format!("/projects/{id}/repository/commits"), more).await.expect(201);
    let closed_request = propose(&root, id, "y", "main", json!({"description": "Closes #3"})).await;
    let closed_request = format!("/projects/{id}/merge_requests/{closed_request}");
    root.put(&closed_request, json!({"state_event": "close"})).await.expect(200);
    let closed = async || {
        let mut all = Vec::new();
        for path in [&first, &second, &closed_request] {
            let titles = root.get(&format!("{path}/closes_issues")).await.expect(200).pluck("title");
            all.extend(titles.iter().map(|title| title.as_str().expect("a title").to_owned()));
        }
        let mut counted = Vec::new();
        for issue in root.get(&format!("/projects/{id}/issues")).await.expect(200).json().as_array().expect("a list") {
            if issue["merge_requests_count"] != 0 {
                assert_eq!(issue["merge_requests_count"], 1);
                counted.push(issue["title"].as_str().expect("a title").to_owned());
            }
        }
        counted.sort();
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(counted, sorted);
        all.join(" ")
    };
    let update_project = async |change: serde_json::Value| {
        root.put(&format!("/projects/{id}"), change).await.expect(200);
        server.finish_jobs().await;
    };
    assert_eq!(closed().await, "one three");
    update_project(json!({"default_branch": "merged"})).await;
    assert_eq!(closed().await, "two");
    update_project(json!({"autoclose_referenced_issues": false})).await;
    assert_eq!(closed().await, "");
    update_project(json!({"default_branch": "main"})).await;
    assert_eq!(closed().await, "");
    update_project(json!({"autoclose_referenced_issues": true})).await;
    assert_eq!(closed().await, "one");
    // The closing issues are counted again when the merge request is reopened.
    root.put(&closed_request, json!({"state_event": "reopen"})).await.expect(200);
    assert_eq!(closed().await, "one three");
    // A merged merge request is not counted again.
    root.put(&format!("{first}/merge"), json!({})).await.expect(200);
    server.finish_jobs().await;
    update_project(json!({"autoclose_referenced_issues": false})).await;
    assert_eq!(closed().await, "one");
    // Other changes of the project enqueue no job.
    root.put(&format!("/projects/{id}"), json!({"description": "d", "default_branch": "main"})).await.expect(200);
    let waiting = storage::jobs::backlog(server.backend.database.read()).await.expect("the jobs");
    assert_eq!(waiting.waiting, 0);
}

async fn related_merge_requests_includes_mentioned_and_closing_ones(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "related").await;
    let id = project.id;
    project.import(&NewCommit {
        branch: "y",
        from: Some("refs/heads/main"),
        changes: file("y.txt", "y\n"),
        ..NewCommit::default()
    });
    let hidden = Project::with_commits(&server, "hidden", Visibility::Private).await;
    propose(&root, hidden.id, "feature/x", "main", json!({"title": "hush"})).await;
    propose(&root, id, "feature/x", "main", json!({"title": "named"})).await;
    let text = format!("See !1 and {}/root/hidden/-/merge_requests/1", server.base);
    let issue = open(&root, id, json!({"title": "i", "description": text})).await;
    propose(&root, id, "y", "main", json!({"title": "closes", "description": format!("Closes #{issue}")})).await;
    propose(&root, id, "y", "merged", json!({"title": "noted"})).await;
    let path = format!("/projects/{id}/issues/{issue}");
    root.post(&format!("{path}/notes"), json!({"body": "and related!3"})).await.expect(201);
    let found = async |client: &crate::support::Client, operation: &str| {
        client.get(&format!("{path}/{operation}")).await.expect(200).pluck("title")
    };
    assert_eq!(
        found(&root, "related_merge_requests").await,
        ["hush", "named", "closes", "noted"].map(|title| json!(title))
    );
    let anonymous = server.anonymous();
    assert_eq!(
        found(&anonymous, "related_merge_requests").await,
        ["named", "closes", "noted"].map(|title| json!(title))
    );
    assert_eq!(found(&anonymous, "closed_by").await, [json!("closes")]);
    let ann = server.create_user("ann").await;
    let narrow = server.with_token(&server.create_token(ann.id, &["read_user"]).await);
    for operation in ["related_merge_requests", "closed_by"] {
        root.get(&format!("/projects/{id}/issues/99/{operation}")).await.expect(404);
        root.get(&format!("/projects/{id}/issues/x/{operation}")).await.expect(400);
        narrow.get(&format!("{path}/{operation}")).await.expect(403);
        server.with_token("nonsense").get(&format!("{path}/{operation}")).await.expect(401);
    }
}

async fn closed_via_note_references_the_merge_request_from_the_issue(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "closing").await;
    let other = Project::with_commits(&server, "elsewhere", Visibility::Public).await;
    for id in [project.id, other.id] {
        open(&root, id, json!({"title": "t"})).await;
    }
    let iid =
        propose(&root, project.id, "feature/x", "main", json!({"description": "Closes #1, root/elsewhere#1"})).await;
    root.put(&format!("/projects/{}/merge_requests/{iid}/merge", project.id), json!({})).await.expect(200);
    server.finish_jobs().await;
    for (id, reference) in [(project.id, format!("!{iid}")), (other.id, format!("root/closing!{iid}"))] {
        let mut notes = root.get(&format!("/projects/{id}/issues/1/notes")).await.expect(200).pluck("body");
        // The merge commit may add its own note in a separate job.
        let of_commit =
            |note: &serde_json::Value| note.as_str().is_some_and(|note| note.starts_with("mentioned in commit "));
        notes.retain(|note| !of_commit(note));
        let expected = ["closed via", "mentioned in"].map(|verb| json!(format!("{verb} merge request {reference}")));
        assert_eq!(notes, expected);
    }
}

async fn update_merge_request_with_current_values_changes_nothing(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "same").await;
    let body = json!({"title": "t", "description": "d", "labels": "a", "squash": true});
    let iid = propose(&root, project.id, "feature/x", "main", body.clone()).await;
    let path = format!("/projects/{}/merge_requests/{iid}", project.id);
    let before = root.get(&path).await.expect(200).json();
    for same in [body, json!({"target_branch": "main"}), json!({"milestone_id": 0})] {
        let after = root.put(&path, same.clone()).await.expect(200).json();
        assert_eq!(after["updated_at"], before["updated_at"], "{same}");
    }
    let after = root.put(&path, json!({"squash": false})).await.expect(200).json();
    assert_ne!(after["updated_at"], before["updated_at"]);
}

/// Checks the memory of lists that contain copies of the description of a milestone. Both issues and the merge request
/// that closes them have the milestone.
async fn descriptions_of_milestones_count_against_the_memory(server: &TestServer, id: i64, iid: i64) {
    let ann = server.create_user("ann").await;
    server.insert_member(id, ann.id, AccessLevel::Developer).await;
    let access = async |memory_bytes: u64| {
        let (budgets, memory) = request_memory(memory_bytes);
        let caller = Caller::user(ann.row.clone()).with_memory(memory);
        (budgets, ProjectAccess::find(&server.backend, caller, &id.to_string()).await.expect("access"))
    };
    let page = PageRequest::default();
    // The issues have a description each, and the response contains that of the milestone twice.
    let (_, too_little) = access(499_990).await;
    let refused = closing_issues::list_closed_issues(&server.backend, &too_little, iid, &page).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    let (budgets, enough) = access(500_000).await;
    let closed = closing_issues::list_closed_issues(&server.backend, &enough, iid, &page).await.expect("issues");
    assert_eq!((closed.items.len(), budgets.memory.used()), (2, 500_000));
    // The description exists once as a row, and once in the response.
    let (budgets, enough) = access(200_000).await;
    let closing = closing_issues::list_closing_merge_requests(&server.backend, &enough, 1, &page).await;
    assert_eq!((closing.expect("merge requests").items.len(), budgets.memory.used()), (1, 200_000));
    // The response of a committed update does not fail because too little memory is left.
    let (_, none) = access(10).await;
    let update = MergeRequestUpdate { title: Some("renamed".to_owned()), ..MergeRequestUpdate::default() };
    let updated = merge_requests::update(&server.backend, &none, iid, update).await.expect("a merge request");
    assert_eq!(updated.merge_request.title, "renamed");
}

/// A merge request can close many issues with long descriptions.
async fn merge_does_not_read_descriptions_of_closed_issues(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "closing").await;
    let id = project.id;
    let large = "x".repeat(100_000);
    let milestone = json!({"title": "large", "description": large});
    let milestone = root.post(&format!("/projects/{id}/milestones"), milestone).await.expect(201).json()["id"].clone();
    for title in ["one", "two"] {
        open(&root, id, json!({"title": title, "description": large, "milestone_id": milestone})).await;
    }
    let proposed = json!({"description": "Closes #1, closes #2", "milestone_id": milestone});
    let iid = propose(&root, id, "feature/x", "main", proposed).await;
    descriptions_of_milestones_count_against_the_memory(&server, id, iid).await;
    let before = server.statements();
    root.put(&format!("/projects/{id}/merge_requests/{iid}/merge"), json!({})).await.expect(200);
    server.finish_jobs().await;
    let of_closed = |text: &String| text.contains("closing_merge_requests") && text.contains("\"iid\"");
    let texts: Vec<String> = server.statement_texts(before).into_iter().filter(of_closed).collect();
    assert!(texts.iter().all(|text| !text.contains("\"issues\".\"description\"")), "{texts:?}");
    for issue in [1, 2] {
        let shown = root.get(&format!("/projects/{id}/issues/{issue}")).await.expect(200).json();
        assert_eq!(shown["state"], "closed", "{issue}");
    }
}

async fn repeated_job_after_a_merge_does_not_close_reopened_issues(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "repeated").await;
    let id = project.id;
    open(&root, id, json!({"title": "one"})).await;
    let iid = propose(&root, id, "feature/x", "main", json!({"description": "Closes #1"})).await;
    let merge = format!("/projects/{id}/merge_requests/{iid}/merge");
    let merged = root.put(&merge, json!({})).await.expect(200).json();
    server.finish_jobs().await;
    let issue = format!("/projects/{id}/issues/1");
    assert_eq!(root.get(&issue).await.expect(200).json()["state"], "closed");
    root.put(&issue, json!({"state_event": "reopen"})).await.expect(200);
    let merge_request_id = merged["id"].as_i64().expect("an ID");
    let job = PostMerge { merge_request_id, user_id: Some(1), remove_source_branch: false };
    assert!(merge_requests::run_post_merge(server.backend.clone(), job).await.is_ok());
    assert_eq!(root.get(&issue).await.expect(200).json()["state"], "opened");
    let bodies = root.get(&format!("{issue}/notes")).await.expect(200).pluck("body");
    let closing = format!("closed via merge request !{iid}");
    assert_eq!(bodies.iter().filter(|body| **body == closing).count(), 1, "{bodies:?}");
}

on_every_database![
    closes_issues_lists_issues_from_description_and_commits,
    closes_issues_excludes_invisible_issues_and_respects_autoclose,
    deletion_of_a_project_updates_counts_of_issues_in_other_projects,
    merge_requests_count_includes_only_visible_merge_requests,
    closing_issues_are_recounted_when_project_settings_change,
    related_merge_requests_includes_mentioned_and_closing_ones,
    closed_via_note_references_the_merge_request_from_the_issue,
    update_merge_request_with_current_values_changes_nothing,
    merge_does_not_read_descriptions_of_closed_issues,
    repeated_job_after_a_merge_does_not_close_reopened_issues,
];
