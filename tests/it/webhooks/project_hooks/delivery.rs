//! Webhook deliveries: order, retries and isolation of receivers.

use chrono::TimeDelta;
use holdfast::config::ConfigOptions;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use serde_json::json;
use storage::entities::{Visibility, events, hook_deliveries, now, project_hooks};

use super::{commit, hook};
use crate::support::code::Project;
use crate::support::webhook_receiver::{Receiver, Reply, listen_on, receive_one, unused_address};
use crate::support::{TestServer, on_every_database};

/// Returns the states and attempts of all deliveries, in order.
async fn states(server: &TestServer) -> Vec<(hook_deliveries::DeliveryState, i32)> {
    let rows = hook_deliveries::Entity::find()
        .order_by_asc(hook_deliveries::Column::Id)
        .all(server.backend.database.read())
        .await
        .expect("deliveries");
    rows.into_iter().map(|row| (row.state, row.attempts)).collect()
}

use hook_deliveries::DeliveryState::{Delivered, Failed, Pending};

async fn failed_delivery_is_retried_before_the_next_one(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 500 } else { 200 })).await;
    hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let first = commit(&server.root(), project.id, "main", "a").await;
    let second = commit(&server.root(), project.id, "main", "b").await;
    server.finish_jobs().await;
    let received = receiver.rest();
    let after: Vec<_> = received.iter().map(|one| one.body["after"].as_str().unwrap()).collect();
    assert_eq!(after, [first.as_str(), &first, &second]);
    let ids: Vec<_> = received.iter().map(|one| one.header("x-service-event-uuid")).collect();
    assert!(ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
    assert_eq!(states(&server).await, [(Delivered, 2), (Delivered, 1)]);
    let row = project_hooks::Entity::find().one(server.backend.database.read()).await.unwrap().unwrap();
    assert_eq!((row.failures, row.failing_since), (0, None));
}

async fn unreachable_receiver_gets_all_deliveries_in_order_later(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let address = unused_address().await;
    let hook = hook(&server.root(), project.id, &address, json!({})).await;
    let mut pushed = Vec::new();
    for name in ["a", "b", "c"] {
        pushed.push(commit(&server.root(), project.id, "main", name).await);
    }
    let log = format!("/projects/{}/hooks/{hook}/events", project.id);
    let arrived = server
        .run_jobs_while(async {
            loop {
                let page = server.root().get(&log).await.expect(200);
                if page.json()[2]["attempts"].as_i64() > Some(0) {
                    assert_eq!(page.json()[2]["error"], "the connection failed");
                    break;
                }
                tokio::task::yield_now().await;
            }
            let listener = listen_on(&address).await;
            let mut arrived = Vec::new();
            for _ in 0..3 {
                arrived.push(receive_one(&listener).await.body["after"].as_str().unwrap().to_owned());
            }
            arrived
        })
        .await;
    assert_eq!(arrived, pushed);
}

async fn delivery_rejected_with_client_error_is_not_retried(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 404 } else { 204 })).await;
    let hook = hook(&server.root(), project.id, &receiver.url, json!({})).await;
    commit(&server.root(), project.id, "main", "a").await;
    commit(&server.root(), project.id, "main", "b").await;
    server.finish_jobs().await;
    assert_eq!(receiver.rest().len(), 2);
    assert_eq!(states(&server).await, [(Failed, 1), (Delivered, 1)]);
    let shown = server.root().get(&format!("/projects/{}/hooks/{hook}", project.id)).await.expect(200).json();
    assert_eq!((&shown["alert_status"], &shown["failing_since"]), (&json!("executable"), &json!(null)));
}

