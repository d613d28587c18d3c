//! Approval settings as permissions of projects and groups. Groups lock the settings of their projects.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::{Fixture, approved_by};
use crate::support::{Client, TestServer, on_every_database, spaces};

const SETTING: &str = "/merge_request_approval_setting";

fn free(value: bool) -> Value {
    json!({"value": value, "locked": false, "inherited_from": null})
}

fn locked() -> Value {
    json!({"value": false, "locked": true, "inherited_from": "group"})
}

async fn put(client: &Client, place: &str, change: Value) -> Value {
    client.put(&format!("{place}{SETTING}"), change).await.expect(200).json()
}

impl Fixture<'_> {
    async fn permissions(&self) -> Value {
        self.root.get(&self.url(SETTING)).await.expect(200).json()
    }

    /// Moves the project into a new subgroup. Returns the paths of the group and the subgroup.
    async fn in_groups(&self) -> (String, String) {
        let top = spaces::group(&self.root, "top", json!({"visibility": "public"})).await;
        let low = spaces::group(&self.root, "low", json!({"visibility": "public", "parent_id": top})).await;
        self.root.put(&self.url("/transfer"), json!({"namespace": low})).await.expect(200);
        (format!("/groups/{top}"), format!("/groups/{low}"))
    }
}

async fn permissions_are_the_settings_of_a_project(server: TestServer) {
    let fixture = Fixture::new(&server, "permissions").await;
    let mut expected = json!({
        "allow_author_approval": free(false), "allow_committer_approval": free(true),
        "allow_overrides_to_approver_list_per_merge_request": free(true), "retain_approvals_on_push": free(false),
    });
    assert_eq!(fixture.permissions().await, expected);
    for (name, value, setting, stored) in [
        ("allow_author_approval", true, "merge_requests_author_approval", true),
        ("allow_committer_approval", false, "merge_requests_disable_committers_approval", true),
        (
            "allow_overrides_to_approver_list_per_merge_request",
            false,
            "disable_overriding_approvers_per_merge_request",
            true,
        ),
        ("retain_approvals_on_push", true, "reset_approvals_on_push", false),
    ] {
        expected[name] = free(value);
        assert_eq!(put(&fixture.root, &fixture.url(""), json!({name: value})).await, expected, "{name}");
        let settings = fixture.root.get(&fixture.url("/approvals")).await.expect(200).json();
        assert_eq!(settings[setting], stored, "{name}");
    }
    assert_eq!(fixture.permissions().await, expected);
    let none = fixture.root.put(&fixture.url(SETTING), json!({})).await.expect(400).message();
    assert!(none.starts_with("allow_author_approval, "), "{none}");
    assert!(none.ends_with("are missing, at least one parameter must be provided"), "{none}");
    fixture.root.put(&fixture.url(SETTING), json!({"allow_author_approval": "x"})).await.expect(400);
}

async fn groups_lock_the_settings_of_subgroups_and_projects(server: TestServer) {
    let fixture = Fixture::new(&server, "locked").await;
    let (top, low) = fixture.in_groups().await;
    let url = format!("{low}{SETTING}");
    let permissive = json!({
        "allow_author_approval": free(true), "allow_committer_approval": free(true),
        "allow_overrides_to_approver_list_per_merge_request": free(true), "retain_approvals_on_push": free(true),
    });
    assert_eq!(fixture.root.get(&url).await.expect(200).json(), permissive);
    put(&fixture.root, &fixture.url(""), json!({"allow_author_approval": true, "retain_approvals_on_push": true}))
        .await;
    let of_top = put(&fixture.root, &top, json!({"allow_author_approval": false})).await;
    assert_eq!((&of_top["allow_author_approval"], &of_top["retain_approvals_on_push"]), (&free(false), &free(true)));
    let of_low = put(&fixture.root, &low, json!({"retain_approvals_on_push": false})).await;
    assert_eq!((&of_low["allow_author_approval"], &of_low["retain_approvals_on_push"]), (&locked(), &free(false)));
    let of_project = fixture.permissions().await;
    assert_eq!((&of_project["allow_author_approval"], &of_project["retain_approvals_on_push"]), (&locked(), &locked()));
    assert_eq!(of_project["allow_committer_approval"], free(true));
    let settings = fixture.root.get(&fixture.url("/approvals")).await.expect(200).json();
    assert_eq!(
        (&settings["merge_requests_author_approval"], &settings["reset_approvals_on_push"]),
        (&json!(false), &json!(true))
    );
    // Changes of locked settings are ignored.
    let change = json!({"allow_author_approval": true, "allow_committer_approval": false});
    let changed = put(&fixture.root, &low, change.clone()).await;
    assert_eq!((&changed["allow_author_approval"], &changed["allow_committer_approval"]), (&locked(), &free(false)));
    assert_eq!(put(&fixture.root, &fixture.url(""), change).await["allow_author_approval"], locked());
    fixture.set(json!({"merge_requests_author_approval": false, "reset_approvals_on_push": true})).await;
    put(&fixture.root, &low, json!({"retain_approvals_on_push": true, "allow_committer_approval": true})).await;
    put(&fixture.root, &top, json!({"allow_author_approval": true})).await;
    // The values that the project stored before apply again.
    let of_project = fixture.permissions().await;
    assert_eq!(
        (&of_project["allow_author_approval"], &of_project["retain_approvals_on_push"]),
        (&free(true), &free(true))
    );
    assert_eq!(fixture.root.get(&url).await.expect(200).json(), permissive);
    let none = fixture.root.put(&url, json!({})).await.expect(400).message();
    assert!(none.ends_with("are missing, at least one parameter must be provided"), "{none}");
}

