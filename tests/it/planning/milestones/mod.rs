//! Milestones of projects and groups.

use sea_orm::{ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{issues, milestones};

use crate::planning::boards::{board, list};
use crate::support::spaces::{group, id, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a milestone below `/projects/:id` or `/groups/:id` and returns its ID.
pub async fn milestone(client: &Client, parent: &str, title: &str) -> i64 {
    let body = json!({ "title": title });
    id(&client.post(&format!("{parent}/milestones"), body).await.expect(201).json())
}

/// Creates an issue of a milestone and returns its ID.
async fn issue_of(server: &TestServer, project_id: i64, iid: i64, milestone_id: i64) -> i64 {
    let issue = server.insert_issue(project_id, iid, &[]).await.id;
    server.update_issue_row(issue, |row| row.milestone_id = Set(Some(milestone_id))).await;
    issue
}

async fn milestones_can_be_created_read_updated_and_deleted(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let team = group(&root, "team", json!({})).await;
    let base = root.get(&format!("/groups/{team}")).await.expect(200).json()["web_url"].clone();
    let base = base.as_str().expect("an address").trim_end_matches("/groups/team").to_owned();
    for (parent, page) in [
        (format!("/projects/{work}"), format!("{base}/root/work/-/milestones/1")),
        (format!("/groups/{team}"), format!("{base}/groups/team/-/milestones/1")),
    ] {
        let all = format!("{parent}/milestones");
        let body =
            json!({ "title": " v1 ", "description": "First", "start_date": "2020-01-01", "due_date": "2020-01-31" });
        let created = root.post(&all, body.clone()).await.expect(201).json();
        let mut expected = json!({
            "id": created["id"], "iid": 1, "title": "v1", "description": "First", "state": "active",
            "start_date": "2020-01-01", "due_date": "2020-01-31", "expired": true, "web_url": page,
            "created_at": created["created_at"], "updated_at": created["updated_at"],
        });
        match parent.starts_with("/projects") {
            true => expected["project_id"] = json!(work),
            false => expected["group_id"] = json!(team),
        }
        assert_eq!(created, expected);
        let taken = root.post(&all, body).await.expect(400).json()["message"].clone();
        assert_eq!(taken, json!({ "title": ["already being used for another group or project milestone."] }));
        let one = format!("{all}/{}", created["id"]);
        assert_eq!(root.get(&one).await.expect(200).json(), expected);
        let change = json!({ "title": "v1.0", "description": null, "due_date": null, "state_event": "close" });
        let changed = root.put(&one, change).await.expect(200).json();
        assert_eq!((&changed["title"], &changed["description"]), (&json!("v1.0"), &Value::Null));
        assert_eq!((&changed["due_date"], &changed["expired"]), (&Value::Null, &json!(false)));
        assert_eq!((&changed["start_date"], &changed["state"]), (&json!("2020-01-01"), &json!("closed")));
        let again = root.put(&one, json!({ "state_event": "activate", "title": "v1.0" })).await.expect(200).json();
        assert_eq!(again["state"], "active");
        let second = milestone(&root, &parent, "second").await;
        root.put(&format!("{all}/{second}"), json!({ "title": "v1.0" })).await.expect(400);
        let early = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        early.delete(&one).await.expect(412);
        root.delete(&one).await.expect(204);
        root.delete(&one).await.expect(404);
        assert_eq!(root.get(&one).await.expect(404).message(), "404 Milestone Not Found");
        root.put(&one, json!({ "title": "x" })).await.expect(404);
        // IIDs are not reused.
        root.delete(&format!("{all}/{second}")).await.expect(204);
        milestone(&root, &parent, "third").await;
        assert_eq!(root.get(&all).await.expect(200).pluck("iid"), [3]);
    }
}

async fn create_and_update_milestone_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let all = format!("/projects/{work}/milestones");
    let refused = async |body: Value| root.post(&all, body).await.expect(400).json()["message"].clone();
    assert_eq!(refused(json!({})).await, "title is missing");
    assert_eq!(refused(json!({ "title": " " })).await, json!({ "title": ["can't be blank"] }));
    let long = json!({ "title": ["is too long (maximum is 255 characters)"] });
    assert_eq!(refused(json!({ "title": "x".repeat(256) })).await, long);
    let order = json!({ "due_date": ["must be greater than start date"] });
    let days = json!({ "title": "a", "start_date": "2020-01-02", "due_date": "2020-01-01" });
    assert_eq!(refused(days).await, order);
    let one = milestone(&root, &format!("/projects/{work}"), "a").await;
    let one = format!("{all}/{one}");
    root.put(&one, json!({ "start_date": "2020-01-02", "due_date": "2020-01-02" })).await.expect(200);
    let late = root.put(&one, json!({ "start_date": "2020-01-03" })).await.expect(400).json();
    assert_eq!(late["message"], order);
    root.put(&one, json!({})).await.expect(400);
    root.put(&one, json!({ "state_event": "open" })).await.expect(400);
    root.put(&one, json!({ "due_date": "soon" })).await.expect(400);
}

async fn list_milestones_applies_filters_and_includes_parents_on_request(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let low = group(&root, "low", json!({ "parent_id": top })).await;
    let work = project(&root, "work", json!({ "namespace_id": low })).await;
    let (top, low, work) = (format!("/groups/{top}"), format!("/groups/{low}"), format!("/projects/{work}"));
    milestone(&root, &top, "Above").await;
    milestone(&root, &low, "between").await;
    for title in ["a", "b", "c_d"] {
        milestone(&root, &work, title).await;
    }
    let closed = milestone(&root, &work, "closed").await;
    root.put(&format!("{work}/milestones/{closed}"), json!({ "state_event": "close", "description": "Was b" }))
        .await
        .expect(200);
    let titles = async |parent: &str, query: &str| {
        root.get(&format!("{parent}/milestones?{query}")).await.expect(200).pluck("title")
    };
    assert_eq!(titles(&work, "").await, ["closed", "c_d", "b", "a"]);
    assert_eq!(titles(&work, "state=closed").await, ["closed"]);
    assert_eq!(titles(&work, "state=active&per_page=2").await, ["c_d", "b"]);
    assert_eq!(titles(&work, "iids[]=1&iids[]=3").await, ["c_d", "a"]);
    assert_eq!(titles(&work, "title=b").await, ["b"]);
    assert_eq!(titles(&work, "search=B").await, ["closed", "b"]);
    assert_eq!(titles(&work, "search=_").await, ["c_d"]);
    assert_eq!(titles(&low, "include_parent_milestones=true").await, ["between", "Above"]);
    let all = root.get(&format!("{work}/milestones?include_parent_milestones=true&search=e")).await.expect(200);
    assert_eq!(all.pluck("title"), ["closed", "between", "Above"]);
    let pages = all.pluck("web_url");
    assert!(pages[2].as_str().expect("an address").ends_with("/groups/top/-/milestones/1"), "{pages:?}");
    root.get(&format!("{work}/milestones?state=open")).await.expect(400);
    // A title is unique among ancestors and descendants.
    root.post(&format!("{work}/milestones"), json!({ "title": "Above" })).await.expect(400);
    root.post(&format!("{low}/milestones"), json!({ "title": "Above" })).await.expect(400);
}

async fn milestone_writes_require_developer_and_reads_require_visibility(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let team = group(&root, "team", json!({ "visibility": "public" })).await;
    for (number, parent) in [format!("/projects/{work}"), format!("/groups/{team}")].iter().enumerate() {
        let all = format!("{parent}/milestones");
        let reporter = server.create_user(&format!("reporter-{number}")).await;
        let developer = server.create_user(&format!("developer-{number}")).await;
        join(&root, parent, reporter.id, 20).await;
        join(&root, parent, developer.id, 30).await;
        let one = milestone(&developer.client, parent, "v1").await;
        let one = format!("{all}/{one}");
        server.anonymous().get(&all).await.expect(200);
        server.anonymous().get(&one).await.expect(200);
        server.anonymous().post(&all, json!({ "title": "x" })).await.expect(401);
        reporter.client.post(&all, json!({ "title": "x" })).await.expect(403);
        reporter.client.put(&one, json!({ "title": "x" })).await.expect(403);
        reporter.client.delete(&one).await.expect(403);
    }
    let off = json!({ "issues_access_level": "disabled", "merge_requests_access_level": "private" });
    root.put(&format!("/projects/{work}"), off).await.expect(200);
    server.anonymous().get(&format!("/projects/{work}/milestones")).await.expect(403);
    let other = project(&root, "other", json!({})).await;
    let one = milestone(&root, &format!("/projects/{other}"), "v1").await;
    root.get(&format!("/projects/{work}/milestones/{one}")).await.expect(404);
}

async fn milestone_due_date_is_copied_to_its_items(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let one = milestone(&root, &format!("/projects/{work}"), "v1").await;
    let issue = issue_of(&server, work, 1, one).await;
    let request = server.insert_merge_request(work, 1, &[], Some(one)).await;
    let one = format!("/projects/{work}/milestones/{one}");
    let due = async || {
        let of_request: Option<chrono::NaiveDate> = server.merge_request(request, "milestone_due_on").await;
        let row = server.issue(issue).await;
        assert_eq!(row.milestone_due_on, of_request);
        (row.milestone_id.is_some(), of_request.map(|day| day.to_string()))
    };
    root.put(&one, json!({ "due_date": "2030-01-31" })).await.expect(200);
    assert_eq!(due().await, (true, Some("2030-01-31".to_owned())));
    root.put(&one, json!({ "title": "v2" })).await.expect(200);
    assert_eq!(due().await, (true, Some("2030-01-31".to_owned())));
    root.put(&one, json!({ "due_date": null })).await.expect(200);
    assert_eq!(due().await, (true, None));
    root.put(&one, json!({ "due_date": "2030-02-28" })).await.expect(200);
    root.delete(&one).await.expect(204);
    assert_eq!(due().await, (false, None));
}

async fn project_milestone_changes_create_events(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let one = milestone(&root, &format!("/projects/{work}"), "v1").await;
    let path = format!("/projects/{work}/milestones/{one}");
    for event in ["close", "close", "activate"] {
        root.put(&path, json!({ "state_event": event })).await.expect(200);
    }
    root.delete(&path).await.expect(204);
    let events = root.get(&format!("/projects/{work}/events?target_type=milestone")).await.expect(200);
    assert_eq!(events.json().as_array().expect("a list").len(), 4);
    assert_eq!(events.pluck("target_title"), ["v1", "v1", "v1", "v1"]);
    assert_eq!(events.pluck("target_iid"), [1, 1, 1, 1]);
    for (action, number) in [("created", 1), ("closed", 1), ("reopened", 1), ("destroyed", 1)] {
        let some =
            root.get(&format!("/projects/{work}/events?target_type=milestone&action={action}")).await.expect(200);
        assert_eq!(some.json().as_array().expect("a list").len(), number, "{action}");
    }
}

async fn milestone_events_require_issues_or_merge_requests(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({ "visibility": "public" })).await;
    let url = format!("/projects/{work}");
    let [member, stranger] = [server.create_user("member").await, server.create_user("stranger").await];
    join(&root, &url, member.id, 30).await;
    milestone(&member.client, &url, "v1").await;
    // An event of a deleted milestone has no target.
    let deleted = milestone(&member.client, &url, "v2").await;
    member.client.delete(&format!("{url}/milestones/{deleted}")).await.expect(204);
    let lists = [format!("{url}/events"), "/users/member/events".to_owned(), "/events?scope=all".to_owned()];
    let counts = async |client: &Client, lists: &[String]| {
        let mut counts = Vec::new();
        for list in lists {
            let separator = if list.contains('?') { '&' } else { '?' };
            let events = client.get(&format!("{list}{separator}target_type=milestone")).await.expect(200);
            counts.push(events.json().as_array().expect("a list").len());
        }
        counts
    };
    for (issues, merge_requests, outside, inside, administrator) in [
        ("enabled", "disabled", 3, 3, 3),
        ("private", "enabled", 3, 3, 3),
        ("private", "private", 0, 3, 3),
        ("disabled", "private", 0, 3, 3),
        ("disabled", "disabled", 0, 0, 0),
    ] {
        let levels = json!({ "issues_access_level": issues, "merge_requests_access_level": merge_requests });
        root.put(&url, levels).await.expect(200);
        let case = format!("{issues} {merge_requests}");
        assert_eq!(counts(&server.anonymous(), &lists[..2]).await, [outside; 2], "{case}");
        assert_eq!(counts(&stranger.client, &lists).await, [outside, outside, 0], "{case}");
        assert_eq!(counts(&member.client, &lists).await, [inside; 3], "{case}");
        assert_eq!(counts(&root, &lists).await, [administrator; 3], "{case}");
    }
}