async fn slow_and_endless_receivers_do_not_delay_other_webhooks(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receivers = Vec::new();
    for reply in [Reply::Hang, Reply::Hang, Reply::Hang, Reply::Hang, Reply::Hang, Reply::Endless, Reply::Close] {
        let receiver = Receiver::with(move |_| reply.clone()).await;
        hook(&server.root(), project.id, &receiver.url, json!({})).await;
        receivers.push(receiver);
    }
    let mut healthy = Receiver::start().await;
    hook(&server.root(), project.id, &healthy.url, json!({})).await;
    server
        .run_jobs_while(async {
            for name in ["a", "b", "c"] {
                let commit_id = commit(&server.root(), project.id, "main", name).await;
                let started = std::time::Instant::now();
                assert_eq!(healthy.next().await.body["after"], commit_id);
                // This is shorter than the timeout of the other receivers.
                assert!(started.elapsed().as_secs() < 9);
            }
            // The endless response was cut off, and the receiver got all three deliveries.
            for _ in 0..3 {
                receivers[5].next().await;
            }
        })
        .await;
    let stored = hook_deliveries::Entity::find()
        .filter(hook_deliveries::Column::State.eq(Delivered))
        .filter(hook_deliveries::Column::ResponseBody.contains("xxx"))
        .all(server.backend.database.read())
        .await
        .unwrap();
    assert!(!stored.is_empty());
    assert!(stored.iter().all(|row| row.response_body.as_ref().is_some_and(|body| body.len() == 8192)));
}

async fn slow_receivers_of_a_project_use_at_most_eight_deliveries(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let other = Project::with_commits(&server, "other", Visibility::Private).await;
    let root = server.root();
    let slow = Receiver::with(|_| Reply::Hang).await;
    for number in 0..9 {
        hook(&root, project.id, &format!("{}/{number}", slow.url), json!({})).await;
    }
    let mut healthy = Receiver::start().await;
    hook(&root, other.id, &healthy.url, json!({})).await;
    commit(&root, project.id, "main", "a").await;
    let postponed = || {
        storage::entities::jobs::Entity::find()
            .filter(storage::entities::jobs::Column::LastError.contains("other deliveries of the project"))
            .count(server.backend.database.read())
    };
    server
        .run_jobs_while(async {
            while postponed().await.expect("jobs") == 0 {
                tokio::task::yield_now().await;
            }
            let commit_id = commit(&root, other.id, "main", "b").await;
            assert_eq!(healthy.next().await.body["after"], commit_id);
        })
        .await;
}

async fn webhook_is_disabled_after_days_of_failures_and_enabled_by_update(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 503 } else { 200 })).await;
    let root = server.root();
    let hook = hook(&root, project.id, &receiver.url, json!({})).await;
    let long_ago = project_hooks::Entity::update_many()
        .col_expr(project_hooks::Column::Failures, Expr::value(9))
        .col_expr(project_hooks::Column::FailingSince, Expr::value(now() - TimeDelta::days(3)));
    long_ago.exec(server.backend.database.write()).await.unwrap();
    commit(&root, project.id, "main", "a").await;
    server.finish_jobs().await;
    let url = format!("/projects/{}/hooks/{hook}", project.id);
    let shown = root.get(&url).await.expect(200).json();
    assert_eq!(shown["alert_status"], "disabled");
    assert!(shown["disabled_at"].is_string());
    // New deliveries are recorded but not sent.
    commit(&root, project.id, "main", "b").await;
    server.finish_jobs().await;
    assert_eq!((receiver.rest().len(), states(&server).await), (1, vec![(Pending, 1), (Pending, 0)]));
    let shown = root.put(&url, json!({ "url": receiver.url })).await.expect(200).json();
    assert_eq!((&shown["alert_status"], &shown["disabled_at"]), (&json!("executable"), &json!(null)));
    server.finish_jobs().await;
    assert_eq!((receiver.rest().len(), states(&server).await), (2, vec![(Delivered, 2), (Delivered, 1)]));
}

async fn failed_attempt_does_not_disable_a_webhook_that_was_updated_meanwhile(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let address = unused_address().await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let hook = hook(&root, project.id, &address, json!({})).await;
    let long_ago = project_hooks::Entity::update_many()
        .col_expr(project_hooks::Column::Failures, Expr::value(9))
        .col_expr(project_hooks::Column::FailingSince, Expr::value(now() - TimeDelta::days(3)));
    long_ago.exec(server.backend.database.write()).await.unwrap();
    let listener = listen_on(&address).await;
    let commit_id = commit(&root, project.id, "main", "a").await;
    let url = format!("/projects/{}/hooks/{hook}", project.id);
    server
        .run_jobs_while(async {
            let (connection, _) = listener.accept().await.expect("a connection");
            root.put(&url, json!({ "url": receiver.url })).await.expect(200);
            // The attempt fails after the update.
            drop(connection);
            assert_eq!(receiver.next().await.body["after"], commit_id);
            while states(&server).await != [(Delivered, 2)] {
                tokio::task::yield_now().await;
            }
        })
        .await;
    let row = project_hooks::Entity::find().one(server.backend.database.read()).await.unwrap().unwrap();
    assert_eq!((row.failures, row.failing_since, row.disabled_at), (0, None, None));
    assert_eq!(receiver.rest().len(), 0);
}

