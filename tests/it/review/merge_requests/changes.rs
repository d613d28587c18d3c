//! Updates of merge requests: fields, system notes, permissions and validation.

use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, merge_requests};

use super::{propose, public_project, row, system_notes, titles};
use crate::support::{TestServer, on_every_database};

async fn reviewers_are_set_replaced_and_removed(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "reviewed").await;
    let (ann, bob) = (server.create_user("ann").await, server.create_user("bob").await);
    let blocked = server.create_user("eve").await;
    root.post(&format!("/users/{}/block", blocked.id), json!({})).await.expect(201);
    let ids = json!({"reviewer_ids": [bob.id, ann.id, blocked.id, 999_999, bob.id]});
    let iid = propose(&root, project.id, "feature/x", "main", ids).await;
    let all = format!("/projects/{}/merge_requests", project.id);
    let path = format!("{all}/{iid}");
    let names = |shown: &Value| {
        let reviewers = shown["reviewers"].as_array().expect("a list").iter();
        reviewers.map(|user| user["username"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&root.get(&path).await.expect(200).json()), ["bob", "ann"]);
    assert_eq!(names(&root.get(&all).await.expect(200).json()[0]), ["bob", "ann"]);
    // Assignees and reviewers are separate.
    let changed = json!({"assignee_ids": [ann.id], "reviewer_ids": [ann.id]});
    let changed = root.put(&path, changed).await.expect(200).json();
    assert_eq!((names(&changed), &changed["assignees"]), (vec!["ann".to_owned()], &changed["reviewers"]));
    let changed = root.put(&path, json!({"reviewer_ids": [ann.id, bob.id]})).await.expect(200).json();
    assert_eq!(names(&changed), ["ann", "bob"]);
    let unchanged = root.put(&path, json!({"reviewer_ids": [ann.id, bob.id]})).await.expect(200).json();
    assert_eq!(unchanged["updated_at"], changed["updated_at"]);
    for empty_ids in [json!([]), json!([0]), json!(null)] {
        root.put(&path, json!({"reviewer_ids": [ann.id]})).await.expect(200);
        let removed = root.put(&path, json!({"reviewer_ids": empty_ids})).await.expect(200).json();
        assert_eq!(names(&removed), [""; 0], "{empty_ids}");
    }
    let notes = system_notes(&server, project.id, iid).await;
    for text in ["removed review request for @bob", "requested review from @bob", "requested review from @ann"] {
        assert!(notes.iter().any(|note| note.contains(text)), "{text}: {notes:?}");
    }
    root.put(&path, json!({"reviewer_ids": "ada"})).await.expect(400);
}

async fn deleted_user_is_no_reviewer(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "left").await;
    let ann = server.create_user("ann").await;
    let iid = propose(&root, project.id, "feature/x", "main", json!({"reviewer_ids": [ann.id]})).await;
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let path = format!("/projects/{}/merge_requests/{iid}", project.id);
    assert_eq!(root.get(&path).await.expect(200).json()["reviewers"], json!([]));
}

async fn update_merge_request_accepts_only_an_empty_list(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "lists").await;
    let iid = propose(&root, project.id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{}/merge_requests/{iid}", project.id);
    let before = root.get(&path).await.expect(200).json();
    for body in [
        json!({"reviewer_ids": []}),
        json!({"reviewer_ids": [0]}),
        json!({"reviewer_ids": null}),
        json!({"assignee_ids": []}),
        json!({"labels": []}),
        json!({"add_labels": []}),
        json!({"remove_labels": []}),
    ] {
        let updated = root.put(&path, body.clone()).await.expect(200).json();
        assert_eq!(updated["updated_at"], before["updated_at"], "{body}");
    }
    root.put(&path, json!({})).await.expect(400);
}

