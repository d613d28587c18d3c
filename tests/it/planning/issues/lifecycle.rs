//! Creating, reading, updating, closing, reopening and deleting issues.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::json;
use storage::entities::{AccessLevel, Visibility, iid_counters};

use super::{open, public_project, system_notes};
use crate::planning::epics::epic;
use crate::review::merge_requests::propose;
use crate::support::code::Project;
use crate::support::spaces::{group, join};
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn get_issue_returns_all_fields(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "shown").await;
    let ann = server.create_user("ann").await;
    let body = json!({
        "title": "  Broken  ",
        "description": "- [x] one\n- [ ] two",
        "labels": "bug, regression",
        "assignee_ids": [ann.id],
        "due_date": "2030-02-03",
        "weight": 3,
    });
    let created = root.post(&format!("/projects/{id}/issues"), body).await.expect(201).json();
    let base = &server.base;
    assert_eq!((&created["iid"], &created["project_id"], &created["title"]), (&json!(1), &json!(id), &json!("Broken")));
    assert_eq!(
        (&created["state"], &created["closed_at"], &created["closed_by"]),
        (&json!("opened"), &json!(null), &json!(null))
    );
    assert_eq!(created["labels"], json!(["bug", "regression"]));
    assert_eq!((&created["assignee"]["username"], &created["assignees"][0]["id"]), (&json!("ann"), &json!(ann.id)));
    assert_eq!(
        (&created["due_date"], &created["weight"], &created["milestone"]),
        (&json!("2030-02-03"), &json!(3), &json!(null))
    );
    assert_eq!((&created["confidential"], &created["discussion_locked"]), (&json!(false), &json!(false)));
    assert_eq!(created["task_completion_status"], json!({"count": 2, "completed_count": 1}));
    assert_eq!((&created["has_tasks"], &created["task_status"]), (&json!(true), &json!("1 of 2 tasks completed")));
    assert_eq!(created["references"], json!({"short": "#1", "relative": "#1", "full": "of-shown/shown#1"}));
    assert_eq!(created["reference"], "#1");
    assert_eq!(created["web_url"], format!("{base}/of-shown/shown/-/issues/1"));
    let this = format!("{base}/api/v4/projects/{id}/issues/1");
    assert_eq!(created["_links"]["self"], this);
    assert_eq!(created["_links"]["notes"], format!("{this}/notes"));
    assert_eq!(created["_links"]["award_emoji"], format!("{this}/award_emoji"));
    assert_eq!(created["_links"]["project"], format!("{base}/api/v4/projects/{id}"));
    assert_eq!(
        created["time_stats"],
        json!({
            "time_estimate": 0, "total_time_spent": 0, "human_time_estimate": null, "human_total_time_spent": null,
        })
    );
    for count in ["upvotes", "downvotes", "merge_requests_count", "user_notes_count"] {
        assert_eq!(created[count], 0, "{count}");
    }
    assert_eq!((&created["moved_to_id"], &created["subscribed"]), (&json!(null), &json!(true)));
    assert_eq!(root.get(&format!("/projects/{id}/issues/1")).await.expect(200).json(), created);
    let seen = server.anonymous().get("/projects/of-shown%2Fshown/issues/1").await.expect(200).json();
    assert!(seen.get("subscribed").is_none());
    let narrow = server.create_token(ann.id, &["read_user"]).await;
    server.with_token(&narrow).get(&format!("/projects/{id}/issues/1")).await.expect(403);
}

async fn create_and_update_issue_reject_invalid_attributes(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "refused").await;
    let path = format!("/projects/{id}/issues");
    assert_eq!(root.post(&path, json!({})).await.expect(400).json()["message"], "title is missing");
    let blank = root.post(&path, json!({"title": "  "})).await.expect(400).json();
    assert_eq!(blank["message"], json!({"title": ["can't be blank"]}));
    let long = root.post(&path, json!({"title": "x".repeat(256)})).await.expect(400).json();
    assert!(long["message"].to_string().contains("too long (maximum is 255 characters)"), "{long}");
    root.post(&path, json!({"title": "ü".repeat(255)})).await.expect(201);
    root.post(&path, json!({"title": "t", "milestone_id": 99})).await.expect(400);
    root.post(&path, json!({"title": "t", "labels": ["x".repeat(256)]})).await.expect(400);
    root.post(&path, json!({"title": "t", "weight": -1})).await.expect(400);
    let empty = root.put(&format!("{path}/1"), json!({})).await.expect(400).json();
    assert!(empty["message"].as_str().expect("a text").ends_with("at least one parameter must be provided"));
    root.put(&format!("{path}/1"), json!({"state_event": "burn"})).await.expect(400);
    root.put(&format!("{path}/1"), json!({"title": " "})).await.expect(400);
    for missing in ["99", "0", "-1"] {
        let missing = root.get(&format!("{path}/{missing}")).await.expect(404).json();
        assert_eq!(missing["message"], "404 Issue Not Found");
    }
    root.get(&format!("{path}/one")).await.expect(400);
    let huge = root.post(&path, json!({"title": "t", "description": "x".repeat(5 << 20)})).await;
    huge.expect(413);
    root.post(&path, json!({"title": "t", "description": "x".repeat((1 << 20) + 1)})).await.expect(400);
    let gaps = root.get(&path).await.expect(200).pluck("iid");
    assert_eq!(gaps, [json!(1)], "rejected requests do not use an IID");
}