async fn successful_test_delivery_enables_disabled_webhook(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let hook = hook(&root, project.id, &receiver.url, json!({})).await;
    let off = project_hooks::Entity::update_many()
        .col_expr(project_hooks::Column::Failures, Expr::value(10))
        .col_expr(project_hooks::Column::DisabledAt, Expr::value(now()));
    off.exec(server.backend.database.write()).await.unwrap();
    let commit_id = commit(&root, project.id, "main", "a").await;
    server.finish_jobs().await;
    assert_eq!(receiver.rest().len(), 0);
    let url = format!("/projects/{}/hooks/{hook}", project.id);
    root.post(&format!("{url}/test/push_events"), json!({})).await.expect(201);
    server.finish_jobs().await;
    let received = receiver.rest();
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].body["after"], commit_id);
    assert_eq!(root.get(&url).await.json()["alert_status"], "executable");
}

async fn compat_mode_adds_gitlab_headers(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    hook(&server.root(), project.id, &receiver.url, json!({ "token": "t" })).await;
    commit(&server.root(), project.id, "main", "a").await;
    server.finish_jobs().await;
    let received = receiver.next().await;
    for (name, repeated) in [
        ("x-service-event", "x-gitlab-event"),
        ("x-service-token", "x-gitlab-token"),
        ("x-service-event-uuid", "x-gitlab-event-uuid"),
    ] {
        assert!(!received.header(name).is_empty(), "{name}");
        assert_eq!(received.header(name), received.header(repeated));
    }
}

async fn concurrent_job_runners_deliver_in_order(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    hook(&server.root(), project.id, &receiver.url, json!({})).await;
    let mut pushed = Vec::new();
    for number in 0..8 {
        pushed.push(commit(&server.root(), project.id, "main", &format!("f{number}")).await);
    }
    tokio::join!(server.finish_jobs(), server.finish_jobs(), server.finish_jobs());
    let received: Vec<_> = receiver.rest().iter().map(|one| one.body["after"].as_str().unwrap().to_owned()).collect();
    assert_eq!(received, pushed);
}

async fn payload_that_ends_the_process_is_not_built_without_end(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    hook(&server.root(), project.id, &receiver.url, json!({})).await;
    commit(&server.root(), project.id, "main", "a").await;
    let killed =
        hook_deliveries::Entity::update_many().col_expr(hook_deliveries::Column::PayloadAttempts, Expr::value(5));
    killed.exec(server.backend.database.write()).await.unwrap();
    let next = commit(&server.root(), project.id, "main", "b").await;
    server.finish_jobs().await;
    let received = receiver.rest();
    assert_eq!((received.len(), &received[0].body["after"]), (1, &json!(next)));
    assert_eq!(states(&server).await, [(Failed, 1), (Delivered, 1)]);
    let rows = hook_deliveries::Entity::find().order_by_asc(hook_deliveries::Column::Id);
    let rows = rows.all(server.backend.database.read()).await.unwrap();
    assert_eq!(rows[0].error.as_deref(), Some("the payload cannot be created"));
    assert!(rows.iter().all(|row| row.payload_attempts == 0));
}

async fn attempt_to_build_a_payload_is_counted_before_it_ends(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|_| Reply::Hang).await;
    hook(&server.root(), project.id, &receiver.url, json!({})).await;
    commit(&server.root(), project.id, "main", "a").await;
    server
        .run_jobs_while(async {
            receiver.next().await;
            let row = hook_deliveries::Entity::find().one(server.backend.database.read()).await.unwrap().unwrap();
            assert_eq!((row.state, row.attempts, row.payload_attempts), (Pending, 0, 1));
        })
        .await;
}

