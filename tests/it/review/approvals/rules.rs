//! Approval rules of projects.

use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::Fixture;
use crate::support::{TestServer, on_every_database, spaces};

async fn rule_lifecycle(server: TestServer) {
    let fixture = Fixture::new(&server, "lifecycle").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let all = fixture.url("/approval_rules");
    assert_eq!(fixture.root.get(&all).await.expect(200).json(), json!([]));
    let created = fixture.rule(json!({"name": " Security ", "approvals_required": 1, "user_ids": [ann.id]})).await;
    let ann_shown = &created["users"][0];
    assert_eq!(ann_shown["username"], "ann");
    assert_eq!(
        created,
        json!({
            "id": created["id"], "name": "Security", "rule_type": "regular", "report_type": null,
            "eligible_approvers": [ann_shown], "approvals_required": 1, "users": [ann_shown], "groups": [],
            "contains_hidden_groups": false, "protected_branches": [], "applies_to_all_protected_branches": false,
        })
    );
    let one = fixture.url(&format!("/approval_rules/{}", created["id"]));
    assert_eq!(fixture.root.get(&one).await.expect(200).json(), created);
    assert_eq!(fixture.root.put(&one, json!({})).await.expect(200).json(), created);
    let second = fixture.rule(json!({"name": "Any", "approvals_required": 0})).await;
    assert_eq!(second["rule_type"], "any_approver");
    assert_eq!(fixture.root.get(&all).await.expect(200).json(), json!([created, second]));
    let page = fixture.root.get(&format!("{all}?per_page=1&page=2")).await.expect(200);
    assert_eq!((page.json(), page.header("X-Total")), (json!([second]), "2"));
    let change = json!({"name": "Safety", "approvals_required": 2});
    let changed = fixture.root.put(&one, change).await.expect(200).json();
    assert_eq!((&changed["name"], &changed["approvals_required"]), (&json!("Safety"), &json!(2)));
    assert_eq!(changed["users"], created["users"]);
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

async fn rule_type_follows_from_approvers(server: TestServer) {
    let fixture = Fixture::new(&server, "types").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let regular = fixture.rule(json!({"name": "Empty", "approvals_required": 1, "rule_type": "regular"})).await;
    assert_eq!((&regular["rule_type"], &regular["users"]), (&json!("regular"), &json!([])));
    let body = json!({"name": "Named", "approvals_required": 1, "usernames": ["ANN", "missing"]});
    let named = fixture.rule(body).await;
    assert_eq!((&named["rule_type"], &named["users"][0]["id"]), (&json!("regular"), &json!(ann.id)));
    let body = json!({"name": "Any", "approvals_required": 1, "rule_type": "any_approver", "user_ids": [ann.id]});
    let any = fixture.rule(body).await;
    assert_eq!((&any["rule_type"], &any["users"]), (&json!("any_approver"), &json!([])));
    let all = fixture.url("/approval_rules");
    let second = fixture.root.post(&all, json!({"name": "More", "approvals_required": 1})).await.expect(400);
    assert_eq!(second.json()["message"], json!({"rule_type": ["has already been taken"]}));
}

async fn refused_rules_name_their_attribute(server: TestServer) {
    let fixture = Fixture::new(&server, "refused").await;
    let all = fixture.url("/approval_rules");
    let other = spaces::project(&fixture.root, "elsewhere", json!({})).await;
    let foreign = json!({"name": "x"});
    let foreign = fixture.root.post(&format!("/projects/{other}/protected_branches"), foreign).await.expect(201).json();
    fixture.rule(json!({"name": "Taken", "approvals_required": 1, "rule_type": "regular"})).await;
    for (body, text) in [
        (json!({"approvals_required": 1}), "name is missing"),
        (json!({"name": "x"}), "approvals_required is missing"),
        (json!({"name": "x", "approvals_required": -1}), "approvals_required"),
        (json!({"name": "x", "approvals_required": 101}), "approvals_required"),
        (json!({"name": "  ", "approvals_required": 1}), "name"),
        (json!({"name": "x".repeat(256), "approvals_required": 1}), "name"),
        (json!({"name": "x", "approvals_required": 1, "rule_type": "code_owner"}), "rule_type"),
        (json!({"name": "Taken", "approvals_required": 1, "rule_type": "regular"}), "has already been taken"),
        (
            json!({"name": "x", "approvals_required": 1, "protected_branch_ids": [foreign["id"]]}),
            "protected_branch_ids",
        ),
    ] {
        let refused = fixture.root.post(&all, body.clone()).await.expect(400).text();
        assert!(refused.contains(text), "{body}: {refused}");
    }
    // The same name for other branches.
    let body = json!({
        "name": "Taken", "approvals_required": 1, "rule_type": "regular", "applies_to_all_protected_branches": true,
    });
    let same = fixture.rule(body).await;
    let one = format!("{all}/{}", same["id"]);
    fixture.root.put(&one, json!({"applies_to_all_protected_branches": false})).await.expect(400);
    fixture.root.put(&one, json!({"name": "Free", "applies_to_all_protected_branches": false})).await.expect(200);
}

async fn lists_replace_the_former_lists(server: TestServer) {
    let fixture = Fixture::new(&server, "replace").await;
    let (ann, bob) =
        (fixture.member("ann", AccessLevel::Developer).await, fixture.member("bob", AccessLevel::Developer).await);
    let branch = fixture.root.post(&fixture.url("/protected_branches"), json!({"name": "x"})).await.expect(201).json();
    let rule = fixture
        .rule(json!({
            "name": "R", "approvals_required": 1, "user_ids": [ann.id, 999_999], "protected_branch_ids": [branch["id"]],
        }))
        .await;
    let one = fixture.url(&format!("/approval_rules/{}", rule["id"]));
    let ids = |rule: &Value, list: &str| -> Vec<Value> {
        rule[list].as_array().expect("a list").iter().map(|item| item["id"].clone()).collect()
    };
    assert_eq!(ids(&rule, "users"), [ann.id]);
    let body = json!({"user_ids": format!("{},{}", ann.id, bob.id)});
    assert_eq!(ids(&fixture.root.put(&one, body).await.expect(200).json(), "users"), [ann.id, bob.id]);
    let changed = fixture.root.put(&one, json!({"user_ids": [bob.id]})).await.expect(200).json();
    assert_eq!(
        (ids(&changed, "users"), ids(&changed, "protected_branches")),
        (vec![json!(bob.id)], vec![branch["id"].clone()])
    );
    let changed = fixture.root.put(&one, json!({"user_ids": [], "protected_branch_ids": []})).await.expect(200).json();
    assert_eq!((ids(&changed, "users"), ids(&changed, "protected_branches")), (vec![], vec![]));
}

async fn hidden_groups_are_not_shown_and_stay(server: TestServer) {
    let fixture = Fixture::new(&server, "secrets").await;
    let mia = fixture.member("mia", AccessLevel::Maintainer).await;
    let hidden = spaces::group(&fixture.root, "hidden", json!({"visibility": "private"})).await;
    let open = spaces::group(&fixture.root, "open", json!({"visibility": "public"})).await;
    let rule = fixture.rule(json!({"name": "R", "approvals_required": 1, "group_ids": [hidden, open]})).await;
    assert_eq!((rule["groups"].as_array().expect("a list").len(), &rule["contains_hidden_groups"]), (2, &json!(false)));
    assert_eq!(
        (&rule["groups"][0]["full_path"], &rule["groups"][0]["full_name"]),
        (&json!("hidden"), &json!("hidden"))
    );
    let one = fixture.url(&format!("/approval_rules/{}", rule["id"]));
    let shown = mia.client.get(&one).await.expect(200).json();
    assert_eq!((&shown["groups"][0]["id"], &shown["contains_hidden_groups"]), (&json!(open), &json!(true)));
    // A Maintainer cannot add a group without seeing it.
    let body = json!({"name": "Own", "approvals_required": 1, "rule_type": "regular", "group_ids": [hidden]});
    let own = mia.client.post(&fixture.url("/approval_rules"), body).await.expect(201).json();
    assert_eq!(own["contains_hidden_groups"], false);
    mia.client.put(&one, json!({"group_ids": []})).await.expect(200);
    let left = fixture.root.get(&one).await.expect(200).json();
    assert_eq!((&left["groups"][0]["id"], left["groups"].as_array().expect("a list").len()), (&json!(hidden), 1));
    let change = json!({"group_ids": [], "remove_hidden_groups": true});
    let changed = mia.client.put(&one, change).await.expect(200).json();
    assert_eq!(changed["contains_hidden_groups"], false);
}

async fn members_through_hidden_groups_stay(server: TestServer) {
    let fixture = Fixture::new(&server, "guests").await;
    fixture.root.put(&fixture.url(""), json!({"visibility": "private"})).await.expect(200);
    let mia = fixture.member("mia", AccessLevel::Maintainer).await;
    let insider = server.create_user("insider").await;
    let hidden = spaces::group(&fixture.root, "hidden", json!({"visibility": "private"})).await;
    spaces::join(&fixture.root, &format!("/groups/{hidden}"), insider.id, 30).await;
    let share = json!({"group_id": hidden, "group_access": 30});
    fixture.root.post(&fixture.url("/share"), share).await.expect(201);
    let rule = fixture.rule(json!({"name": "Sec", "approvals_required": 1, "user_ids": [insider.id]})).await;
    let one = fixture.url(&format!("/approval_rules/{}", rule["id"]));
    let same = json!({"name": "Sec", "approvals_required": 1, "user_ids": [insider.id]});
    let changed = mia.client.put(&one, same).await.expect(200).json();
    assert_eq!(changed["users"][0]["username"], "insider");
    assert_eq!(fixture.approvals().await["approved"], false);
}

async fn users_who_can_see_merge_requests_read_rules(server: TestServer) {
    let fixture = Fixture::new(&server, "readers").await;
    let guest = fixture.member("gus", AccessLevel::Guest).await;
    let reporter = fixture.member("rob", AccessLevel::Reporter).await;
    let rule = fixture.rule(json!({"name": "R", "approvals_required": 1, "rule_type": "regular"})).await;
    let (all, one) = (fixture.url("/approval_rules"), fixture.url(&format!("/approval_rules/{}", rule["id"])));
    let stranger = server.create_user("eve").await.client;
    let check = async |guest_status: u16, stranger_status: u16| {
        for url in [&all, &one] {
            guest.client.get(url).await.expect(guest_status);
            stranger.get(url).await.expect(stranger_status);
            reporter.client.get(url).await.expect(200);
            server.anonymous().get(url).await.expect(401);
        }
    };
    check(200, 200).await;
    fixture.root.put(&fixture.url(""), json!({"merge_requests_access_level": "private"})).await.expect(200);
    // Private merge requests are visible to members.
    check(200, 403).await;
    fixture.root.put(&fixture.url(""), json!({"merge_requests_access_level": "enabled"})).await.expect(200);
    fixture.root.put(&fixture.url(""), json!({"visibility": "private"})).await.expect(200);
    check(403, 404).await;
}

async fn rules_have_a_maximum_number(server: TestServer) {
    let fixture = Fixture::new(&server, "many").await;
    for number in 0..50 {
        let body = json!({"name": format!("R{number}"), "approvals_required": 0, "rule_type": "regular"});
        fixture.rule(body).await;
    }
    let body = json!({"name": "One more", "approvals_required": 0, "rule_type": "regular"});
    let refused = fixture.root.post(&fixture.url("/approval_rules"), body).await.expect(400);
    assert_eq!(refused.message(), "The maximum number of approval rules (50) is reached");
    let many: Vec<i64> = (1..=101).collect();
    let body = json!({"name": "Users", "approvals_required": 0, "user_ids": many});
    fixture.root.post(&fixture.url("/approval_rules"), body).await.expect(400);
}

async fn deleted_users_groups_and_protections_leave_their_rules(server: TestServer) {
    let fixture = Fixture::new(&server, "leave").await;
    let ann = fixture.member("ann", AccessLevel::Developer).await;
    let team = spaces::group(&fixture.root, "team", json!({})).await;
    let branch = fixture.root.post(&fixture.url("/protected_branches"), json!({"name": "x"})).await.expect(201).json();
    let body = json!({
        "name": "R", "approvals_required": 1, "user_ids": [ann.id], "group_ids": [team],
        "protected_branch_ids": [branch["id"]],
    });
    let rule = fixture.rule(body).await;
    fixture.approve(&ann.client).await.expect(201);
    fixture.root.delete(&fixture.url("/protected_branches/x")).await.expect(204);
    // Without its protections, the rule applies to all target branches.
    let state = fixture.root.get(&fixture.url("/merge_requests/1/approval_state")).await.expect(200).json();
    assert_eq!(state["rules"][0]["id"], rule["id"]);
    fixture.root.delete(&format!("/groups/{team}")).await.expect(202);
    fixture.root.delete(&format!("/users/{}?hard_delete=true", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let one = fixture.url(&format!("/approval_rules/{}", rule["id"]));
    let left = fixture.root.get(&one).await.expect(200).json();
    assert_eq!((&left["users"], &left["protected_branches"]), (&json!([]), &json!([])));
    assert_eq!(fixture.approvals().await["approved_by"], json!([]));
}

on_every_database![
    rule_lifecycle,
    rule_type_follows_from_approvers,
    refused_rules_name_their_attribute,
    lists_replace_the_former_lists,
    hidden_groups_are_not_shown_and_stay,
    members_through_hidden_groups_stay,
    users_who_can_see_merge_requests_read_rules,
    rules_have_a_maximum_number,
    deleted_users_groups_and_protections_leave_their_rules,
];