async fn update_issue_accepts_only_an_empty_list(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "lists").await;
    let path = format!("/projects/{id}/issues/{}", open(&root, id, json!({"title": "t"})).await);
    let before = root.get(&path).await.expect(200).json();
    for name in ["assignee_ids", "labels", "add_labels", "remove_labels"] {
        let updated = root.put(&path, json!({name: []})).await.expect(200).json();
        assert_eq!(updated["updated_at"], before["updated_at"], "{name}");
    }
    root.put(&path, json!({})).await.expect(400);
}

async fn update_issue_changes_sent_fields_and_writes_system_notes(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "edited").await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let iid = open(&root, id, json!({"title": "old words", "labels": "a,b", "assignee_id": ann.id})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let change = json!({
        "title": "new words",
        "description": "More",
        "assignee_ids": [ben.id],
        "add_labels": "c",
        "remove_labels": "a",
        "due_date": "2030-12-01",
        "weight": 5,
        "confidential": true,
        "discussion_locked": true,
    });
    let changed = root.put(&path, change).await.expect(200).json();
    assert_eq!((&changed["title"], &changed["description"]), (&json!("new words"), &json!("More")));
    assert_eq!(changed["labels"], json!(["b", "c"]));
    assert_eq!(changed["assignees"][0]["username"], "ben");
    assert_eq!((&changed["weight"], &changed["due_date"]), (&json!(5), &json!("2030-12-01")));
    assert_eq!((&changed["confidential"], &changed["discussion_locked"]), (&json!(true), &json!(true)));
    assert!(changed["updated_at"].as_str() > changed["created_at"].as_str());
    assert_eq!(
        system_notes(&server, id, iid).await,
        [
            "changed title from **{-old-} words** to **{+new+} words**",
            "changed the description",
            "changed due date to December 1, 2030",
            "changed weight to **5**",
            "made the issue confidential",
            "locked this issue",
            "assigned to @ben and unassigned @ann",
        ]
    );
    // Empty strings and zeros clear a field; omitted fields are unchanged.
    let cleared = json!({"labels": "", "assignee_ids": [0], "due_date": "", "weight": null, "description": ""});
    let cleared = root.put(&path, cleared).await.expect(200).json();
    assert_eq!(
        (&cleared["labels"], &cleared["assignees"], &cleared["assignee"]),
        (&json!([]), &json!([]), &json!(null))
    );
    assert_eq!((&cleared["due_date"], &cleared["weight"]), (&json!(null), &json!(null)));
    assert_eq!((&cleared["title"], &cleared["confidential"]), (&json!("new words"), &json!(true)));
    // A form can clear the assignees only with an empty string.
    root.put(&path, json!({"assignee_ids": [ben.id]})).await.expect(200);
    let form = root.request(reqwest::Method::PUT, &path).form(&[("assignee_ids[]", "")]);
    assert_eq!(root.send(form).await.expect(200).json()["assignees"], json!([]));
    // The same values again change nothing and write no system note.
    let before = system_notes(&server, id, iid).await.len();
    root.put(&path, json!({"title": "new words", "confidential": true, "labels": ""})).await.expect(200);
    assert_eq!(system_notes(&server, id, iid).await.len(), before);
}

