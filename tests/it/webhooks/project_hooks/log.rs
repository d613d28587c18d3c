//! The log of webhook deliveries, resending, cleanup and test deliveries.

use chrono::TimeDelta;
use domain::webhooks::log::sweep;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, hook_deliveries, labels, now, spent_actions};

use super::{commit, hook};
use crate::planning::issues::open;
use crate::support::code::Project;
use crate::support::webhook_receiver::{Receiver, Reply};
use crate::support::{TestServer, on_every_database};

async fn delivery_log_returns_request_and_response(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({ "token": "t0ken" })).await;
    let log = format!("/projects/{}/hooks/{id}/events", project.id);
    commit(&root, project.id, "main", "a").await;
    let waiting = root.get(&log).await.expect(200).json();
    assert_eq!(
        (&waiting[0]["state"], &waiting[0]["attempts"], &waiting[0]["response_status"]),
        (&json!("pending"), &json!(0), &Value::Null)
    );
    assert!(waiting[0]["next_attempt_at"].is_string());
    let one = format!("{log}/{}", waiting[0]["id"]);
    assert_eq!(root.get(&one).await.expect(200).json().get("request_data"), None);
    let rejected = root.post(&format!("{one}/resend"), json!({})).await.expect(409);
    assert_eq!(rejected.message(), "The delivery is still pending");
    server.finish_jobs().await;
    let arrived = receiver.next().await;
    let shown = root.get(&one).await.expect(200);
    assert!(!shown.text().contains("t0ken"));
    let shown = shown.json();
    assert_eq!(shown["request_data"], arrived.body);
    assert_eq!(
        (&shown["state"], &shown["attempts"], &shown["trigger"]),
        (&json!("delivered"), &json!(1), &json!("push_hooks"))
    );
    assert_eq!(
        (&shown["response_status"], &shown["response_body"], &shown["error"]),
        (&json!("200"), &json!("Done"), &Value::Null)
    );
    assert_eq!((&shown["response_headers"]["x-answer"], &shown["url"]), (&json!("yes"), &json!(receiver.url)));
    assert_eq!(shown["uuid"], arrived.header("x-service-event-uuid"));
    assert_eq!(shown["request_headers"]["X-Service-Event"], "Push Hook");
    assert!(shown["execution_duration"].is_number() && shown["finished_at"].is_string());
    assert_eq!(shown["next_attempt_at"], Value::Null);
    let mut listed = root.get(&log).await.expect(200).json()[0].clone();
    assert_eq!(listed.get("request_data"), None);
    listed["request_data"] = shown["request_data"].clone();
    assert_eq!(listed, shown);
    for (state, count) in [("delivered", 1), ("pending", 0), ("failed", 0)] {
        assert_eq!(root.get(&format!("{log}?state={state}")).await.expect(200).pluck("id").len(), count);
    }
    assert_eq!(root.get(&format!("{log}?state=odd")).await.status, 400);
    assert_eq!(root.get(&format!("{log}/x")).await.status, 400);
}

async fn resend_repeats_delivery_with_same_uuid_and_body(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 400 } else { 200 })).await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    let log = format!("/projects/{}/hooks/{id}/events", project.id);
    commit(&root, project.id, "main", "a").await;
    server.finish_jobs().await;
    let failed = root.get(&log).await.expect(200).json()[0].clone();
    assert_eq!((&failed["state"], &failed["response_status"]), (&json!("failed"), &json!("400")));
    let again = root.post(&format!("{log}/{}/resend", failed["id"]), json!({})).await.expect(201).json();
    assert_eq!((&again["state"], &again["uuid"]), (&json!("delivered"), &failed["uuid"]));
    assert_ne!(again["id"], failed["id"]);
    let arrived = receiver.rest();
    assert_eq!(arrived.len(), 2);
    assert_eq!(arrived[0].body, arrived[1].body);
    assert_eq!(arrived[0].header("x-service-event-uuid"), arrived[1].header("x-service-event-uuid"));
    assert_eq!(root.get(&log).await.pluck("id").len(), 2);
}