async fn update_merge_request_changes_sent_fields_and_writes_system_notes(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "edited").await;
    let id = project.id;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let body = json!({"title": "old words", "labels": "a,b", "assignee_id": ann.id});
    let iid = propose(&root, id, "feature/x", "main", body).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let change = json!({
        "title": "new words",
        "description": "- [ ] More",
        "assignee_ids": [ben.id],
        "add_labels": "c",
        "remove_labels": "a",
        "target_branch": "merged",
        "discussion_locked": true,
        "squash": true,
        "remove_source_branch": true,
        "allow_collaboration": true,
    });
    let changed = root.put(&path, change).await.expect(200).json();
    assert_eq!((&changed["title"], &changed["description"]), (&json!("new words"), &json!("- [ ] More")));
    assert_eq!(changed["labels"], json!(["b", "c"]));
    assert_eq!(changed["assignees"][0]["username"], "ben");
    assert_eq!((&changed["discussion_locked"], &changed["squash"]), (&json!(true), &json!(true)));
    assert_eq!((&changed["force_remove_source_branch"], &changed["allow_collaboration"]), (&json!(true), &json!(true)));
    assert_eq!(changed["task_completion_status"], json!({"count": 1, "completed_count": 0}));
    assert_eq!(changed["target_branch"], "merged");
    assert_eq!(
        changed["diff_refs"],
        json!({
            "base_sha": project.id("merged"), "head_sha": project.id("feature/x"), "start_sha": project.id("merged"),
        })
    );
    assert_eq!(
        system_notes(&server, id, iid).await,
        [
            "changed title from **{-old-} words** to **{+new+} words**",
            "changed the description",
            "changed target branch from `main` to `merged`",
            "locked this merge request",
            "assigned to @ben and unassigned @ann",
        ]
    );
    let cleared = json!({"labels": "", "assignee_ids": [0], "description": ""});
    let cleared = root.put(&path, cleared).await.expect(200).json();
    assert_eq!((&cleared["labels"], &cleared["assignee"]), (&json!([]), &json!(null)));
    assert_eq!(cleared["title"], "new words");
    // The same values again change nothing and write no system note.
    let before = system_notes(&server, id, iid).await.len();
    root.put(&path, json!({"title": "new words", "target_branch": "merged", "labels": ""})).await.expect(200);
    assert_eq!(system_notes(&server, id, iid).await.len(), before);
}

async fn update_merge_request_rejects_invalid_attributes(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "refused").await;
    let id = project.id;
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let empty = root.put(&path, json!({})).await.expect(400);
    assert!(empty.message().ends_with("at least one parameter must be provided"), "{}", empty.message());
    for (change, message) in [
        (json!({"title": " "}), json!({"title": ["can't be blank"]})),
        (json!({"target_branch": "gone"}), json!({"target_branch": ["Target branch \"gone\" does not exist"]})),
        (
            json!({"target_branch": "feature/x"}),
            json!({"branch_conflict": ["You can't use same project/branch for source and target"]}),
        ),
        (json!({"milestone_id": 99}), json!({"milestone": ["is invalid"]})),
    ] {
        assert_eq!(root.put(&path, change).await.expect(400).json()["message"], message);
    }
    root.put(&path, json!({"state_event": "burn"})).await.expect(400);
    root.put(&path, json!({"description": "x".repeat(5 << 20)})).await.expect(413);
    root.put(&format!("/projects/{id}/merge_requests/99"), json!({"title": "t"})).await.expect(404);
    // Only one merge request between two branches can be open.
    let second = propose(&root, id, "feature/x", "merged", json!({})).await;
    let other = format!("/projects/{id}/merge_requests/{second}");
    let taken = root.put(&other, json!({"target_branch": "main"})).await.expect(409);
    assert_eq!(taken.message(), format!("Another open merge request already exists for this source branch: !{iid}"));
}