async fn issue_can_be_closed_and_reopened(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "closed").await;
    let iid = open(&root, id, json!({"title": "t"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let closed = root.put(&path, json!({"state_event": "close"})).await.expect(200).json();
    assert_eq!((&closed["state"], &closed["closed_by"]["username"]), (&json!("closed"), &json!("root")));
    assert!(closed["closed_at"].is_string());
    let again = root.put(&path, json!({"state_event": "close"})).await.expect(200).json();
    assert_eq!(again["closed_at"], closed["closed_at"]);
    let opened = root.put(&path, json!({"state_event": "reopen"})).await.expect(200).json();
    assert_eq!(
        (&opened["state"], &opened["closed_at"], &opened["closed_by"]),
        (&json!("opened"), &json!(null), &json!(null))
    );
    assert_eq!(system_notes(&server, id, iid).await, ["closed", "reopened"]);
    let events = root.get(&format!("/projects/{id}/events?target_type=issue")).await.expect(200).pluck("action_name");
    assert_eq!(events, [json!("reopened"), json!("closed"), json!("opened")]);
}

async fn open_issues_count_excludes_closed_and_confidential_issues(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "counted").await;
    let count = async || root.get(&format!("/projects/{id}")).await.expect(200).json()["open_issues_count"].clone();
    assert_eq!(count().await, 0);
    let iid = open(&root, id, json!({"title": "t"})).await;
    open(&root, id, json!({"title": "hush", "confidential": true})).await;
    assert_eq!(count().await, 1);
    let path = format!("/projects/{id}/issues/{iid}");
    for (change, left) in [
        (json!({"state_event": "close"}), 0),
        (json!({"state_event": "reopen"}), 1),
        (json!({"confidential": true}), 0),
        (json!({"confidential": false, "title": "new"}), 1),
    ] {
        root.put(&path, change).await.expect(200);
        assert_eq!(count().await, left);
    }
    let other = public_project(&server, "other").await;
    root.post(&format!("{path}/move"), json!({"to_project_id": other})).await.expect(201);
    assert_eq!(count().await, 0);
    let path = format!("/projects/{other}/issues/1");
    assert_eq!(root.get(&format!("/projects/{other}")).await.expect(200).json()["open_issues_count"], 1);
    root.delete(&path).await.expect(204);
    assert_eq!(root.get(&format!("/projects/{other}")).await.expect(200).json()["open_issues_count"], 0);
}

async fn delete_issue_succeeds_once_and_does_not_reuse_iid(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "removed").await;
    let iid = open(&root, id, json!({"title": "t", "labels": "bug"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let old = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&path).await.expect(412);
    root.delete(&path).await.expect(204);
    root.delete(&path).await.expect(404);
    root.get(&path).await.expect(404);
    assert_eq!(open(&root, id, json!({"title": "next"})).await, iid + 1);
}

async fn create_issue_accepts_iid_and_created_at_from_owners_only(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "chosen").await;
    let ann = server.create_user("ann").await;
    let chosen = json!({"title": "t", "iid": 7, "created_at": "2020-01-02T03:04:05Z"});
    let created = root.post(&format!("/projects/{id}/issues"), chosen.clone()).await.expect(201).json();
    assert_eq!((&created["iid"], &created["created_at"]), (&json!(7), &json!("2020-01-02T03:04:05.000Z")));
    let taken = root.post(&format!("/projects/{id}/issues"), chosen.clone()).await.expect(409).json();
    assert_eq!(taken["message"], "Duplicated issue");
    let created = ann.client.post(&format!("/projects/{id}/issues"), chosen).await.expect(201).json();
    assert_eq!(created["iid"], 8, "an IID sent by other users is ignored");
    assert!(created["created_at"].as_str() > Some("2021"));
    assert_eq!(open(&root, id, json!({"title": "t", "iid": 3})).await, 3);
    assert_eq!(open(&root, id, json!({"title": "t"})).await, 9);
}

async fn subscribe_and_unsubscribe_change_subscribed_state(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "watched").await;
    let ann = server.create_user("ann").await;
    let iid = open(&root, id, json!({"title": "t"})).await;
    let path = format!("/projects/{id}/issues/{iid}");
    assert_eq!(ann.client.get(&path).await.expect(200).json()["subscribed"], false);
    let subscribed = ann.client.post(&format!("{path}/subscribe"), json!({})).await.expect(201).json();
    assert_eq!(subscribed["subscribed"], true);
    assert!(ann.client.post(&format!("{path}/subscribe"), json!({})).await.expect(304).body.is_empty());
    assert_eq!(ann.client.get(&path).await.expect(200).json()["subscribed"], true);
    let unsubscribed = ann.client.post(&format!("{path}/unsubscribe"), json!({})).await.expect(201).json();
    assert_eq!(unsubscribed["subscribed"], false);
    ann.client.post(&format!("{path}/unsubscribe"), json!({})).await.expect(304);
    // The author is subscribed by default.
    root.post(&format!("{path}/subscribe"), json!({})).await.expect(304);
    let participants = root.get(&format!("{path}/participants")).await.expect(200).pluck("username");
    assert_eq!(participants, [json!("root")]);
    server.anonymous().post(&format!("{path}/subscribe"), json!({})).await.expect(401);
    ann.client.post(&format!("/projects/{id}/issues/99/subscribe"), json!({})).await.expect(404);
}

