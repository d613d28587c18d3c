//! Requests to external status checks.

use chrono::TimeDelta;
use holdfast::config::ConfigOptions;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::{events, now, status_check_deliveries};

use super::Fixture;
use crate::support::spaces::id;
use crate::support::webhook_receiver::{ReceivedRequest, Receiver, Reply, hmac_sha256, unused_address};
use crate::support::{TestServer, on_every_database};

fn hmac(key: &[u8], text: &[u8]) -> String {
    hex::encode(hmac_sha256(key, text))
}

/// Returns the actions and heads of requests.
fn actions(requests: &[ReceivedRequest]) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let all = requests.iter().map(|request| &request.body["object_attributes"]);
    all.map(|about| (text(&about["action"]), text(&about["last_commit"]["id"]))).collect()
}

async fn pending(server: &TestServer) -> u64 {
    status_check_deliveries::Entity::find().count(server.backend.database.read()).await.expect("a count")
}

async fn created_merge_request_is_sent_with_its_check_and_signature(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut receiver = Receiver::start().await;
    let url = format!("{}/checks?a=b", receiver.url);
    let body = json!({ "name": "Signed", "external_url": url, "shared_secret": "shared secret" });
    let signed = id(&fixture.check(body).await);
    let merge_request = fixture.propose("feature/x").await;
    server.finish_jobs().await;
    let [request] = receiver.rest().try_into().expect("one request");
    assert_eq!(request.line, "POST /checks?a=b");
    assert_eq!(request.header("x-service-event"), "Merge Request Hook");
    assert_eq!(request.header("x-service-event-uuid").len(), 36);
    assert_eq!(request.header("x-service-signature"), hmac(b"shared secret", &request.bytes));
    assert_eq!((request.header("x-service-token"), request.header("x-gitlab-signature")), ("", ""));
    let body = &request.body;
    assert_eq!(body["external_approval_rule"], json!({ "id": signed, "name": "Signed", "external_url": url }));
    assert_eq!((&body["object_kind"], &body["user"]["username"]), (&json!("merge_request"), &json!("root")));
    assert_eq!(body["user"]["email"], "[REDACTED]");
    let about = &body["object_attributes"];
    assert_eq!((&about["id"], &about["action"]), (&merge_request["id"], &json!("open")));
    assert_eq!(about["last_commit"]["id"], fixture.project.id("feature/x"));
    assert_eq!(pending(&server).await, 0);
    assert_eq!(fixture.status().await, "pending");
}

async fn unsigned_check_receives_no_signature_and_webhooks_no_check(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let (mut receiver, mut hook) = (Receiver::start().await, Receiver::start().await);
    fixture.check_at("Plain", &receiver.url).await;
    let body = json!({ "url": hook.url, "merge_requests_events": true });
    fixture.root.post(&fixture.url("/hooks"), body).await.expect(201);
    fixture.propose("feature/x").await;
    server.finish_jobs().await;
    let [request] = receiver.rest().try_into().expect("one request");
    assert_eq!(request.headers.get("x-service-signature"), None);
    let [request] = hook.rest().try_into().expect("one request");
    assert_eq!(request.body.get("external_approval_rule"), None);
}

async fn commits_target_and_state_are_sent_and_other_changes_are_not(server: TestServer) {
    let fixture = Fixture::new(&server).await;
    let mut receiver = Receiver::start().await;
    let check = fixture.check_at("Check", &receiver.url).await;
    let one = fixture.url("/merge_requests/1");
    let first = fixture.project.id("feature/x");
    // A new check does not receive open merge requests.
    for change in [json!({ "title": "Other" }), json!({ "description": "More" }), json!({ "labels": "a" })] {
        fixture.root.put(&one, change).await.expect(200);
    }
    fixture.ann.post(&fixture.url("/merge_requests/1/approve"), json!({})).await.expect(201);
    fixture.ann.post(&fixture.url("/merge_requests/1/notes"), json!({ "body": "Fine" })).await.expect(201);
    server.finish_jobs().await;
    assert_eq!(receiver.rest().len(), 0);
    fixture.push("more.txt").await;
    server.finish_jobs().await;
    let second = fixture.project.id("feature/x");
    let requests = receiver.rest();
    assert_eq!(actions(&requests), [("update".to_owned(), second.clone())]);
    assert_eq!(requests[0].body["object_attributes"]["oldrev"], first);
    for (change, action) in [
        (json!({ "state_event": "close" }), "close"),
        (json!({ "state_event": "reopen" }), "reopen"),
        (json!({ "target_branch": "free" }), "update"),
    ] {
        if action == "update" {
            let branch = json!({ "branch": "free", "ref": "main" });
            fixture.root.post(&fixture.project.url("/branches"), branch).await.expect(201);
        }
        fixture.root.put(&one, change).await.expect(200);
        server.finish_jobs().await;
        assert_eq!(actions(&receiver.rest()), [(action.to_owned(), second.clone())]);
    }
    // A retry sends the merge request again.
    fixture.report(check, "failed").await;
    fixture.retry(&fixture.ann, check).await.expect(202);
    server.finish_jobs().await;
    let requests = receiver.rest();
    assert_eq!(actions(&requests), [("update".to_owned(), second)]);
    assert_eq!(requests[0].body["user"]["username"], "ann");
    fixture.merge(json!({})).await.expect(200);
    server.finish_jobs().await;
    assert_eq!(receiver.rest().len(), 0);
}

