//! Whose approvals count for a rule.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::{TestServer, on_every_database, spaces};

async fn rule_counts_its_users_and_direct_members_of_its_groups(server: TestServer) {
    let fixture = Fixture::new(&server, "counts").await;
    let (ann, bob, cid) = (
        fixture.member("ann", AccessLevel::Developer).await,
        fixture.member("bob", AccessLevel::Developer).await,
        fixture.member("cid", AccessLevel::Developer).await,
    );
    let team = spaces::group(&fixture.root, "team", json!({"visibility": "public"})).await;
    spaces::join(&fixture.root, &format!("/groups/{team}"), bob.id, 20).await;
    let rule =
        fixture.rule(json!({"name": "Both", "approvals_required": 2, "user_ids": [ann.id], "group_ids": [team]})).await;
    let eligible: Vec<&Value> = rule["eligible_approvers"].as_array().expect("a list").iter().collect();
    let names: Vec<&Value> = eligible.iter().map(|user| &user["username"]).collect();
    // The administrator created the group, and owns the namespace of the project.
    assert_eq!(names, ["root", "ann", "bob"]);
    fixture.approve(&cid.client).await.expect(201);
    assert_eq!(fixture.approvals().await["approvals_left"], 2);
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(fixture.approvals().await["approvals_left"], 1);
    fixture.merge().await.expect(405);
    fixture.approve(&bob.client).await.expect(201);
    assert_eq!(fixture.approvals().await["approvals_left"], 0);
    fixture.merge().await.expect(200);
}

async fn users_without_the_developer_role_do_not_count(server: TestServer) {
    let fixture = Fixture::new(&server, "roles").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let rob = fixture.member("rob", AccessLevel::Reporter).await;
    let stranger = server.create_user("eve").await;
    let ids = [ann.id, rob.id, stranger.id];
    let rule = fixture.rule(json!({"name": "R", "approvals_required": 2, "user_ids": ids})).await;
    assert_eq!(rule["users"].as_array().expect("a list").len(), 3);
    assert_eq!(rule["eligible_approvers"].as_array().expect("a list").len(), 1);
    // Only one user can approve, so one approval suffices.
    fixture.approve(&ann.client).await.expect(201);
    let approvals = fixture.approvals().await;
    assert_eq!((&approvals["approvals_required"], &approvals["approvals_left"]), (&json!(2), &json!(0)));
    // A Maintainer of the project, by the role in a group that contains it.
    spaces::join(&fixture.root, &fixture.url(""), stranger.id, 40).await;
    assert_eq!(fixture.approvals().await["approvals_left"], 1);
    // A blocked user cannot approve.
    fixture.root.post(&format!("/users/{}/block", stranger.id), json!({})).await.expect(201);
    assert_eq!(fixture.approvals().await["approvals_left"], 0);
    // A rule that no user can satisfy requires nothing.
    fixture.root.put(&fixture.url(&format!("/members/{}", ann.id)), json!({"access_level": 20})).await.expect(200);
    let approvals = fixture.approvals().await;
    assert_eq!((&approvals["approved"], &approvals["approvals_left"]), (&json!(true), &json!(0)));
    assert_eq!(approvals["invalid_approvers_rules"][0]["name"], "R");
}

async fn author_is_not_eligible_for_the_own_merge_request(server: TestServer) {
    let fixture = Fixture::new(&server, "author").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    fixture.project.git(&["branch", "own", "feature/x"]);
    let iid = fixture.propose(&ann.client, "own").await;
    fixture.rule(json!({"name": "Two", "approvals_required": 2, "user_ids": [ann.id, bob.id]})).await;
    let url = fixture.url(&format!("/merge_requests/{iid}/approvals"));
    assert_eq!(ann.client.get(&url).await.expect(200).json()["approvals_left"], 1);
    assert_eq!(fixture.approvals().await["approvals_left"], 2);
    bob.client.post(&fixture.url(&format!("/merge_requests/{iid}/approve")), json!({})).await.expect(201);
    assert_eq!(ann.client.get(&url).await.expect(200).json()["approved"], true);
}

async fn approvals_of_regular_rules_count_for_all_users(server: TestServer) {
    let fixture = Fixture::new(&server, "sums").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    fixture.set(json!({"approvals_before_merge": 2})).await;
    fixture.rule(json!({"name": "Ann", "approvals_required": 1, "user_ids": [ann.id]})).await;
    let numbers = async || {
        let approvals = fixture.approvals().await;
        let left = approvals["approval_rules_left"].as_array().expect("a list").len();
        (approvals["approvals_required"].clone(), approvals["approvals_left"].clone(), left)
    };
    assert_eq!(numbers().await, (json!(2), json!(2), 2));
    fixture.approve(&bob.client).await.expect(201);
    assert_eq!(numbers().await, (json!(2), json!(1), 2));
    fixture.approve(&ann.client).await.expect(201);
    assert_eq!(numbers().await, (json!(2), json!(0), 0));
}

async fn former_approvers_do_not_count_for_all_users(server: TestServer) {
    let fixture = Fixture::new(&server, "former").await;
    let mut members = Vec::new();
    for name in ["blocked", "removed", "demoted"] {
        members.push(fixture.member(name, AccessLevel::Developer).await);
    }
    fixture.set(json!({"approvals_before_merge": 3})).await;
    for member in &members {
        fixture.approve(&member.client).await.expect(201);
    }
    let numbers = async || {
        let approvals = fixture.approvals().await;
        let listed = approvals["approved_by"].as_array().expect("a list").len();
        (approvals["approvals_left"].clone(), approvals["approved"].clone(), listed)
    };
    assert_eq!(numbers().await, (json!(0), json!(true), 3));
    let [blocked, removed, demoted] = &members[..] else { panic!("three members") };
    fixture.root.post(&format!("/users/{}/block", blocked.id), json!({})).await.expect(201);
    assert_eq!(numbers().await.0, 1);
    fixture.root.delete(&fixture.url(&format!("/members/{}", removed.id))).await.expect(204);
    assert_eq!(numbers().await.0, 2);
    let member = fixture.url(&format!("/members/{}", demoted.id));
    fixture.root.put(&member, json!({"access_level": 20})).await.expect(200);
    assert_eq!(numbers().await, (json!(3), json!(false), 3));
    fixture.merge().await.expect(405);
    fixture.root.put(&member, json!({"access_level": 30})).await.expect(200);
    fixture.root.post(&format!("/users/{}/unblock", blocked.id), json!({})).await.expect(201);
    assert_eq!(numbers().await.0, 1);
    // An administrator without a role in the project can approve.
    let boss = server.create_user("boss").await;
    fixture.root.put(&format!("/users/{}", boss.id), json!({"admin": true})).await.expect(200);
    fixture.approve(&boss.client).await.expect(201);
    assert_eq!(numbers().await, (json!(0), json!(true), 4));
}

on_every_database![
    rule_counts_its_users_and_direct_members_of_its_groups,
    users_without_the_developer_role_do_not_count,
    author_is_not_eligible_for_the_own_merge_request,
    approvals_of_regular_rules_count_for_all_users,
    former_approvers_do_not_count_for_all_users,
];