async fn create_issue_fails_when_no_iid_is_left(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "numbered").await;
    let path = format!("/projects/{id}/issues");
    for number in [2_147_483_648, i64::MAX] {
        let rejected = root.post(&path, json!({"title": "t", "iid": number})).await.expect(400);
        assert_eq!(rejected.message(), "iid does not have a valid value");
    }
    assert_eq!(open(&root, id, json!({"title": "t", "iid": 2_147_483_647})).await, 2_147_483_647);
    assert_eq!(open(&root, id, json!({"title": "next"})).await, 2_147_483_648);
    let last = iid_counters::Entity::update_many()
        .col_expr(iid_counters::Column::Last, Expr::value(i64::MAX - 1))
        .filter(iid_counters::Column::ProjectId.eq(id));
    last.exec(server.backend.database.write()).await.expect("a change");
    assert_eq!(open(&root, id, json!({"title": "last"})).await, i64::MAX);
    let rejected = root.post(&path, json!({"title": "none"})).await.expect(400);
    assert_eq!(rejected.message(), "The project has reached the maximum number of items");
}

async fn update_issue_with_current_values_changes_nothing(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "same").await;
    let mut receiver = Receiver::start().await;
    let ann = server.create_user("ann").await;
    let body = json!({
        "title": "t", "description": "d", "labels": "a,b", "assignee_ids": [ann.id], "due_date": "2030-02-03",
        "weight": 2, "confidential": false, "discussion_locked": false,
    });
    let iid = open(&root, id, body.clone()).await;
    let path = format!("/projects/{id}/issues/{iid}");
    let before = root.get(&path).await.expect(200).json();
    let hook = json!({"url": receiver.url, "issues_events": true, "push_events": false});
    root.post(&format!("/projects/{id}/hooks"), hook).await.expect(201);
    for same in [body, json!({"state_event": "reopen"}), json!({"add_labels": "a"}), json!({"milestone_id": 0})] {
        assert_eq!(root.put(&path, same.clone()).await.expect(200).json(), before, "{same}");
    }
    server.finish_jobs().await;
    assert!(receiver.rest().is_empty());
    let after = root.put(&path, json!({"title": "other"})).await.expect(200).json();
    assert_ne!(after["updated_at"], before["updated_at"]);
    server.finish_jobs().await;
    assert_eq!(receiver.rest().len(), 1);
}

async fn deleted_author_is_shown_as_ghost_user(server: TestServer) {
    let root = server.root();
    let group_id = group(&root, "haunted", json!({"visibility": "public"})).await;
    let project = Project::with_commits(&server, "house", Visibility::Public).await;
    let ann = server.create_user("ann").await;
    server.insert_member(project.id, ann.id, AccessLevel::Maintainer).await;
    join(&root, &format!("/groups/{group_id}"), ann.id, 40).await;
    let iid = open(&ann.client, project.id, json!({"title": "t"})).await;
    let change = propose(&ann.client, project.id, "feature/x", "main", json!({})).await;
    let (epic, _) = epic(&ann.client, group_id, "e", json!({})).await;
    let note = root
        .post(&format!("/projects/{}/issues/{iid}/notes", project.id), json!({"body": "x"}))
        .await
        .expect(201)
        .json();
    assert_eq!(note["author"]["username"], "root");
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    for path in [
        format!("/projects/{}/issues/{iid}", project.id),
        format!("/projects/{}/merge_requests/{change}", project.id),
        format!("/groups/{group_id}/epics/{epic}"),
    ] {
        let author = root.get(&path).await.expect(200).json()["author"].clone();
        assert_eq!(
            (&author["username"], &author["name"], &author["id"]),
            (&json!("ghost"), &json!("Ghost User"), &json!(0)),
            "{path}"
        );
    }
}

async fn created_at_leap_second_is_stored_as_next_second(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "leaping").await;
    let iid = open(&root, id, json!({"title": "t", "created_at": "2016-12-31T23:59:60.500Z"})).await;
    let created = root.get(&format!("/projects/{id}/issues/{iid}")).await.expect(200).json();
    assert_eq!(created["created_at"], "2017-01-01T00:00:00.500Z");
}

on_every_database![
    get_issue_returns_all_fields,
    create_and_update_issue_reject_invalid_attributes,
    update_issue_accepts_only_an_empty_list,
    update_issue_changes_sent_fields_and_writes_system_notes,
    issue_can_be_closed_and_reopened,
    open_issues_count_excludes_closed_and_confidential_issues,
    delete_issue_succeeds_once_and_does_not_reuse_iid,
    create_issue_accepts_iid_and_created_at_from_owners_only,
    subscribe_and_unsubscribe_change_subscribed_state,
    create_issue_fails_when_no_iid_is_left,
    update_issue_with_current_values_changes_nothing,
    deleted_author_is_shown_as_ghost_user,
    created_at_leap_second_is_stored_as_next_second,
];