async fn merge_request_can_be_closed_and_reopened(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "closed").await;
    let id = project.id;
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let closed = root.put(&path, json!({"state_event": "close"})).await.expect(200).json();
    assert_eq!((&closed["state"], &closed["closed_by"]["username"]), (&json!("closed"), &json!("root")));
    assert!(closed["closed_at"].is_string());
    let again = root.put(&path, json!({"state_event": "close"})).await.expect(200).json();
    assert_eq!(again["closed_at"], closed["closed_at"]);
    // While it is closed, another one can be opened. Then the first one cannot be reopened.
    let second = propose(&root, id, "feature/x", "main", json!({})).await;
    let taken = root.put(&path, json!({"state_event": "reopen"})).await.expect(409);
    assert_eq!(taken.message(), format!("Another open merge request already exists for this source branch: !{second}"));
    let other = format!("/projects/{id}/merge_requests/{second}");
    root.put(&other, json!({"state_event": "close"})).await.expect(200);
    let opened = root.put(&path, json!({"state_event": "reopen"})).await.expect(200).json();
    assert_eq!(
        (&opened["state"], &opened["closed_at"], &opened["closed_by"]),
        (&json!("opened"), &json!(null), &json!(null))
    );
    assert_eq!(system_notes(&server, id, iid).await, ["closed", "reopened"]);
    let events = root.get(&format!("/projects/{id}/events?target_type=merge_request&sort=asc")).await;
    assert_eq!(
        events.expect(200).pluck("action_name"),
        ["opened", "closed", "opened", "closed", "reopened"].map(|word| json!(word))
    );
    root.put(&path, json!({"state_event": "close"})).await.expect(200);
    project.git(&["branch", "-D", "feature/x"]);
    root.put(&path, json!({"state_event": "reopen"})).await.expect(400);
}

async fn assignees_who_cannot_see_the_merge_request_are_dropped(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "assigned").await;
    let id = project.id;
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    server.insert_member(id, reporter.id, AccessLevel::Reporter).await;
    let iid = propose(&root, id, "feature/x", "main", json!({"assignee_ids": [guest.id]})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    assert_eq!(root.get(&path).await.expect(200).json()["assignee"]["username"], "guest");
    root.put(&format!("/projects/{id}"), json!({"visibility": "private"})).await.expect(200);
    let both = json!({"assignee_ids": [guest.id, reporter.id, 99999]});
    let changed = root.put(&path, both).await.expect(200).json();
    assert_eq!(changed["assignees"].as_array().map(Vec::len), Some(1));
    assert_eq!(changed["assignee"]["username"], "reporter");
}

async fn users_who_cannot_read_the_code_are_dropped(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "sources").await;
    let id = project.id;
    let (stranger, guest) = (server.create_user("stranger").await, server.create_user("guest").await);
    server.insert_member(id, guest.id, AccessLevel::Guest).await;
    let levels = json!({"repository_access_level": "private", "merge_requests_access_level": "enabled"});
    root.put(&format!("/projects/{id}"), levels).await.expect(200);
    let both = json!({"assignee_ids": [stranger.id, guest.id], "reviewer_ids": [stranger.id, guest.id]});
    let iid = propose(&root, id, "feature/x", "main", both).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    assert_ne!(stranger.client.get(&path).await.status, 200);
    let shown = guest.client.get(&path).await.expect(200).json();
    for list in ["assignees", "reviewers"] {
        let names: Vec<&Value> = shown[list].as_array().expect("a list").iter().map(|user| &user["username"]).collect();
        assert_eq!(names, ["guest"], "{list}");
    }
    let rule = json!({"name": "R", "approvals_required": 1, "user_ids": [stranger.id, guest.id]});
    let rule = root.post(&format!("/projects/{id}/approval_rules"), rule).await.expect(201).json();
    assert_eq!((&rule["users"][0]["username"], &rule["users"][1]), (&json!("guest"), &json!(null)));
}

async fn merged_merge_request_rejects_state_and_target_changes(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "done").await;
    let id = project.id;
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let found = row(&server, id, iid).await;
    let merged = merge_requests::ActiveModel {
        id: Set(found.id),
        state: Set(merge_requests::MergeRequestState::Merged),
        ..Default::default()
    };
    merged.update(server.backend.database.write()).await.expect("a change");
    for change in
        [json!({"state_event": "close"}), json!({"state_event": "reopen"}), json!({"target_branch": "merged"})]
    {
        root.put(&path, change).await.expect(400);
    }
    let updated = root.put(&path, json!({"title": "done"})).await.expect(200).json();
    assert_eq!((&updated["state"], &updated["title"]), (&json!("merged"), &json!("done")));
    assert_eq!(titles(&root, &format!("/projects/{id}/merge_requests?state=merged")).await, ["done"]);
}