async fn test_delivery_uses_existing_data_of_the_project(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({ "push_events": false })).await;
    let test = format!("/projects/{}/hooks/{id}/test", project.id);
    let delivery = root.post(&format!("{test}/push_events"), json!({})).await.expect(201).json();
    assert_eq!((&delivery["state"], &delivery["trigger"]), (&json!("delivered"), &json!("push_hooks")));
    let push = receiver.next().await;
    assert_eq!((&push.body["ref"], &push.body["after"]), (&json!("refs/heads/main"), &json!(project.id("main"))));
    assert_eq!(push.body["commits"].as_array().map(Vec::len), Some(2));
    for (trigger, text) in
        [("tag_push_events", "Ensure the project has tags."), ("note_events", "Ensure the project has notes.")]
    {
        assert_eq!(root.post(&format!("{test}/{trigger}"), json!({})).await.expect(422).message(), text);
    }
    project.git(&["tag", "v1", "main~1"]);
    let sha = project.id("main");
    root.post(&project.url(&format!("/commits/{sha}/comments")), json!({ "note": "Nice" })).await.expect(201);
    root.post(&format!("{test}/tag_push_events"), json!({})).await.expect(201);
    assert_eq!(receiver.next().await.body["ref"], "refs/tags/v1");
    root.post(&format!("{test}/note_events"), json!({})).await.expect(201);
    assert_eq!(receiver.next().await.body["object_attributes"]["note"], "Nice");
    assert_eq!(root.post(&format!("{test}/odd_events"), json!({})).await.status, 400);
    let empty = Project::empty(&server, "empty", Visibility::Private).await;
    let id = hook(&root, empty.id, &receiver.url, json!({})).await;
    let rejected = root.post(&format!("/projects/{}/hooks/{id}/test/push_events", empty.id), json!({})).await;
    assert_eq!(rejected.expect(422).message(), "Ensure the project has at least one commit.");
}

async fn failed_test_delivery_is_returned_and_not_retried(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let receiver = Receiver::with(|_| Reply::Status(500)).await;
    let id = hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let test = format!("/projects/{}/hooks/{id}/test/push_events", project.id);
    let delivery = server.root().post(&test, json!({})).await.expect(201).json();
    assert_eq!((&delivery["state"], &delivery["response_status"]), (&json!("failed"), &json!("500")));
    // A test delivery is not retried.
    server.finish_jobs().await;
    assert_eq!(server.root().get(&format!("/projects/{}/hooks/{id}/events", project.id)).await.pluck("id").len(), 1);
}

async fn test_and_resend_are_rate_limited_per_user(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    let url = format!("/projects/{}/hooks/{id}", project.id);
    let test = format!("{url}/test/push_events");
    let first = root.post(&test, json!({})).await.expect(201).json();
    let again = format!("{url}/events/{}/resend", first["id"]);
    for _ in 0..8 {
        root.post(&test, json!({})).await.expect(201);
    }
    root.post(&again, json!({})).await.expect(201);
    for path in [&test, &again] {
        let rejected = root.post(path, json!({})).await.expect(429);
        let text = "This endpoint has been requested too many times. Try again later.";
        assert_eq!(rejected.json(), json!({ "message": { "error": text } }));
        let wait: u64 = rejected.header("retry-after").parse().expect("seconds");
        assert!((1..=61).contains(&wait), "{wait}");
    }
    // The limit is per user and ends after a minute.
    let maintainer = project.member("ada", AccessLevel::Maintainer).await;
    maintainer.post(&test, json!({})).await.expect(201);
    spent_actions::Entity::update_many()
        .col_expr(spent_actions::Column::DoneAt, Expr::value(now() - TimeDelta::seconds(61)))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    root.post(&test, json!({})).await.expect(201);
}

async fn large_payload_is_sent_again_after_failure_and_not_stored(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 503 } else { 200 })).await;
    let root = server.root();
    let extra = json!({ "push_events": false, "note_events": true });
    let id = hook(&root, project.id, &receiver.url, extra).await;
    let log = format!("/projects/{}/hooks/{id}/events", project.id);
    let iid = open(&root, project.id, json!({ "title": "t" })).await;
    let notes = format!("/projects/{}/issues/{iid}/notes", project.id);
    // The payload contains the text twice.
    let text = "x".repeat(600_000);
    root.post(&notes, json!({ "body": text })).await.expect(201);
    server.finish_jobs().await;
    let received = receiver.rest();
    assert_eq!(received.len(), 2);
    assert!(received.iter().all(|request| request.body["object_attributes"]["note"] == json!(text)));
    let delivery = root.get(&log).await.expect(200).json()[0].clone();
    assert_eq!((&delivery["state"], &delivery["attempts"]), (&json!("delivered"), &json!(2)));
    let one = format!("{log}/{}", delivery["id"]);
    assert_eq!(root.get(&one).await.expect(200).json().get("request_data"), None);
    let rejected = root.post(&format!("{one}/resend"), json!({})).await.expect(409);
    assert_eq!(
        rejected.message(),
        "The payload of this delivery is not stored, for example because it is larger than 1 MiB"
    );
    let test = format!("/projects/{}/hooks/{id}/test/note_events", project.id);
    let tested = root.post(&test, json!({})).await.expect(201).json();
    assert_eq!((&tested["state"], tested.get("request_data")), (&json!("delivered"), None));
    assert_eq!(receiver.next().await.body["object_attributes"]["note"], json!(text));
    root.post(&format!("{log}/{}/resend", tested["id"]), json!({})).await.expect(409);
}