async fn locks_have_an_effect_on_open_merge_requests(server: TestServer) {
    let fixture = Fixture::new(&server, "effects").await;
    let (top, _) = fixture.in_groups().await;
    let (ada, ann) =
        (fixture.member("ada", AccessLevel::Developer).await, fixture.member("ann", AccessLevel::Developer).await);
    fixture.set(json!({"approvals_before_merge": 1, "merge_requests_author_approval": true})).await;
    fixture.set(json!({"reset_approvals_on_push": false})).await;
    // The author.
    fixture.approve(&fixture.root).await.expect(201);
    assert_eq!(fixture.approvals().await["approved"], true);
    put(&fixture.root, &top, json!({"allow_author_approval": false})).await;
    assert_eq!(fixture.approvals().await["approved"], false);
    fixture.unapprove(&fixture.root).await.expect(201);
    fixture.approve(&fixture.root).await.expect(401);
    // A committer.
    fixture.approve(&ada.client).await.expect(201);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    put(&fixture.root, &top, json!({"allow_committer_approval": false})).await;
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.merge().await.expect(405);
    put(&fixture.root, &top, json!({"allow_committer_approval": true})).await;
    // New commits.
    fixture.push("one.txt").await;
    assert_eq!(approved_by(&fixture.approvals().await), ["ada"]);
    put(&fixture.root, &top, json!({"retain_approvals_on_push": false})).await;
    fixture.push("two.txt").await;
    assert_eq!(approved_by(&fixture.approvals().await), [""; 0]);
    // Rules of the merge request.
    let rule = json!({"name": "None", "approvals_required": 0});
    let rules = fixture.url("/merge_requests/1/approval_rules");
    fixture.root.post(&rules, rule.clone()).await.expect(201);
    assert_eq!(fixture.detailed_status().await, "mergeable");
    put(&fixture.root, &top, json!({"allow_overrides_to_approver_list_per_merge_request": false})).await;
    assert_eq!(fixture.detailed_status().await, "not_approved");
    fixture.root.post(&rules, rule).await.expect(403);
    fixture.merge().await.expect(405);
    fixture.approve(&ann.client).await.expect(201);
    fixture.merge().await.expect(200);
}

async fn locks_end_with_a_transfer_out_of_the_group(server: TestServer) {
    let fixture = Fixture::new(&server, "moved").await;
    let (top, _) = fixture.in_groups().await;
    put(&fixture.root, &top, json!({"allow_committer_approval": false})).await;
    assert_eq!(fixture.permissions().await["allow_committer_approval"], locked());
    let other = spaces::group(&fixture.root, "other", json!({})).await;
    fixture.root.put(&fixture.url("/transfer"), json!({"namespace": other})).await.expect(200);
    assert_eq!(fixture.permissions().await["allow_committer_approval"], free(true));
    // A group that moves below a group with locks.
    let parent = top.rsplit('/').next().expect("an ID").to_owned();
    let transfer = json!({"group_id": parent.parse::<i64>().expect("an ID")});
    fixture.root.post(&format!("/groups/{other}/transfer"), transfer).await.expect(201);
    assert_eq!(fixture.permissions().await["allow_committer_approval"], locked());
    fixture.root.delete(&fixture.url("")).await.expect(202);
    fixture.root.delete(&top).await.expect(202);
    server.finish_jobs().await;
    fixture.root.get(&format!("{top}{SETTING}")).await.expect(404);
}

async fn permissions_require_maintainer_or_owner(server: TestServer) {
    let fixture = Fixture::new(&server, "roles").await;
    let group = spaces::group(&fixture.root, "roles", json!({"visibility": "public"})).await;
    let of_group = format!("/groups/{group}{SETTING}");
    let of_project = fixture.url(SETTING);
    let change = json!({"retain_approvals_on_push": false});
    let members = server.create_member_per_role(&fixture.root, group).await;
    for (level, user) in &members {
        let status = if *level == 50 { 200 } else { 403 };
        user.client.get(&of_group).await.expect(status);
        user.client.put(&of_group, change.clone()).await.expect(status);
    }
    for (name, role, status) in [("dev", AccessLevel::Developer, 403), ("mia", AccessLevel::Maintainer, 200)] {
        let member = fixture.member(name, role).await;
        member.client.get(&of_project).await.expect(status);
        member.client.put(&of_project, change.clone()).await.expect(status);
    }
    for url in [&of_group, &of_project] {
        server.anonymous().get(url).await.expect(401);
        server.anonymous().put(url, change.clone()).await.expect(401);
        server.create_user(&format!("s{}", url.len())).await.client.put(url, change.clone()).await.expect(403);
    }
    fixture.root.get(&format!("/groups/999999{SETTING}")).await.expect(404);
}

on_every_database![
    permissions_are_the_settings_of_a_project,
    groups_lock_the_settings_of_subgroups_and_projects,
    locks_have_an_effect_on_open_merge_requests,
    locks_end_with_a_transfer_out_of_the_group,
    permissions_require_maintainer_or_owner,
];
