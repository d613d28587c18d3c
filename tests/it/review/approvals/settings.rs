//! Approval settings of projects.

use serde_json::json;
use storage::entities::AccessLevel;

use super::{Fixture, approved_by};
use crate::support::code::{NewCommit, file};
use crate::support::{TestServer, on_every_database, spaces};

async fn settings_have_defaults_and_are_updated(server: TestServer) {
    let fixture = Fixture::new(&server, "settings").await;
    let url = fixture.url("/approvals");
    let mut expected = json!({
        "approvers": [], "approver_groups": [], "approvals_before_merge": 0, "reset_approvals_on_push": true,
        "disable_overriding_approvers_per_merge_request": false,
        "merge_requests_author_approval": false, "merge_requests_disable_committers_approval": false,
    });
    assert_eq!(fixture.root.get(&url).await.expect(200).json(), expected);
    for (name, value) in [
        ("approvals_before_merge", json!(3)),
        ("reset_approvals_on_push", json!(false)),
        ("disable_overriding_approvers_per_merge_request", json!(true)),
        ("merge_requests_author_approval", json!(true)),
        ("merge_requests_disable_committers_approval", json!(true)),
    ] {
        expected[name] = value.clone();
        assert_eq!(fixture.set(json!({name: value})).await, expected, "{name}");
    }
    assert_eq!(fixture.root.get(&url).await.expect(200).json(), expected);
    let project = fixture.root.get(&fixture.url("")).await.expect(200).json();
    assert_eq!(project["approvals_before_merge"], 3);
    let none = fixture.root.post(&url, json!({})).await.expect(400).message();
    assert!(none.ends_with("are missing, at least one parameter must be provided"), "{none}");
    for number in [-1, 101] {
        fixture.root.post(&url, json!({"approvals_before_merge": number})).await.expect(400);
    }
}

async fn settings_require_maintainer(server: TestServer) {
    let fixture = Fixture::new(&server, "roles").await;
    let url = fixture.url("/approvals");
    let change = json!({"approvals_before_merge": 1});
    for (name, role, status) in [("dev", AccessLevel::Developer, 403), ("mia", AccessLevel::Maintainer, 200)] {
        let member = fixture.member(name, role).await;
        member.client.get(&url).await.expect(status);
        let status = if status == 200 { 201 } else { status };
        member.client.post(&url, change.clone()).await.expect(status);
    }
    server.anonymous().get(&url).await.expect(401);
    server.anonymous().post(&url, change).await.expect(401);
}

async fn number_of_approvals_is_a_rule_for_all_users(server: TestServer) {
    let fixture = Fixture::new(&server, "numbers").await;
    let rules = async || fixture.root.get(&fixture.url("/approval_rules")).await.expect(200).json();
    let number = async || {
        let project = fixture.root.get(&fixture.url("")).await.expect(200).json();
        let settings = fixture.root.get(&fixture.url("/approvals")).await.expect(200).json();
        assert_eq!(project["approvals_before_merge"], settings["approvals_before_merge"]);
        project["approvals_before_merge"].as_i64().expect("a number")
    };
    fixture.set(json!({"approvals_before_merge": 0})).await;
    assert_eq!(rules().await, json!([]));
    fixture.set(json!({"approvals_before_merge": 2})).await;
    let rule = rules().await[0].clone();
    assert_eq!((&rule["name"], &rule["rule_type"]), (&json!("All Members"), &json!("any_approver")));
    assert_eq!((&rule["approvals_required"], number().await), (&json!(2), 2));
    fixture.root.put(&fixture.url(""), json!({"approvals_before_merge": 4})).await.expect(200);
    assert_eq!((&rules().await[0]["approvals_required"], number().await), (&json!(4), 4));
    fixture.root.put(&fixture.url(""), json!({"approvals_before_merge": 101})).await.expect(400);
    let one = fixture.url(&format!("/approval_rules/{}", rule["id"]));
    fixture.root.put(&one, json!({"approvals_required": 1})).await.expect(200);
    assert_eq!(number().await, 1);
    fixture.root.delete(&one).await.expect(204);
    assert_eq!((rules().await, number().await), (json!([]), 0));
    fixture.rule(json!({"name": "Any", "approvals_required": 3})).await;
    assert_eq!(number().await, 3);
    // A new project with a number has the rule, too.
    let id = spaces::project(&fixture.root, "fresh", json!({"approvals_before_merge": 2})).await;
    let fresh = fixture.root.get(&format!("/projects/{id}/approval_rules")).await.expect(200);
    assert_eq!(fresh.pluck("approvals_required"), [2]);
}

async fn authors_approve_only_if_the_project_permits_it(server: TestServer) {
    let fixture = Fixture::new(&server, "authors").await;
    fixture.set(json!({"approvals_before_merge": 1, "merge_requests_author_approval": true})).await;
    assert_eq!(fixture.approvals().await["user_can_approve"], true);
    fixture.approve(&fixture.root).await.expect(201);
    assert_eq!(fixture.approvals().await["approvals_left"], 0);
    // The approval stays, but no longer counts.
    fixture.set(json!({"merge_requests_author_approval": false})).await;
    let approvals = fixture.approvals().await;
    assert_eq!((approved_by(&approvals), &approvals["approvals_left"]), (vec!["root"], &json!(1)));
    fixture.merge().await.expect(405);
    fixture.unapprove(&fixture.root).await.expect(201);
}

async fn committers_approve_unless_the_project_forbids_it(server: TestServer) {
    let fixture = Fixture::new(&server, "committers").await;
    let (ada, dev) =
        (fixture.member("ada", AccessLevel::Developer).await, fixture.member("dev", AccessLevel::Developer).await);
    fixture.set(json!({"approvals_before_merge": 1})).await;
    fixture.approve(&ada.client).await.expect(201);
    assert_eq!(fixture.approvals().await["approved"], true);
    // Ada committed the only commit of the merge request.
    fixture.set(json!({"merge_requests_disable_committers_approval": true})).await;
    assert_eq!(
        (&fixture.approvals().await["approved"], fixture.detailed_status().await),
        (&json!(false), json!("not_approved"))
    );
    fixture.merge().await.expect(405);
    fixture.unapprove(&ada.client).await.expect(201);
    fixture.approve(&ada.client).await.expect(401);
    // The commits of the target branch do not count.
    fixture.project.import(&NewCommit {
        time: 1_600_000_500,
        author: "Dev <DEV@example.com>",
        changes: file("main.txt", "main\n"),
        ..NewCommit::default()
    });
    fixture.approve(&dev.client).await.expect(201);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    // An address in another case belongs to the same user.
    fixture.project.import(&NewCommit {
        branch: "other",
        from: Some("main"),
        time: 1_600_000_600,
        author: "Dev <DEV@example.com>",
        changes: file("other.txt", "other\n"),
    });
    let iid = fixture.propose(&fixture.root, "other").await;
    let other = fixture.url(&format!("/merge_requests/{iid}/approve"));
    dev.client.post(&other, json!({})).await.expect(401);
    ada.client.post(&other, json!({})).await.expect(201);
}

on_every_database![
    settings_have_defaults_and_are_updated,
    settings_require_maintainer,
    number_of_approvals_is_a_rule_for_all_users,
    authors_approve_only_if_the_project_permits_it,
    committers_approve_unless_the_project_forbids_it,
];