async fn only_checks_of_the_target_branch_receive_a_merge_request(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let (mut of_main, mut of_release) = (Receiver::start().await, Receiver::start().await);
    let protected = fixture.url("/protected_branches");
    let release = fixture.root.post(&protected, json!({ "name": "release/*" })).await.expect(201).json();
    let any = fixture.root.post(&protected, json!({ "name": "ma*" })).await.expect(201).json();
    let listed = fixture.root.get(&protected).await.expect(200).json();
    let main = listed.as_array().expect("a list").iter().find(|branch| branch["name"] == "main").expect("main");
    for (url, ids) in [(&of_main.url, json!([main["id"], any["id"]])), (&of_release.url, json!([release["id"]]))] {
        fixture.check(json!({ "name": url, "external_url": url, "protected_branch_ids": ids })).await;
    }
    fixture.propose("feature/x").await;
    server.finish_jobs().await;
    // Both branches of the first check match, and it receives one request.
    assert_eq!((of_main.rest().len(), of_release.rest().len()), (1, 0));
}

async fn failure_is_retried_in_order_and_refusal_fails_the_check(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut receiver = Receiver::with(|number| Reply::Status([500, 200, 200, 404][number.min(3)])).await;
    let check = fixture.check_at("Check", &receiver.url).await;
    fixture.propose("feature/x").await;
    fixture.push("one.txt").await;
    server.finish_jobs().await;
    let requests = receiver.rest();
    let ids: Vec<&str> = requests.iter().map(|one| one.header("x-service-event-uuid")).collect();
    assert!(ids.len() == 3 && ids[0] == ids[1] && ids[1] != ids[2], "{ids:?}");
    let sent: Vec<String> = actions(&requests).into_iter().map(|(action, _)| action).collect();
    assert_eq!(
        (sent, fixture.status().await.as_str()),
        (["open", "open", "update"].map(str::to_owned).to_vec(), "pending")
    );
    fixture.push("two.txt").await;
    server.finish_jobs().await;
    assert_eq!((receiver.rest().len(), fixture.status().await.as_str(), pending(&server).await), (1, "failed", 0));
    // The status of the service is more recent than the refusal.
    fixture.retry(&fixture.ann, check).await.expect(202);
    fixture.report(check, "passed").await;
    server.finish_jobs().await;
    assert_eq!((receiver.rest().len(), fixture.status().await.as_str()), (1, "passed"));
}

async fn unreachable_service_fails_the_check_after_three_days(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let check = fixture.check_at("Check", &unused_address().await).await;
    fixture.propose("feature/x").await;
    let db = server.backend.database.write();
    domain::webhooks::status_checks::deliver(&server.backend, check).await.expect("an attempt");
    let row = status_check_deliveries::Entity::find().one(db).await.expect("rows").expect("a row");
    assert_eq!((row.attempts, fixture.status().await.as_str()), (1, "pending"));
    assert!(row.next_attempt_at > now());
    // It is not due.
    domain::webhooks::status_checks::deliver(&server.backend, check).await.expect("a look");
    let row = status_check_deliveries::Entity::find().one(db).await.expect("rows").expect("a row");
    assert_eq!(row.attempts, 1);
    status_check_deliveries::Entity::update_many()
        .col_expr(status_check_deliveries::Column::CreatedAt, Expr::value(now() - TimeDelta::days(4)))
        .col_expr(status_check_deliveries::Column::NextAttemptAt, Expr::value(now() - TimeDelta::days(1)))
        .exec(db)
        .await
        .expect("a change");
    domain::webhooks::status_checks::deliver(&server.backend, check).await.expect("an attempt");
    assert_eq!((pending(&server).await, fixture.status().await.as_str()), (0, "failed"));
}

async fn payload_that_ends_the_process_fails_the_check(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut receiver = Receiver::start().await;
    fixture.check_at("Check", &receiver.url).await;
    fixture.propose("feature/x").await;
    status_check_deliveries::Entity::update_many()
        .col_expr(status_check_deliveries::Column::PayloadAttempts, Expr::value(5))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    server.finish_jobs().await;
    assert_eq!((receiver.rest().len(), pending(&server).await, fixture.status().await.as_str()), (0, 0, "failed"));
}

