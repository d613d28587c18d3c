//! Approving and revoking approvals: who can, and what is recorded.

use holdfast::config::ConfigOptions;
use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::{Fixture, approved_by};
use crate::support::webhook_receiver::Receiver;
use crate::support::{TestServer, on_every_database};

async fn approval_is_given_and_revoked(server: TestServer) {
    let fixture = Fixture::new(&server, "given").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    let before = ann.client.get(&fixture.url("/merge_requests/1/approvals")).await.expect(200).json();
    assert_eq!((&before["approved_by"], &before["approved"]), (&json!([]), &json!(true)));
    assert_eq!((&before["user_has_approved"], &before["user_can_approve"]), (&json!(false), &json!(true)));
    assert_eq!((&before["approvals_required"], &before["has_approval_rules"]), (&json!(0), &json!(false)));
    let approved = fixture.approve(&ann.client).await.expect(201).json();
    assert_eq!(approved_by(&approved), ["ann"]);
    assert!(approved["approved_by"][0]["approved_at"].is_string());
    assert_eq!((&approved["user_has_approved"], &approved["user_can_approve"]), (&json!(true), &json!(false)));
    assert_eq!((&approved["iid"], &approved["title"]), (&json!(1), &json!("Add feature/x")));
    fixture.approve(&bob.client).await.expect(201);
    assert_eq!(approved_by(&fixture.approvals().await), ["ann", "bob"]);
    let revoked = fixture.unapprove(&ann.client).await.expect(201).json();
    assert_eq!((approved_by(&revoked), &revoked["user_can_approve"]), (vec!["bob"], &json!(true)));
    assert_eq!(fixture.unapprove(&ann.client).await.expect(404).message(), "404 Not Found");
    let notes = ["approved this merge request", "approved this merge request", "unapproved this merge request"];
    assert_eq!(fixture.notes().await, notes);
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(approved_by(&fixture.approvals().await), ["bob", "ann"]);
}

async fn only_developers_who_are_not_the_author_approve_open_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server, "refused").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let reporter = fixture.member("rob", AccessLevel::Reporter).await;
    for client in [&reporter.client, &server.create_user("eve").await.client] {
        fixture.approve(client).await.expect(403);
        fixture.unapprove(client).await.expect(403);
    }
    fixture.approve(&server.anonymous()).await.expect(401);
    fixture.unapprove(&server.anonymous()).await.expect(401);
    // The author.
    assert_eq!(fixture.approve(&fixture.root).await.expect(401).message(), "401 Unauthorized");
    assert_eq!(fixture.approvals().await["user_can_approve"], false);
    // A second approval.
    fixture.approve(&ann.client).await.expect(201);
    fixture.approve(&ann.client).await.expect(401);
    fixture.unapprove(&ann.client).await.expect(201);
    // A closed and a merged merge request.
    let one = fixture.url("/merge_requests/1");
    fixture.root.put(&one, json!({"state_event": "close"})).await.expect(200);
    fixture.approve(&ann.client).await.expect(401);
    fixture.root.put(&one, json!({"state_event": "reopen"})).await.expect(200);
    fixture.approve(&ann.client).await.expect(201);
    fixture.merge().await.expect(200);
    fixture.unapprove(&ann.client).await.expect(401);
    assert_eq!(approved_by(&fixture.approvals().await), ["ann"]);
    for action in ["approve", "unapprove"] {
        ann.client.post(&fixture.url(&format!("/merge_requests/9/{action}")), json!({})).await.expect(404);
    }
    ann.client.get(&fixture.url("/merge_requests/9/approvals")).await.expect(404);
    fixture.root.post(&fixture.url("/archive"), json!({})).await.expect(201);
    fixture.approve(&ann.client).await.expect(403);
}

async fn approvals_are_hidden_like_their_merge_request(server: TestServer) {
    let fixture = Fixture::new(&server, "hidden").await;
    let guest = fixture.member("gus", AccessLevel::Guest).await;
    let url = fixture.url("/merge_requests/1/approvals");
    let open = server.anonymous().get(&url).await.expect(200).json();
    assert_eq!((&open["user_can_approve"], &open["user_has_approved"]), (&json!(false), &json!(false)));
    fixture.root.put(&fixture.url(""), json!({"visibility": "private"})).await.expect(200);
    server.anonymous().get(&url).await.expect(404);
    server.create_user("eve").await.client.get(&url).await.expect(404);
    guest.client.get(&url).await.expect(403);
    fixture.approve(&server.create_user("ivy").await.client).await.expect(404);
}