async fn promote_milestone_replaces_milestones_of_the_same_title(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": team })).await;
    let outside = project(&root, "outside", json!({})).await;
    let mut created = Vec::new();
    for parent in [work, other, outside] {
        let one = milestone(&root, &format!("/projects/{parent}"), "v1").await;
        created.push((one, issue_of(&server, parent, 1, one).await));
    }
    let path = format!("/projects/{work}/milestones/{}", created[0].0);
    root.put(&path, json!({ "due_date": "2030-01-31", "state_event": "close" })).await.expect(200);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/projects/{work}"), ada.id, 40).await;
    ada.client.post(&format!("{path}/promote"), json!({})).await.expect(403);
    let promoted = root.post(&format!("{path}/promote"), json!({})).await.expect(200).json();
    assert_eq!((&promoted["group_id"], &promoted["iid"]), (&json!(team), &json!(1)));
    assert_eq!((&promoted["due_date"], &promoted["state"]), (&json!("2030-01-31"), &json!("closed")));
    let mut issues: Vec<issues::Model> = Vec::new();
    for (_, issue) in &created {
        issues.push(server.issue(*issue).await);
    }
    let assigned: Vec<_> = issues.iter().map(|issue| json!(issue.milestone_id) == promoted["id"]).collect();
    assert_eq!(assigned, [true, true, false]);
    assert_eq!(issues[1].milestone_due_on.map(|day| day.to_string()).as_deref(), Some("2030-01-31"));
    let remaining = milestones::Entity::find().count(server.backend.database.read()).await.expect("milestones");
    assert_eq!(remaining, 2);
    root.post(&format!("{path}/promote"), json!({})).await.expect(404);
    let without_group = format!("/projects/{outside}/milestones/{}/promote", created[2].0);
    root.post(&without_group, json!({})).await.expect(400);
}