async fn one_failure_to_build_a_payload_does_not_fail_a_check_that_is_retried(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut receiver = Receiver::start().await;
    let check = fixture.check_at("Check", &receiver.url).await;
    fixture.propose("feature/x").await;
    let db = server.backend.database.write();
    let stored = status_check_deliveries::Entity::find().one(db).await.expect("rows").expect("a row");
    let event = events::Entity::find_by_id(stored.event_id).one(db).await.expect("rows").expect("a row");
    let attempt = async |target: Option<i64>| {
        let change = events::Entity::update_many().col_expr(events::Column::TargetId, Expr::value(target));
        change.filter(events::Column::Id.eq(event.id)).exec(db).await.expect("a change");
        status_check_deliveries::Entity::update_many()
            .col_expr(status_check_deliveries::Column::Attempts, Expr::value(20))
            .col_expr(status_check_deliveries::Column::NextAttemptAt, Expr::value(now() - TimeDelta::days(1)))
            .exec(db)
            .await
            .expect("a change");
        domain::webhooks::status_checks::deliver(&server.backend, check).await.expect("an attempt");
        status_check_deliveries::Entity::find().one(db).await.expect("rows")
    };
    // The event has no merge request.
    let row = attempt(None).await.expect("a row");
    assert_eq!((row.attempts, row.payload_attempts, fixture.status().await.as_str()), (21, 1, "pending"));
    assert_eq!(attempt(event.target_id).await, None);
    assert_eq!((receiver.rest().len(), fixture.status().await.as_str()), (1, "pending"));
}

async fn deleted_check_receives_nothing_and_changed_check_uses_its_new_url(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let (mut former, mut latter) = (Receiver::start().await, Receiver::start().await);
    let changed = fixture.check_at("Changed", &former.url).await;
    let deleted = fixture.check_at("Deleted", &format!("{}/deleted", former.url)).await;
    fixture.propose("feature/x").await;
    let all = fixture.url("/external_status_checks");
    fixture.root.put(&format!("{all}/{changed}"), json!({ "external_url": latter.url })).await.expect(200);
    fixture.root.delete(&format!("{all}/{deleted}")).await.expect(204);
    server.finish_jobs().await;
    assert_eq!((former.rest().len(), latter.rest().len(), pending(&server).await), (0, 1, 0));
}

async fn redirect_to_another_origin_has_no_signature(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut target = Receiver::start().await;
    let to = target.url.clone();
    let mut receiver = Receiver::with(move |_| Reply::Redirect(307, to.clone())).await;
    let body = json!({ "name": "Check", "external_url": receiver.url, "shared_secret": "shared secret" });
    fixture.check(body).await;
    fixture.propose("feature/x").await;
    server.finish_jobs().await;
    let [first] = receiver.rest().try_into().expect("one request");
    let [second] = target.rest().try_into().expect("one request");
    assert_eq!((first.header("x-service-signature").len(), second.header("x-service-signature")), (64, ""));
}

async fn compat_mode_adds_signature_of_the_reference(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "name": "Check", "external_url": receiver.url, "shared_secret": "shared secret" });
    fixture.check(body).await;
    fixture.propose("feature/x").await;
    server.finish_jobs().await;
    let [request] = receiver.rest().try_into().expect("one request");
    assert_eq!(request.header("x-gitlab-signature"), hmac(b"shared secret", &request.bytes));
    assert_eq!(request.header("x-service-signature"), request.header("x-gitlab-signature"));
}

async fn local_address_is_refused_when_it_is_stored_and_when_it_is_reached(server: TestServer) {
    let fixture = Fixture::without_merge_request(&server).await;
    let mut receiver = Receiver::start().await;
    let all = fixture.url("/external_status_checks");
    let body = json!({ "name": "Check", "external_url": receiver.url });
    let refused = fixture.root.post(&all, body.clone()).await.expect(422);
    assert_eq!(refused.message(), "external_url is invalid");
    assert_eq!(refused.json()["setting"], "allow_local_requests_from_hooks_and_services");
    let setting = |allowed: bool| json!({ "allow_local_requests_from_hooks_and_services": allowed });
    fixture.root.put("/application/settings", setting(true)).await.expect(200);
    let check = id(&fixture.root.post(&all, body).await.expect(201).json());
    fixture.root.put("/application/settings", setting(false)).await.expect(200);
    fixture.propose("feature/x").await;
    domain::webhooks::status_checks::deliver(&server.backend, check).await.expect("an attempt");
    assert_eq!((receiver.rest().len(), pending(&server).await), (0, 1));
}

fn compat() -> ConfigOptions {
    ConfigOptions { compat: Some(true), ..ConfigOptions::default() }
}

fn public_addresses() -> ConfigOptions {
    ConfigOptions { allow_local_webhooks: Some(false), ..ConfigOptions::default() }
}

on_every_database![
    created_merge_request_is_sent_with_its_check_and_signature,
    unsigned_check_receives_no_signature_and_webhooks_no_check,
    commits_target_and_state_are_sent_and_other_changes_are_not,
    only_checks_of_the_target_branch_receive_a_merge_request,
    failure_is_retried_in_order_and_refusal_fails_the_check,
    unreachable_service_fails_the_check_after_three_days,
    payload_that_ends_the_process_fails_the_check,
    one_failure_to_build_a_payload_does_not_fail_a_check_that_is_retried,
    deleted_check_receives_nothing_and_changed_check_uses_its_new_url,
    redirect_to_another_origin_has_no_signature,
    compat_mode_adds_signature_of_the_reference with compat(),
    local_address_is_refused_when_it_is_stored_and_when_it_is_reached with public_addresses(),
];
