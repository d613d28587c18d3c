//! A clock that is set forward and back by hours while the server runs.

use std::time::Duration;

use serde_json::json;

use super::load::{self, Load};
use crate::support::Client;
use crate::support::browser::Browser;
use crate::support::clock::{Clock, PASSWORD};
use crate::support::process::{Process, Site, TOKEN, on_every_site};
use crate::support::webhook_receiver::{Receiver, Reply};

/// Maximum time of a request.
const LIMIT: Duration = Duration::from_secs(45);
/// Number of test deliveries that a user may send within a minute.
const TEST_DELIVERIES: usize = 10;

async fn requests_do_not_fail_when_clock_is_set(site: Site) {
    let clock = Clock::new(&site);
    let server = clock.serve(&site).await;
    let work = load::create_project(&site).await;
    let mut browser = Browser::at(&server.base);
    assert_eq!(browser.sign_in("root", PASSWORD, &[]).await.status, 303);
    let load = Load::start(&server, &work, "w");
    load.progress(6).await;
    // The longest push counts as abandoned after seven hours.
    for hours in [3, -3, 8, 0, -12, 0] {
        clock.set(hours);
        load.progress(10).await;
        assert_eq!(browser.get("/-/session").await.status, 200, "{hours}");
    }
    let written = load.stop().await;
    written.check_failures(&[], LIMIT);
    written.check(&server).await;
    let client = Client::new(&server.base, Some(TOKEN));
    client.get("//-/readiness").await.expect(200);
    // A process that was killed ahead of time left nothing that a later start does not recover.
    clock.set(3);
    let load = Load::start(&server, &work, "k");
    load.progress(3).await;
    server.kill().await;
    let written = load.stop().await;
    clock.set(0);
    let server = clock.serve(&site).await;
    written.check(&server).await;
    server.stop().await;
    site.assert_sound(1).await;
}

/// Creates a project with a webhook for issues, and returns its path.
async fn project_with_webhook(server: &Process, url: &str) -> String {
    let root = Client::new(&server.base, Some(TOKEN));
    let project = root.post("/projects", json!({ "name": "hooks", "initialize_with_readme": true })).await.expect(201);
    let project = format!("/projects/{}", project.json()["id"]);
    let hook = json!({ "url": url, "push_events": false, "issues_events": true });
    root.post(&format!("{project}/hooks"), hook).await.expect(201);
    project
}

async fn webhooks_and_rate_limits_continue_after_clock_is_set_back(site: Site) {
    let clock = Clock::new(&site);
    let server = clock.serve(&site).await;
    let mut receiver = Receiver::with(|number| Reply::Status(if number == 0 { 500 } else { 200 })).await;
    let project = project_with_webhook(&server, &receiver.url).await;
    let root = Client::new(&server.base, Some(TOKEN));
    clock.set(3);
    root.post(&format!("{project}/issues"), json!({ "title": "ahead" })).await.expect(201);
    // Fails, and is scheduled again, three hours ahead of the real time.
    receiver.next().await;
    root.post(&format!("{project}/issues"), json!({ "title": "later" })).await.expect(201);
    clock.set(0);
    let titles = [receiver.next().await, receiver.next().await]
        .map(|request| request.body["object_attributes"]["title"].clone());
    assert_eq!(titles, [json!("ahead"), json!("later")]);

    clock.set(3);
    let hooks = root.get(&format!("{project}/hooks")).await.expect(200).pluck("id");
    let test = format!("{project}/hooks/{}/test/issues_events", hooks[0]);
    for _ in 0..TEST_DELIVERIES {
        root.post(&test, json!({})).await.expect(201);
    }
    root.post(&test, json!({})).await.expect(429);
    clock.set(0);
    root.post(&test, json!({})).await.expect(201);
    server.stop().await;
}

on_every_site![requests_do_not_fail_when_clock_is_set, webhooks_and_rate_limits_continue_after_clock_is_set_back];