async fn promote_milestone_merges_lists_of_a_board(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let parent = format!("/projects/{work}");
    // The group milestone is created last, because its title must be free in the ancestors of the project.
    let own = milestone(&root, &parent, "1.0").await;
    let of_group = milestone(&root, &format!("/groups/{team}"), "1.0").await;
    let boards = [board(&root, &parent, "both").await, board(&root, &parent, "own").await];
    list(&root, &parent, boards[0], json!({ "milestone_id": own })).await;
    let remaining = list(&root, &parent, boards[0], json!({ "milestone_id": of_group })).await;
    let replaced = list(&root, &parent, boards[1], json!({ "milestone_id": own })).await;
    let promoted = root.post(&format!("{parent}/milestones/{own}/promote"), json!({})).await.expect(200).json();
    assert_eq!(promoted["id"], of_group);
    for (board, list) in boards.into_iter().zip([remaining, replaced]) {
        let lists = root.get(&format!("{parent}/boards/{board}/lists")).await.expect(200);
        assert_eq!(lists.pluck("id"), [json!(list)]);
        assert_eq!(lists.json()[0]["milestone"]["id"], of_group);
    }
}

async fn promotion_preserves_concurrent_assignments(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": team })).await;
    let issue = server.insert_issue(other, 1, &[]).await.id;
    for round in 0..10 {
        let title = format!("v{round}");
        let promoted = milestone(&root, &format!("/projects/{work}"), &title).await;
        let former = milestone(&root, &format!("/projects/{other}"), &title).await;
        let promoted = format!("/projects/{work}/milestones/{promoted}");
        root.put(&promoted, json!({ "due_date": "2030-01-31" })).await.expect(200);
        let (promote, issue_path) = (format!("{promoted}/promote"), format!("/projects/{other}/issues/1"));
        let assign = root.put(&issue_path, json!({ "milestone_id": former }));
        let (promoted, assigned) = tokio::join!(root.post(&promote, json!({})), assign);
        let promoted = promoted.expect(200).json();
        // The milestone may be replaced before it is assigned.
        assert!([200, 400].contains(&assigned.status), "{assigned:?}");
        if assigned.status == 200 {
            let row = server.issue(issue).await;
            assert_eq!(json!(row.milestone_id), promoted["id"], "round {round}");
            assert_eq!(row.milestone_due_on.map(|day| day.to_string()).as_deref(), Some("2030-01-31"));
        }
    }
}