async fn test_delivery_with_too_large_payload_fails(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    // In JSON, each control character has six bytes. The server refuses to read commits above 12 MiB.
    let message = format!("Large\n\n{}\n", "\u{1}".repeat(5 << 20));
    let commit = project.git_with(&["commit-tree", "-F", "-", "-p", "main", "main^{tree}"], &message);
    project.git(&["update-ref", "refs/heads/main", &commit]);
    let test = format!("/projects/{}/hooks/{id}/test/push_events", project.id);
    let delivery = root.post(&test, json!({})).await.expect(201).json();
    assert_eq!(
        (&delivery["state"], &delivery["error"]),
        (&json!("failed"), &json!("the payload is larger than 25 MiB"))
    );
    assert_eq!((receiver.rest().len(), delivery.get("request_data")), (0, None));
}

async fn labels_of_too_large_payload_are_not_read(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let iid = open(&root, project.id, json!({ "title": "t" })).await;
    let id = hook(&root, project.id, &receiver.url, json!({ "issues_events": true })).await;
    root.put(&format!("/projects/{}/issues/{iid}", project.id), json!({ "labels": "large" })).await.expect(200);
    // The payload contains the label three times: in the issue, in its attributes and as a change.
    labels::Entity::update_many()
        .col_expr(labels::Column::Description, Expr::value("x".repeat(9 << 20)))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    let before = server.statements();
    server.finish_jobs().await;
    let statements = server.statement_texts(before);
    let mut read = statements.iter().filter(|text| text.contains("\"labels\".\"description\""));
    assert!(read.all(|text| text.contains("octet_length")), "{statements:?}");
    let log = root.get(&format!("/projects/{}/hooks/{id}/events", project.id)).await.expect(200);
    assert_eq!(log.pluck("error"), ["the payload is larger than 25 MiB"]);
    assert_eq!(receiver.rest().len(), 0);
}

async fn delivery_log_requires_maintainer(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let receiver = Receiver::start().await;
    let id = hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let url = format!("/projects/{}/hooks/{id}", project.id);
    let delivery = server.root().post(&format!("{url}/test/push_events"), json!({})).await.expect(201).json();
    let one = format!("{url}/events/{}", delivery["id"]);
    let developer = project.member("dev", AccessLevel::Developer).await;
    let non_member = server.create_user("stranger").await.client;
    for (client, status) in [(&server.anonymous(), 401), (&non_member, 404), (&developer, 403)] {
        assert_eq!(client.get(&format!("{url}/events")).await.status, status);
        assert_eq!(client.get(&one).await.status, status);
        assert_eq!(client.post(&format!("{one}/resend"), json!({})).await.status, status);
        assert_eq!(client.post(&format!("{url}/test/push_events"), json!({})).await.status, status);
    }
    let other = hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let elsewhere = format!("/projects/{}/hooks/{other}/events/{}", project.id, delivery["id"]);
    assert_eq!(server.root().get(&elsewhere).await.status, 404);
    assert_eq!(server.root().post(&format!("{elsewhere}/resend"), json!({})).await.status, 404);
    assert_eq!(server.root().post(&format!("{url}/events/x/resend"), json!({})).await.status, 400);
}

async fn delivery_log_is_paginated_and_old_entries_are_deleted(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let receiver = Receiver::start().await;
    let root = server.root();
    let id = hook(&root, project.id, &receiver.url, json!({})).await;
    let url = format!("/projects/{}/hooks/{id}", project.id);
    let cost = || async {
        let before = server.statements();
        root.get(&format!("{url}/events")).await.expect(200);
        server.statements() - before
    };
    root.post(&format!("{url}/test/push_events"), json!({})).await.expect(201);
    let one = cost().await;
    for _ in 0..4 {
        root.post(&format!("{url}/test/push_events"), json!({})).await.expect(201);
    }
    assert_eq!(cost().await, one);
    let page = root.get(&format!("{url}/events?per_page=2&page=2")).await.expect(200);
    assert_eq!((page.pluck("id").len(), page.header("x-total")), (2, "5"));
    commit(&root, project.id, "main", "a").await;
    let aged = |days: i64| {
        hook_deliveries::Entity::update_many()
            .col_expr(hook_deliveries::Column::CreatedAt, Expr::value(now() - TimeDelta::days(days)))
    };
    let db = server.backend.database.write();
    aged(8).exec(db).await.unwrap();
    assert_eq!(sweep(&server.backend).await.unwrap(), 5);
    let rows = hook_deliveries::Entity::find()
        .filter(hook_deliveries::Column::State.eq(hook_deliveries::DeliveryState::Pending));
    assert_eq!(rows.count(db).await.unwrap(), 1);
    aged(31).exec(db).await.unwrap();
    assert_eq!(sweep(&server.backend).await.unwrap(), 1);
}

on_every_database![
    delivery_log_returns_request_and_response,
    resend_repeats_delivery_with_same_uuid_and_body,
    test_delivery_uses_existing_data_of_the_project,
    failed_test_delivery_is_returned_and_not_retried,
    test_and_resend_are_rate_limited_per_user,
    large_payload_is_sent_again_after_failure_and_not_stored,
    test_delivery_with_too_large_payload_fails,
    labels_of_too_large_payload_are_not_read,
    delivery_log_requires_maintainer,
    delivery_log_is_paginated_and_old_entries_are_deleted,
];
