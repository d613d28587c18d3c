//! Which issues merge requests close, told from both sides.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{propose, public_project};
use crate::issues::open;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

async fn descriptions_and_commits_say_what_is_closed(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "closing").await;
    let id = project.id;
    let other = Project::filled(&server, "elsewhere", Visibility::Public).await;
    for title in ["one", "two", "three"] {
        open(&root, id, json!({"title": title})).await;
    }
    open(&root, other.id, json!({"title": "far"})).await;
    project.feed(
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
    // What the description does not say any more is not closed any more; commits still say what they do.
    root.put(&path, json!({"description": "Resolves #2"})).await.expect(200);
    assert_eq!(closed().await, [json!("three"), json!("two")]);
    assert_eq!((count(id, 1).await, count(id, 2).await, count(other.id, 1).await), (json!(0), json!(1), json!(0)));
    // Only what is merged into the default branch closes anything.
    root.put(&path, json!({"target_branch": "merged"})).await.expect(200);
    assert_eq!(closed().await, [json!(null); 0]);
    root.put(&path, json!({"target_branch": "main"})).await.expect(200);
    assert_eq!(count(id, 2).await, 1);
    // Commits that come later say what they close, too.
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

async fn projects_may_close_nothing_and_nobody_closes_what_they_cannot_see(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "quiet").await;
    let id = project.id;
    let hidden = Project::filled(&server, "hidden", Visibility::Private).await;
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

async fn an_issue_counts_the_merge_requests_that_its_reader_sees(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "counted").await;
    let id = project.id;
    let hidden = Project::filled(&server, "hidden", Visibility::Private).await;
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
    let outsider = server.person("outsider").await.client;
    for (who, client, counts) in [
        ("root", &root, [2, 1]),
        ("insider", &insider, [2, 1]),
        ("guest", &guest, [1, 0]),
        ("outsider", &outsider, [1, 0]),
    ] {
        let list = client.get(&format!("/projects/{id}/issues?order_by=created_at&sort=asc")).await.expect(200);
        assert_eq!(list.pluck("merge_requests_count"), counts.map(|count| json!(count)), "{who}");
        let one = client.get(&format!("/projects/{id}/issues/1")).await.expect(200).json();
        assert_eq!(one["merge_requests_count"], counts[0], "{who}");
    }
    let waiting = outsider.post(&format!("/projects/{id}/issues/1/todo"), json!({})).await.expect(201).json();
    assert_eq!(waiting["target"]["merge_requests_count"], 1);
    // Nor are they told what closed it.
    root.put(&format!("/projects/{}/merge_requests/1/merge", hidden.id), json!({})).await.expect(200);
    server.finish_jobs().await;
    let notes = format!("/projects/{id}/issues/2/notes");
    let told = root.get(&notes).await.expect(200).pluck("body");
    assert!(told.contains(&json!("closed via merge request root/hidden!1")), "{told:?}");
    assert_eq!(insider.get(&notes).await.expect(200).pluck("body"), told);
    for client in [&guest, &outsider] {
        let seen = client.get(&notes).await.expect(200);
        assert_eq!((seen.json(), seen.header("X-Total")), (json!([]), "0"));
    }
    let closed = outsider.get(&format!("/projects/{id}/issues/2")).await.expect(200).json();
    assert_eq!((&closed["state"], &closed["user_notes_count"]), (&json!("closed"), &json!(0)));
}