async fn concurrent_promotions_create_one_milestone(server: TestServer) {
    let root = server.root();
    let team = group(&root, "team", json!({})).await;
    let work = project(&root, "work", json!({ "namespace_id": team })).await;
    let other = project(&root, "other", json!({ "namespace_id": team })).await;
    for round in 0..6 {
        let title = format!("v{round}");
        let mut paths = Vec::new();
        for parent in [work, other] {
            let one = milestone(&root, &format!("/projects/{parent}"), &title).await;
            paths.push(format!("/projects/{parent}/milestones/{one}/promote"));
        }
        let (one, two) = tokio::join!(root.post(&paths[0], json!({})), root.post(&paths[1], json!({})));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404], "round {round}");
    }
}

async fn concurrent_creates_assign_unique_iids(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    let parent = format!("/projects/{work}");
    let many = (0..6).map(|number| {
        let (root, parent) = (root.clone(), parent.clone());
        async move { milestone(&root, &parent, &format!("m{number}")).await }
    });
    futures_util::future::join_all(many).await;
    let mut iids: Vec<i64> = root
        .get(&format!("{parent}/milestones"))
        .await
        .expect(200)
        .pluck("iid")
        .iter()
        .filter_map(Value::as_i64)
        .collect();
    iids.sort_unstable();
    assert_eq!(iids, [1, 2, 3, 4, 5, 6]);
}

on_every_database![
    milestones_can_be_created_read_updated_and_deleted,
    create_and_update_milestone_reject_invalid_attributes,
    list_milestones_applies_filters_and_includes_parents_on_request,
    milestone_writes_require_developer_and_reads_require_visibility,
    milestone_due_date_is_copied_to_its_items,
    project_milestone_changes_create_events,
    milestone_events_require_issues_or_merge_requests,
    promote_milestone_replaces_milestones_of_the_same_title,
    promote_milestone_merges_lists_of_a_board,
    promotion_preserves_concurrent_assignments,
    concurrent_promotions_create_one_milestone,
    concurrent_creates_assign_unique_iids,
];