async fn approval_requires_the_head_that_the_caller_saw(server: TestServer) {
    let fixture = Fixture::new(&server, "heads").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let url = fixture.url("/merge_requests/1/approve");
    let (main, head) = (fixture.project.id("main"), fixture.project.id("feature/x"));
    let rejected = ann.client.post(&url, json!({"sha": main})).await.expect(409);
    assert_eq!(rejected.message(), format!("SHA does not match HEAD of source branch: {head}"));
    ann.client.post(&url, json!({"sha": "x".repeat(65)})).await.expect(400);
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    ann.client.post(&url, json!({"sha": head.to_uppercase()})).await.expect(201);
}

async fn approvals_are_events_of_lists_and_webhooks(server: TestServer) {
    let fixture = Fixture::new(&server, "events").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    fixture.set(json!({"approvals_before_merge": 2})).await;
    server.finish_jobs().await;
    let mut receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url, "push_events": false, "merge_requests_events": true});
    fixture.root.post(&fixture.url("/hooks"), hook).await.expect(201);
    let mut next = async |expected: &str| {
        server.finish_jobs().await;
        let body = receiver.next().await.body;
        assert_eq!(body["object_attributes"]["action"], expected);
        assert_eq!(body["changes"], json!({}));
        body["user"]["username"].clone()
    };
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(next("approval").await, "ann");
    fixture.approve(&bob.client).await.expect(201);
    assert_eq!(next("approved").await, "bob");
    fixture.unapprove(&bob.client).await.expect(201);
    assert_eq!(next("unapproved").await, "bob");
    fixture.unapprove(&ann.client).await.expect(201);
    assert_eq!(next("unapproval").await, "ann");
    let events = fixture.url("/events?action=approved");
    let events = fixture.root.get(&events).await.expect(200);
    assert_eq!(events.pluck("author_username"), ["bob", "ann"]);
    assert_eq!(events.json()[0]["target_iid"], 1);
}

async fn approval_completes_the_todo_item_of_the_user(server: TestServer) {
    let fixture = Fixture::new(&server, "todos").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let assign = json!({"assignee_ids": [ann.id]});
    fixture.root.put(&fixture.url("/merge_requests/1"), assign).await.expect(200);
    let pending = async || ann.client.get("/todos").await.expect(200).json().as_array().expect("a list").len();
    assert_eq!(pending().await, 1);
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(pending().await, 0);
}

async fn free_plan_returns_approvals_without_rules(server: TestServer) {
    let fixture = Fixture::new(&server, "free").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let url = fixture.url("/merge_requests/1/approvals");
    let expected = json!({
        "approved": false, "approved_by": [], "user_has_approved": false, "user_can_approve": true,
    });
    assert_eq!(ann.client.get(&url).await.expect(200).json(), expected);
    let approved = fixture.approve(&ann.client).await.expect(201).json();
    assert_eq!((&approved["approved"], approved.get("approvals_left")), (&json!(true), None::<&Value>));
    for path in [
        "/approvals",
        "/approval_rules",
        "/approval_rules/1",
        "/merge_request_approval_setting",
        "/merge_requests/1/approval_state",
        "/merge_requests/1/approval_rules",
    ] {
        fixture.root.get(&fixture.url(path)).await.expect(403);
    }
    // The number of a rule that a higher plan stored has no effect.
    fixture.project.update(|row| row.approvals_before_merge = sea_orm::ActiveValue::Set(5)).await;
    fixture.merge().await.expect(200);
}

fn free() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    approval_is_given_and_revoked,
    only_developers_who_are_not_the_author_approve_open_merge_requests,
    approvals_are_hidden_like_their_merge_request,
    approval_requires_the_head_that_the_caller_saw,
    approvals_are_events_of_lists_and_webhooks,
    approval_completes_the_todo_item_of_the_user,
    free_plan_returns_approvals_without_rules with free(),
];