async fn what_is_closed_is_counted_again_when_the_project_decides_otherwise(server: TestServer) {
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
    let shut = propose(&root, id, "y", "main", json!({"description": "Closes #3"})).await;
    let shut = format!("/projects/{id}/merge_requests/{shut}");
    root.put(&shut, json!({"state_event": "close"})).await.expect(200);
    let closed = async || {
        let mut all = Vec::new();
        for path in [&first, &second, &shut] {
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
    let say = async |change: serde_json::Value| {
        root.put(&format!("/projects/{id}"), change).await.expect(200);
        server.finish_jobs().await;
    };
    assert_eq!(closed().await, "one three");
    say(json!({"default_branch": "merged"})).await;
    assert_eq!(closed().await, "two");
    say(json!({"autoclose_referenced_issues": false})).await;
    assert_eq!(closed().await, "");
    say(json!({"default_branch": "main"})).await;
    assert_eq!(closed().await, "");
    say(json!({"autoclose_referenced_issues": true})).await;
    assert_eq!(closed().await, "one");
    // What is closed is looked at again when it is opened.
    root.put(&shut, json!({"state_event": "reopen"})).await.expect(200);
    assert_eq!(closed().await, "one three");
    // What was merged has closed what it closed.
    root.put(&format!("{first}/merge"), json!({})).await.expect(200);
    server.finish_jobs().await;
    say(json!({"autoclose_referenced_issues": false})).await;
    assert_eq!(closed().await, "one");
    // Whatever else changes has nothing counted.
    root.put(&format!("/projects/{id}"), json!({"description": "d", "default_branch": "main"})).await.expect(200);
    let waiting = storage::jobs::backlog(server.backend.database.read()).await.expect("the jobs");
    assert_eq!(waiting.waiting, 0);
}

async fn what_an_issue_names_is_related_to_it(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "related").await;
    let id = project.id;
    project.import(&NewCommit {
        branch: "y",
        from: Some("refs/heads/main"),
        changes: file("y.txt", "y\n"),
        ..NewCommit::default()
    });
    let hidden = Project::filled(&server, "hidden", Visibility::Private).await;
    propose(&root, hidden.id, "feature/x", "main", json!({"title": "hush"})).await;
    propose(&root, id, "feature/x", "main", json!({"title": "named"})).await;
    let text = format!("See !1 and {}/root/hidden/-/merge_requests/1", server.base);
    let issue = open(&root, id, json!({"title": "i", "description": text})).await;
    propose(&root, id, "y", "main", json!({"title": "closes", "description": format!("Closes #{issue}")})).await;
    propose(&root, id, "y", "merged", json!({"title": "noted"})).await;
    let path = format!("/projects/{id}/issues/{issue}");
    root.post(&format!("{path}/notes"), json!({"body": "and related!3"})).await.expect(201);
    let found = async |client: &crate::support::Client, what: &str| {
        client.get(&format!("{path}/{what}")).await.expect(200).pluck("title")
    };
    assert_eq!(
        found(&root, "related_merge_requests").await,
        ["hush", "named", "closes", "noted"].map(|title| json!(title))
    );
    let nobody = server.anonymous();
    assert_eq!(found(&nobody, "related_merge_requests").await, ["named", "closes", "noted"].map(|title| json!(title)));
    assert_eq!(found(&nobody, "closed_by").await, [json!("closes")]);
    let ann = server.person("ann").await;
    let narrow = server.with_token(&server.token_of(ann.id, &["read_user"]).await);
    for what in ["related_merge_requests", "closed_by"] {
        root.get(&format!("/projects/{id}/issues/99/{what}")).await.expect(404);
        root.get(&format!("/projects/{id}/issues/x/{what}")).await.expect(400);
        narrow.get(&format!("{path}/{what}")).await.expect(403);
        server.with_token("nonsense").get(&format!("{path}/{what}")).await.expect(401);
    }
}

async fn issues_are_told_what_closed_them_as_it_is_named_from_there(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "closing").await;
    let other = Project::filled(&server, "elsewhere", Visibility::Public).await;
    for id in [project.id, other.id] {
        open(&root, id, json!({"title": "t"})).await;
    }
    let iid =
        propose(&root, project.id, "feature/x", "main", json!({"description": "Closes #1, root/elsewhere#1"})).await;
    root.put(&format!("/projects/{}/merge_requests/{iid}/merge", project.id), json!({})).await.expect(200);
    server.finish_jobs().await;
    for (id, via) in [(project.id, format!("!{iid}")), (other.id, format!("root/closing!{iid}"))] {
        let mut notes = root.get(&format!("/projects/{id}/issues/1/notes")).await.expect(200).pluck("body");
        // The commit of the merge may say so too, in a job of its own.
        let of_commit =
            |note: &serde_json::Value| note.as_str().is_some_and(|note| note.starts_with("mentioned in commit "));
        notes.retain(|note| !of_commit(note));
        let told = ["closed via", "mentioned in"].map(|how| json!(format!("{how} merge request {via}")));
        assert_eq!(notes, told);
    }
}

async fn a_change_to_what_is_so_already_is_none(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "same").await;
    let said = json!({"title": "t", "description": "d", "labels": "a", "squash": true});
    let iid = propose(&root, project.id, "feature/x", "main", said.clone()).await;
    let path = format!("/projects/{}/merge_requests/{iid}", project.id);
    let before = root.get(&path).await.expect(200).json();
    for same in [said, json!({"target_branch": "main"}), json!({"milestone_id": 0})] {
        let after = root.put(&path, same.clone()).await.expect(200).json();
        assert_eq!(after["updated_at"], before["updated_at"], "{same}");
    }
    let after = root.put(&path, json!({"squash": false})).await.expect(200).json();
    assert_ne!(after["updated_at"], before["updated_at"]);
}

on_every_database![
    descriptions_and_commits_say_what_is_closed,
    projects_may_close_nothing_and_nobody_closes_what_they_cannot_see,
    an_issue_counts_the_merge_requests_that_its_reader_sees,
    what_is_closed_is_counted_again_when_the_project_decides_otherwise,
    what_an_issue_names_is_related_to_it,
    issues_are_told_what_closed_them_as_it_is_named_from_there,
    a_change_to_what_is_so_already_is_none,
];