async fn update_requires_author_or_developer_and_delete_requires_owner(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "rights").await;
    let id = project.id;
    let (ann, reporter) = (server.create_user("ann").await, server.create_user("reporter").await);
    server.insert_member(id, ann.id, AccessLevel::Developer).await;
    server.insert_member(id, reporter.id, AccessLevel::Reporter).await;
    let iid = propose(&ann.client, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    reporter.client.put(&path, json!({"title": "x"})).await.expect(403);
    server.anonymous().put(&path, json!({"title": "x"})).await.expect(401);
    server.create_user("stranger").await.client.put(&path, json!({"title": "x"})).await.expect(403);
    ann.client.put(&path, json!({"title": "mine"})).await.expect(200);
    ann.client.delete(&path).await.expect(403);
    // Without a role the author can still edit the text, but not the attributes reserved for members.
    root.delete(&format!("/projects/{id}/members/{}", ann.id)).await.expect(204);
    let changed = ann.client.put(&path, json!({"title": "still", "labels": "mine"})).await.expect(200).json();
    assert_eq!((&changed["title"], &changed["labels"]), (&json!("still"), &json!([])));
    let old = root.clone().header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    old.delete(&path).await.expect(412);
    root.delete(&format!("/projects/{id}/merge_requests/x")).await.expect(400);
    root.delete(&path).await.expect(204);
    root.delete(&path).await.expect(404);
    root.get(&path).await.expect(404);
    assert_eq!(propose(&root, id, "feature/x", "main", json!({})).await, iid + 1);
    project.archive().await;
    let path = format!("/projects/{id}/merge_requests/{}", iid + 1);
    root.put(&path, json!({"title": "t"})).await.expect(403);
    root.delete(&path).await.expect(403);
    root.post(&format!("{path}/subscribe"), json!({})).await.expect(403);
}

async fn subscriptions_and_participants_reflect_callers_and_commenters(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "watched").await;
    let id = project.id;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let iid = propose(&root, id, "feature/x", "main", json!({"assignee_ids": [ben.id]})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    assert_eq!(ann.client.get(&path).await.expect(200).json()["subscribed"], false);
    let subscribed = ann.client.post(&format!("{path}/subscribe"), json!({})).await.expect(201).json();
    assert_eq!(subscribed["subscribed"], true);
    assert!(ann.client.post(&format!("{path}/subscribe"), json!({})).await.expect(304).body.is_empty());
    let unsubscribed = ann.client.post(&format!("{path}/unsubscribe"), json!({})).await.expect(201).json();
    assert_eq!(unsubscribed["subscribed"], false);
    ann.client.post(&format!("{path}/unsubscribe"), json!({})).await.expect(304);
    root.post(&format!("{path}/subscribe"), json!({})).await.expect(304);
    let participants = server.anonymous().get(&format!("{path}/participants")).await.expect(200);
    assert_eq!(participants.pluck("username"), [json!("root"), json!("ben")]);
    ann.client.post(&format!("{path}/notes"), json!({"body": "me, too"})).await.expect(201);
    let participants = root.get(&format!("{path}/participants")).await.expect(200);
    assert_eq!((participants.header("X-Total"), participants.pluck("username").len()), ("3", 3));
    let narrow = server.with_token(&server.create_token(ann.id, &["read_user"]).await);
    for operation in ["subscribe", "unsubscribe"] {
        root.post(&format!("/projects/{id}/merge_requests/99/{operation}"), json!({})).await.expect(404);
        root.post(&format!("/projects/{id}/merge_requests/x/{operation}"), json!({})).await.expect(400);
        server.anonymous().post(&format!("{path}/{operation}"), json!({})).await.expect(401);
        narrow.post(&format!("{path}/{operation}"), json!({})).await.expect(403);
    }
    root.put(&format!("/projects/{id}"), json!({"visibility": "internal"})).await.expect(200);
    for operation in ["/participants", "/closes_issues", "/time_stats", ""] {
        root.get(&format!("/projects/{id}/merge_requests/99{operation}")).await.expect(404);
        root.get(&format!("/projects/{id}/merge_requests/x{operation}")).await.expect(400);
        narrow.get(&format!("{path}{operation}")).await.expect(403);
        server.with_token("nonsense").get(&format!("{path}{operation}")).await.expect(401);
    }
    root.put(&format!("/projects/{id}"), json!({"visibility": "private"})).await.expect(200);
    ann.client.get(&path).await.expect(404);
}

