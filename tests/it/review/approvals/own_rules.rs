//! Approval rules of merge requests, which replace the rules of the project.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::{Fixture, Member, own_rule};
use crate::support::{TestServer, on_every_database, spaces};

const RULES: &str = "/merge_requests/1/approval_rules";

impl Fixture<'_> {
    /// Creates a rule of the merge request.
    async fn own_rule(&self, body: Value) -> Value {
        own_rule(&self.root, self.project.id, 1, body).await
    }

    async fn approval_state(&self) -> Value {
        self.root.get(&self.url("/merge_requests/1/approval_state")).await.expect(200).json()
    }

    async fn two_developers(&self) -> (Member, Member) {
        (self.member("ann", AccessLevel::Developer).await, self.member("bob", AccessLevel::Developer).await)
    }
}

async fn own_rule_lifecycle(server: TestServer) {
    let fixture = Fixture::new(&server, "lifecycle").await;
    let (ann, bob) = fixture.two_developers().await;
    let all = fixture.url(RULES);
    assert_eq!(fixture.root.get(&all).await.expect(200).json(), json!([]));
    let created = fixture.own_rule(json!({"name": " Safety ", "approvals_required": 1, "user_ids": [ann.id]})).await;
    let shown = created["users"][0].clone();
    assert_eq!(shown["username"], "ann");
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "Safety", "rule_type": "regular", "report_type": null,
            "eligible_approvers": [shown], "approvals_required": 1, "users": [shown], "groups": [],
            "contains_hidden_groups": false, "section": null, "source_rule": null, "overridden": false,
        })
    );
    let one = format!("{all}/{}", created["id"]);
    assert_eq!(fixture.root.get(&one).await.expect(200).json(), created);
    assert_eq!(fixture.root.put(&one, json!({})).await.expect(200).json(), created);
    let second = fixture.own_rule(json!({"name": "Any", "approvals_required": 2})).await;
    assert_eq!(second["rule_type"], "any_approver");
    let page = fixture.root.get(&format!("{all}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.json(), page.header("X-Total")), (json!([second]), "2"));
    let change = json!({"name": "Care", "approvals_required": 2, "usernames": ["BOB"]});
    let changed = fixture.root.put(&one, change).await.expect(200).json();
    assert_eq!((&changed["name"], &changed["approvals_required"]), (&json!("Care"), &json!(2)));
    assert_eq!((&changed["users"][0]["id"], &changed["users"][1]), (&json!(bob.id), &Value::Null));
    // The rules of another merge request and of the project are separate.
    fixture.project.git(&["branch", "other", "feature/x"]);
    let other = fixture.propose(&fixture.root, "other").await;
    let others = fixture.url(&format!("/merge_requests/{other}/approval_rules"));
    assert_eq!(fixture.root.get(&others).await.expect(200).json(), json!([]));
    fixture.root.get(&format!("{others}/{}", created["id"])).await.expect(404);
    assert_eq!(fixture.root.get(&fixture.url("/approval_rules")).await.expect(200).json(), json!([]));
    fixture.root.get(&fixture.url(&format!("/approval_rules/{}", created["id"]))).await.expect(404);
    let header = fixture.root.request(reqwest::Method::DELETE, &one);
    let header = header.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    fixture.root.send(header).await.expect(412);
    fixture.root.delete(&one).await.expect(204);
    for response in
        [fixture.root.get(&one).await, fixture.root.put(&one, json!({})).await, fixture.root.delete(&one).await]
    {
        assert_eq!(response.expect(404).message(), "404 Not found");
    }
    assert_eq!(fixture.root.get(&all).await.expect(200).pluck("name"), ["Any"]);
}

async fn own_rules_replace_the_rules_of_the_project(server: TestServer) {
    let fixture = Fixture::new(&server, "replace").await;
    let (ann, bob) = fixture.two_developers().await;
    fixture.set(json!({"approvals_before_merge": 2})).await;
    fixture.rule(json!({"name": "Bob", "approvals_required": 1, "user_ids": [bob.id]})).await;
    let before = fixture.approval_state().await;
    assert_eq!(before["approval_rules_overwritten"], false);
    assert_eq!(before["rules"].as_array().expect("a list").len(), 2);
    let own = fixture.own_rule(json!({"name": "Ann", "approvals_required": 1, "user_ids": [ann.id]})).await;
    let approvals = fixture.approvals().await;
    assert_eq!((&approvals["approvals_required"], &approvals["approvals_left"]), (&json!(1), &json!(1)));
    assert_eq!((fixture.detailed_status().await, fixture.merge().await.status), (json!("not_approved"), 405));
    fixture.approve(&ann.client).await.expect(201);
    let state = fixture.approval_state().await;
    let shown = own["users"][0].clone();
    assert_eq!(
        state,
        json!({"approval_rules_overwritten": true, "rules": [{
            "id": own["id"], "name": "Ann", "rule_type": "regular", "report_type": null,
            "eligible_approvers": [shown], "approvals_required": 1, "users": [shown], "groups": [],
            "contains_hidden_groups": false, "section": null, "source_rule": null, "overridden": false,
            "code_owner": false, "approved": true, "approved_by": [shown],
        }]})
    );
    // Without rules of its own, those of the project apply.
    let one = fixture.url(&format!("{RULES}/{}", own["id"]));
    fixture.root.delete(&one).await.expect(204);
    let state = fixture.approval_state().await;
    assert_eq!(state["approval_rules_overwritten"], false);
    let rules = state["rules"].as_array().expect("a list");
    let parts: Vec<_> = rules.iter().map(|rule| (rule["name"].clone(), rule["approved"].clone())).collect();
    assert_eq!(parts, [(json!("All Members"), json!(false)), (json!("Bob"), json!(false))]);
    assert_eq!((&rules[0]["approved_by"], &rules[1]["approved_by"]), (&json!([shown]), &json!([])));
    fixture.merge().await.expect(405);
    fixture.own_rule(json!({"name": "None", "approvals_required": 0})).await;
    fixture.merge().await.expect(200);
}

async fn disabled_overriding_ignores_and_refuses_own_rules(server: TestServer) {
    let fixture = Fixture::new(&server, "disabled").await;
    let (ann, _) = fixture.two_developers().await;
    fixture.set(json!({"approvals_before_merge": 1})).await;
    let own = fixture.own_rule(json!({"name": "None", "approvals_required": 0})).await;
    assert_eq!(fixture.detailed_status().await, "mergeable");
    let set = fixture.set(json!({"disable_overriding_approvers_per_merge_request": true})).await;
    assert_eq!(set["disable_overriding_approvers_per_merge_request"], true);
    assert_eq!(fixture.detailed_status().await, "not_approved");
    assert_eq!(fixture.approval_state().await["approval_rules_overwritten"], false);
    fixture.merge().await.expect(405);
    let (all, one) = (fixture.url(RULES), fixture.url(&format!("{RULES}/{}", own["id"])));
    let new = json!({"name": "More", "approvals_required": 0});
    for response in [
        fixture.root.post(&all, new).await,
        fixture.root.put(&one, json!({"name": "New"})).await,
        fixture.root.delete(&one).await,
    ] {
        assert_eq!(response.expect(403).message(), "403 Forbidden - Overriding approvals is disabled");
    }
    let number = json!({"approvals_required": 0});
    let refused = fixture.root.post(&fixture.url("/merge_requests/1/approvals"), number).await.expect(422);
    assert_eq!(refused.message(), "Overriding approvals is disabled");
    assert_eq!(fixture.root.get(&all).await.expect(200).pluck("name"), ["None"]);
    fixture.approve(&ann.client).await.expect(201);
    fixture.merge().await.expect(200);
}

async fn copies_follow_their_source_unless_overridden(server: TestServer) {
    let fixture = Fixture::new(&server, "copies").await;
    let (ann, bob) = fixture.two_developers().await;
    let team = spaces::group(&fixture.root, "team", json!({"visibility": "public"})).await;
    let body = json!({"name": "Source", "approvals_required": 2, "user_ids": [ann.id], "group_ids": [team]});
    let source = fixture.rule(body).await;
    let copy = fixture.own_rule(json!({"approval_project_rule_id": source["id"], "approvals_required": 2})).await;
    assert_eq!((&copy["name"], &copy["overridden"]), (&json!("Source"), &json!(false)));
    assert_eq!((&copy["users"], &copy["groups"]), (&source["users"], &source["groups"]));
    assert_eq!(
        copy["source_rule"],
        json!({"id": source["id"], "name": "Source", "rule_type": "regular", "approvals_required": 2})
    );
    let all = fixture.url(RULES);
    let one = format!("{all}/{}", copy["id"]);
    let fewer = "must be greater than or equal to 2";
    let refused = fixture.root.put(&one, json!({"approvals_required": 1})).await.expect(400).json();
    assert_eq!(refused["message"]["approvals_required"], json!([fewer]));
    for change in [
        json!({"name": "Renamed"}),
        json!({"name": "Source", "approvals_required": 3}),
        json!({"approvals_required": 2, "user_ids": [bob.id]}),
        json!({"user_ids": [ann.id], "group_ids": []}),
    ] {
        let changed = fixture.root.put(&one, change.clone()).await.expect(200).json();
        assert_eq!(changed["overridden"], true, "{change}");
    }
    let same = json!({"group_ids": [team]});
    assert_eq!(fixture.root.put(&one, same).await.expect(200).json()["overridden"], false);
    // Lists of the request replace the copied ones.
    let body = json!({
        "approval_project_rule_id": source["id"], "approvals_required": 2, "name": "Second", "user_ids": [bob.id],
    });
    let second = fixture.own_rule(body).await;
    assert_eq!((&second["users"][0]["id"], &second["overridden"]), (&json!(bob.id), &json!(true)));
    assert_eq!(second["groups"], source["groups"]);
    for (body, attribute) in [
        (json!({"approval_project_rule_id": source["id"], "approvals_required": 1, "name": "x"}), "approvals_required"),
        (
            json!({"approval_project_rule_id": copy["id"], "approvals_required": 2, "name": "x"}),
            "approval_project_rule_id",
        ),
        (json!({"approval_project_rule_id": 9_999, "approvals_required": 2}), "approval_project_rule_id"),
    ] {
        let refused = fixture.root.post(&all, body.clone()).await.expect(400).json();
        assert!(refused["message"][attribute].is_array(), "{body}: {refused}");
    }
    // The copy remains without its source.
    fixture.root.delete(&fixture.url(&format!("/approval_rules/{}", source["id"]))).await.expect(204);
    let left = fixture.root.get(&one).await.expect(200).json();
    assert_eq!((&left["source_rule"], &left["overridden"]), (&Value::Null, &json!(false)));
    fixture.root.put(&one, json!({"approvals_required": 0})).await.expect(200);
}

async fn refused_rules_name_their_attribute(server: TestServer) {
    let fixture = Fixture::new(&server, "refused").await;
    let (ann, _) = fixture.two_developers().await;
    let all = fixture.url(RULES);
    let any = fixture.own_rule(json!({"name": "Any", "approvals_required": 1})).await;
    fixture.own_rule(json!({"name": "Ann", "approvals_required": 1, "user_ids": [ann.id]})).await;
    let many: Vec<i64> = (1..=101).collect();
    for (body, text) in [
        (json!({"approvals_required": 1}), "name is missing"),
        (json!({"name": "x"}), "approvals_required is missing"),
        (json!({"name": " ", "approvals_required": 1, "user_ids": [ann.id]}), "name is empty"),
        (json!({"name": "x", "approvals_required": -1}), "approvals_required"),
        (json!({"name": "x", "approvals_required": 101}), "approvals_required"),
        (json!({"name": "x".repeat(256), "approvals_required": 1}), "name"),
        (json!({"name": "a\u{0}b", "approvals_required": 1, "user_ids": [ann.id]}), "name"),
        (json!({"name": "Ann", "approvals_required": 1, "user_ids": [ann.id]}), "has already been taken"),
        (json!({"name": "x", "approvals_required": 1}), "rule_type"),
        (json!({"name": "x", "approvals_required": 1, "user_ids": many}), "user_ids"),
    ] {
        let refused = fixture.root.post(&all, body.clone()).await.expect(400).text();
        assert!(refused.contains(text), "{body}: {refused}");
    }
    let one = format!("{all}/{}", any["id"]);
    fixture.root.put(&one, json!({"name": "Ann"})).await.expect(400);
    let unchanged = fixture.root.put(&one, json!({"user_ids": [ann.id]})).await.expect(200).json();
    assert_eq!(unchanged["users"], json!([]), "a rule for all users has no users");
    for number in 2..50 {
        fixture.own_rule(json!({"name": format!("r{number}"), "approvals_required": 0, "user_ids": [ann.id]})).await;
    }
    let body = json!({"name": "One more", "approvals_required": 0, "user_ids": [ann.id]});
    let refused = fixture.root.post(&all, body).await.expect(400);
    assert_eq!(refused.message(), "The maximum number of approval rules (50) is reached");
}

async fn author_and_developers_change_rules_until_the_merge(server: TestServer) {
    let fixture = Fixture::new(&server, "roles").await;
    let reporter = fixture.member("rob", AccessLevel::Reporter).await;
    let (all, number) = (fixture.url(RULES), fixture.url("/merge_requests/1/approvals"));
    let new = |name: &str| json!({"name": name, "approvals_required": 0, "usernames": ["ann"]});
    let own = fixture.own_rule(new("Known")).await;
    let one = format!("{all}/{}", own["id"]);
    for (client, status) in [
        (server.anonymous(), 401),
        (server.create_user("eve").await.client, 403),
        (fixture.member("gus", AccessLevel::Guest).await.client, 403),
        (server.with_token(&server.create_token(reporter.id, &["api"]).await), 403),
    ] {
        client.get(&all).await.expect(200);
        client.get(&one).await.expect(200);
        client.get(&fixture.url("/merge_requests/1/approval_state")).await.expect(200);
        client.post(&all, new("Refused")).await.expect(status);
        client.put(&one, json!({"name": "Refused"})).await.expect(status);
        client.delete(&one).await.expect(status);
        client.post(&number, json!({"approvals_required": 1})).await.expect(status);
    }
    let developer = fixture.member("dev", AccessLevel::Developer).await;
    let made = developer.client.post(&all, new("Developer")).await.expect(201);
    let path = made.header("Location").to_owned();
    assert!(path.ends_with(&format!("/approval_rules/{}", made.json()["id"])), "{path}");
    // The author of a merge request needs no role above Reporter.
    fixture.project.git(&["branch", "own", "feature/x"]);
    let iid = fixture.propose(&developer.client, "own").await;
    let member = fixture.url(&format!("/members/{}", developer.id));
    fixture.root.put(&member, json!({"access_level": 20})).await.expect(200);
    developer.client.post(&all, new("Late")).await.expect(403);
    let mine = fixture.url(&format!("/merge_requests/{iid}/approval_rules"));
    let made = developer.client.post(&mine, new("Author")).await.expect(201).json();
    let one_of_mine = format!("{mine}/{}", made["id"]);
    developer.client.put(&one_of_mine, json!({"name": "Writer"})).await.expect(200);
    developer.client.delete(&one_of_mine).await.expect(204);
    // A merged merge request.
    fixture.merge().await.expect(200);
    for response in [
        fixture.root.post(&all, new("After")).await,
        fixture.root.put(&one, json!({"name": "After"})).await,
        fixture.root.delete(&one).await,
        fixture.root.post(&number, json!({"approvals_required": 1})).await,
    ] {
        assert_eq!(response.expect(403).message(), "403 Forbidden - The merge request is merged");
    }
    // A private project, and unknown merge requests.
    fixture.root.put(&fixture.url(""), json!({"visibility": "private"})).await.expect(200);
    server.create_user("ivy").await.client.get(&all).await.expect(404);
    reporter.client.get(&all).await.expect(200);
    for path in ["approval_rules", "approval_rules/1", "approval_state"] {
        fixture.root.get(&fixture.url(&format!("/merge_requests/99/{path}"))).await.expect(404);
    }
    fixture.root.post(&fixture.url("/merge_requests/99/approval_rules"), new("x")).await.expect(404);
    fixture.root.post(&fixture.url("/merge_requests/99/approvals"), json!({"approvals_required": 1})).await.expect(404);
}

async fn number_of_approvals_is_an_own_rule_for_all_users(server: TestServer) {
    let fixture = Fixture::new(&server, "numbers").await;
    let (ann, bob) = fixture.two_developers().await;
    fixture.rule(json!({"name": "Bob", "approvals_required": 1, "user_ids": [bob.id]})).await;
    let url = fixture.url("/merge_requests/1/approvals");
    let set = fixture.root.post(&url, json!({"approvals_required": 1})).await.expect(201).json();
    assert_eq!((&set["approvals_required"], &set["approvals_left"]), (&json!(1), &json!(1)));
    let own = fixture.root.get(&fixture.url(RULES)).await.expect(200).json();
    assert_eq!((&own[0]["name"], &own[0]["rule_type"]), (&json!("All Members"), &json!("any_approver")));
    fixture.root.post(&url, json!({"approvals_required": 2})).await.expect(201);
    let changed = fixture.root.get(&fixture.url(RULES)).await.expect(200);
    assert_eq!(
        (changed.pluck("id"), changed.pluck("approvals_required")),
        (vec![own[0]["id"].clone()], vec![json!(2)])
    );
    // The number of the project stays.
    let settings = fixture.root.get(&fixture.url("/approvals")).await.expect(200).json();
    assert_eq!(settings["approvals_before_merge"], 0);
    fixture.approve(&ann.client).await.expect(201);
    fixture.merge().await.expect(405);
    fixture.root.post(&url, json!({"approvals_required": 1})).await.expect(201);
    for body in [json!({}), json!({"approvals_required": -1}), json!({"approvals_required": 101})] {
        fixture.root.post(&url, body).await.expect(400);
    }
    fixture.merge().await.expect(200);
    // A copy requires at least the number of its source.
    fixture.set(json!({"approvals_before_merge": 2})).await;
    let rules = fixture.root.get(&fixture.url("/approval_rules")).await.expect(200).json();
    let any = rules.as_array().expect("a list").iter().find(|rule| rule["rule_type"] == "any_approver");
    fixture.push("more.txt").await;
    let iid = fixture.propose(&fixture.root, "feature/x").await;
    let body = json!({"approval_project_rule_id": any.expect("a rule")["id"], "approvals_required": 2});
    fixture.root.post(&fixture.url(&format!("/merge_requests/{iid}/approval_rules")), body).await.expect(201);
    let url = fixture.url(&format!("/merge_requests/{iid}/approvals"));
    fixture.root.post(&url, json!({"approvals_required": 1})).await.expect(400);
    let set = fixture.root.post(&url, json!({"approvals_required": 3})).await.expect(201).json();
    assert_eq!(set["approvals_required"], 3);
}

async fn hidden_groups_stay_and_hide_their_members(server: TestServer) {
    let fixture = Fixture::new(&server, "hidden").await;
    let (ann, bob) = fixture.two_developers().await;
    let team = spaces::group(&fixture.root, "secret", json!({"visibility": "private"})).await;
    spaces::join(&fixture.root, &format!("/groups/{team}"), bob.id, 20).await;
    let body = json!({"name": "Both", "approvals_required": 1, "user_ids": [ann.id], "group_ids": [team]});
    let source = fixture.rule(body.clone()).await;
    let names = |rule: &Value| -> Vec<Value> {
        let all = rule["eligible_approvers"].as_array().expect("a list").iter();
        all.map(|user| user["username"].clone()).collect()
    };
    assert_eq!(names(&source), ["root", "ann", "bob"]);
    let of_project = fixture.url(&format!("/approval_rules/{}", source["id"]));
    let of_merge_request = fixture.own_rule(body).await;
    let own = fixture.url(&format!("{RULES}/{}", of_merge_request["id"]));
    let stranger = server.create_user("eve").await.client;
    for path in [&of_project, &own] {
        let shown = stranger.get(path).await.expect(200).json();
        assert_eq!((&shown["groups"], &shown["contains_hidden_groups"]), (&json!([]), &json!(true)));
        assert_eq!(names(&shown), ["ann"]);
        let shown = ann.client.get(path).await.expect(200).json();
        assert_eq!((&shown["groups"], names(&shown).len()), (&json!([]), 3));
    }
    let changed = ann.client.put(&own, json!({"group_ids": []})).await.expect(200).json();
    assert_eq!(changed["contains_hidden_groups"], true);
    // A copy has the hidden groups of its source.
    let body = json!({"name": "Copy", "approvals_required": 1, "approval_project_rule_id": source["id"]});
    let copy = ann.client.post(&fixture.url(RULES), body).await.expect(201).json();
    assert_eq!((&copy["contains_hidden_groups"], &copy["overridden"]), (&json!(true), &json!(true)));
    let named = ann.client.put(&own, json!({"name": "Own"})).await.expect(200).json();
    let one = fixture.url(&format!("{RULES}/{}", copy["id"]));
    // The name was the only difference.
    let same = ann.client.put(&one, json!({"name": "Both"})).await.expect(200).json();
    assert_eq!((&named["name"], &same["overridden"]), (&json!("Own"), &json!(false)));
    let change = json!({"group_ids": [], "remove_hidden_groups": true});
    let changed = ann.client.put(&own, change).await.expect(200).json();
    assert_eq!((&changed["contains_hidden_groups"], names(&changed)), (&json!(false), vec![json!("ann")]));
}

async fn own_rules_disappear_with_their_merge_request(server: TestServer) {
    let fixture = Fixture::new(&server, "gone").await;
    let (ann, _) = fixture.two_developers().await;
    fixture.own_rule(json!({"name": "Ann", "approvals_required": 1, "user_ids": [ann.id]})).await;
    // A transfer of the project preserves the rules.
    let group = spaces::group(&fixture.root, "target", json!({})).await;
    fixture.root.put(&fixture.url("/transfer"), json!({"namespace": group})).await.expect(200);
    assert_eq!(fixture.root.get(&fixture.url(RULES)).await.expect(200).pluck("name"), ["Ann"]);
    fixture.root.delete(&fixture.url("/merge_requests/1")).await.expect(204);
    fixture.root.get(&fixture.url(RULES)).await.expect(404);
    assert_eq!(fixture.root.get(&fixture.url("/approval_rules")).await.expect(200).json(), json!([]));
    // The deletion of the project deletes rules of its merge requests and their sources.
    fixture.project.git(&["branch", "next", "feature/x"]);
    let iid = fixture.propose(&fixture.root, "next").await;
    let source = fixture.rule(json!({"name": "Source", "approvals_required": 1, "user_ids": [ann.id]})).await;
    let body = json!({"approval_project_rule_id": source["id"], "approvals_required": 1});
    fixture.root.post(&fixture.url(&format!("/merge_requests/{iid}/approval_rules")), body).await.expect(201);
    fixture.root.delete(&fixture.url("")).await.expect(202);
    server.finish_jobs().await;
    fixture.root.get(&fixture.url("")).await.expect(404);
}

async fn merge_never_ignores_a_rule_that_was_created_before(server: TestServer) {
    let fixture = Fixture::new(&server, "races").await;
    let (ann, _) = fixture.two_developers().await;
    let new = json!({"name": "Ann", "approvals_required": 1, "user_ids": [ann.id]});
    let url = fixture.url(RULES);
    let (merged, created) = tokio::join!(fixture.merge(), fixture.root.post(&url, new));
    match (merged.status, created.status) {
        // The rule was created before the decision.
        (405, 201) => {}
        // The merge was decided before; the rule was created before or after the merge was recorded.
        (200, 201 | 403) => {}
        statuses => panic!("{statuses:?}"),
    }
}

async fn concurrent_rules_have_different_names(server: TestServer) {
    let fixture = Fixture::new(&server, "names").await;
    let url = fixture.url("/merge_requests/1/approvals");
    let all = (0..6).map(|_| fixture.root.post(&url, json!({"approvals_required": 2})));
    for response in futures_util::future::join_all(all).await {
        response.expect(201);
    }
    assert_eq!(fixture.root.get(&fixture.url(RULES)).await.expect(200).pluck("name"), ["All Members"]);
}

on_every_database![
    own_rule_lifecycle,
    own_rules_replace_the_rules_of_the_project,
    disabled_overriding_ignores_and_refuses_own_rules,
    copies_follow_their_source_unless_overridden,
    refused_rules_name_their_attribute,
    author_and_developers_change_rules_until_the_merge,
    number_of_approvals_is_an_own_rule_for_all_users,
    hidden_groups_stay_and_hide_their_members,
    own_rules_disappear_with_their_merge_request,
    merge_never_ignores_a_rule_that_was_created_before,
    concurrent_rules_have_different_names,
];