async fn only_consecutive_failures_to_build_a_payload_end_a_delivery(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::with(|_| Reply::Status(503)).await;
    let hook = hook(&server.root(), project.id, &receiver.url, json!({})).await;
    commit(&server.root(), project.id, "main", "a").await;
    let db = server.backend.database.write();
    // The payload was sent, but the database fails to enqueue the next attempt.
    db.execute_unprepared("ALTER TABLE jobs RENAME TO hidden_jobs").await.expect("no table");
    let failed = domain::webhooks::delivery::deliver(&server.backend, hook).await;
    db.execute_unprepared("ALTER TABLE hidden_jobs RENAME TO jobs").await.expect("the table");
    assert!(failed.is_err());
    let stored = hook_deliveries::Entity::find().one(db).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.attempts, stored.payload_attempts), (Pending, 0, 0));
    let event = events::Entity::find_by_id(stored.event_id.expect("an event")).one(db).await.unwrap().unwrap();
    let set_data = async |data: Option<&str>| {
        let change = events::Entity::update_many().col_expr(events::Column::Data, Expr::value(data));
        change.filter(events::Column::Id.eq(event.id)).exec(db).await.expect("a change");
    };
    let attempt = async |attempts: i32| {
        hook_deliveries::Entity::update_many()
            .col_expr(hook_deliveries::Column::RequestBody, Expr::value(None::<String>))
            .col_expr(hook_deliveries::Column::Attempts, Expr::value(attempts))
            .col_expr(hook_deliveries::Column::NextAttemptAt, Expr::value(now() - TimeDelta::days(1)))
            .exec(db)
            .await
            .expect("a change");
        domain::webhooks::delivery::deliver(&server.backend, hook).await.expect("an attempt");
        let row = hook_deliveries::Entity::find().one(db).await.unwrap().unwrap();
        (row.state, row.attempts, row.payload_attempts)
    };
    set_data(Some("{")).await;
    assert_eq!(attempt(20).await, (Pending, 21, 1));
    // The receiver fails, so the count starts again.
    set_data(event.data.as_deref()).await;
    assert_eq!(attempt(21).await, (Pending, 22, 0));
    set_data(Some("{")).await;
    for failures in 1..=4 {
        assert_eq!(attempt(22).await, (Pending, 23, failures));
    }
    assert_eq!(attempt(22).await, (Failed, 23, 5));
    assert_eq!(receiver.rest().len(), 2);
}

async fn deleted_webhook_receives_no_pending_deliveries(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let mut receiver = Receiver::start().await;
    let root = server.root();
    let hook = hook(&root, project.id, &receiver.url, json!({})).await;
    commit(&root, project.id, "main", "a").await;
    let hooks = format!("/projects/{}/hooks", project.id);
    let this = format!("{hooks}/{hook}");
    root.delete(&this).await.expect(204);
    // The request only hides the webhook, because there may be many deliveries.
    assert_eq!(states(&server).await.len(), 1);
    assert_eq!(root.get(&hooks).await.expect(200).json(), json!([]));
    for missing in [this.clone(), format!("{this}/events")] {
        root.get(&missing).await.expect(404);
    }
    root.put(&this, json!({"url": receiver.url})).await.expect(404);
    root.delete(&this).await.expect(404);
    commit(&root, project.id, "main", "b").await;
    assert_eq!(states(&server).await.len(), 1, "a hidden webhook gets deliveries");
    server.finish_jobs().await;
    assert_eq!((receiver.rest().len(), states(&server).await), (0, vec![]));
    let rows = project_hooks::Entity::find().all(server.backend.database.read()).await;
    assert_eq!(rows.expect("the rows"), vec![]);
}

fn compat_mode_adds_gitlab_headers_options() -> ConfigOptions {
    ConfigOptions { compat: Some(true), ..ConfigOptions::default() }
}

on_every_database![
    failed_delivery_is_retried_before_the_next_one,
    unreachable_receiver_gets_all_deliveries_in_order_later,
    delivery_rejected_with_client_error_is_not_retried,
    slow_and_endless_receivers_do_not_delay_other_webhooks,
    slow_receivers_of_a_project_use_at_most_eight_deliveries,
    webhook_is_disabled_after_days_of_failures_and_enabled_by_update,
    failed_attempt_does_not_disable_a_webhook_that_was_updated_meanwhile,
    successful_test_delivery_enables_disabled_webhook,
    compat_mode_adds_gitlab_headers with compat_mode_adds_gitlab_headers_options(),
    concurrent_job_runners_deliver_in_order,
    payload_that_ends_the_process_is_not_built_without_end,
    attempt_to_build_a_payload_is_counted_before_it_ends,
    only_consecutive_failures_to_build_a_payload_end_a_delivery,
    deleted_webhook_receives_no_pending_deliveries,
];