async fn time_tracking_sets_adds_and_resets_times(server: TestServer) {
    let root = server.root();
    let project = public_project(&server, "timed").await;
    let id = project.id;
    let (guest, narrow) = (server.create_user("guest").await, server.create_user("narrow").await);
    let narrow = server.with_token(&server.create_token(narrow.id, &["read_user"]).await);
    let iid = propose(&root, id, "feature/x", "main", json!({})).await;
    let path = format!("/projects/{id}/merge_requests/{iid}");
    let times = root.post(&format!("{path}/time_estimate"), json!({"duration": "1d 2h"})).await.expect(200).json();
    assert_eq!((&times["time_estimate"], &times["human_time_estimate"]), (&json!(36000), &json!("1d 2h")));
    let times = root.post(&format!("{path}/add_spent_time"), json!({"duration": "1h"})).await.expect(201).json();
    assert_eq!((&times["total_time_spent"], &times["time_estimate"]), (&json!(3600), &json!(36000)));
    root.post(&format!("{path}/add_spent_time"), json!({"duration": "-2h"})).await.expect(400);
    root.post(&format!("{path}/time_estimate"), json!({"duration": "soon"})).await.expect(400);
    assert_eq!(root.get(&format!("{path}/time_stats")).await.expect(200).json(), times);
    assert_eq!(root.get(&path).await.expect(200).json()["time_stats"], times);
    root.post(&format!("{path}/reset_time_estimate"), json!({})).await.expect(200);
    let times = root.post(&format!("{path}/reset_spent_time"), json!({})).await.expect(200).json();
    assert_eq!((&times["total_time_spent"], &times["time_estimate"]), (&json!(0), &json!(0)));
    assert_eq!(
        system_notes(&server, id, iid).await,
        ["changed time estimate to 1d 2h", "added 1h of time spent", "removed time estimate", "removed time spent",]
    );
    for operation in ["time_estimate", "add_spent_time", "reset_time_estimate", "reset_spent_time"] {
        let body = json!({"duration": "1h"});
        guest.client.post(&format!("{path}/{operation}"), body.clone()).await.expect(403);
        narrow.post(&format!("{path}/{operation}"), body.clone()).await.expect(403);
        server.anonymous().post(&format!("{path}/{operation}"), body.clone()).await.expect(401);
        root.post(&format!("/projects/{id}/merge_requests/99/{operation}"), body.clone()).await.expect(404);
        root.post(&format!("/projects/{id}/merge_requests/x/{operation}"), body.clone()).await.expect(400);
        if !operation.starts_with("reset") {
            root.post(&format!("{path}/{operation}"), json!({"duration": "x".repeat(2 << 20)})).await.expect(413);
        }
    }
}

on_every_database![
    reviewers_are_set_replaced_and_removed,
    deleted_user_is_no_reviewer,
    update_merge_request_accepts_only_an_empty_list,
    update_merge_request_changes_sent_fields_and_writes_system_notes,
    update_merge_request_rejects_invalid_attributes,
    merge_request_can_be_closed_and_reopened,
    assignees_who_cannot_see_the_merge_request_are_dropped,
    users_who_cannot_read_the_code_are_dropped,
    merged_merge_request_rejects_state_and_target_changes,
    update_requires_author_or_developer_and_delete_requires_owner,
    subscriptions_and_participants_reflect_callers_and_commenters,
    time_tracking_sets_adds_and_resets_times,
];
