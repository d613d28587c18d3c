//! Lists of issues: each filter alone, some together, their negations, and every order.

use std::sync::Arc;

use domain::identity::access::ProjectAccess;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::kernel::page::PageRequest;
use domain::planning::issuables::ListScope;
use domain::planning::issues::{self as issues_service, IssueFilter, IssueUpdate};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::json;
use storage::entities::{AccessLevel, award_emoji, issues, now};

use super::{open, public_project, titles};
use crate::support::body_memory::request_memory;
use crate::support::client::segment;
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Issues that differ in every attribute with a filter, created in the order `one` to `four`.
struct Sample {
    project: i64,
    ann: i64,
    ben: i64,
}

async fn sample(server: &TestServer) -> Sample {
    let root = server.root();
    let id = public_project(server, "sample").await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    server.insert_member(id, ann.id, AccessLevel::Reporter).await;
    let milestones = format!("/projects/{id}/milestones");
    let soon = json!({"title": "soon", "due_date": "2030-01-01"});
    let soon = root.post(&milestones, soon).await.expect(201).json()["id"].clone();
    let late = json!({"title": "late", "due_date": "2031-01-01"});
    let late = root.post(&milestones, late).await.expect(201).json()["id"].clone();
    for (name, priority) in [("bug", json!(2)), ("ui", json!(1))] {
        let label = json!({"name": name, "color": "#123456", "priority": priority});
        root.post(&format!("/projects/{id}/labels"), label).await.expect(201);
    }
    for (client, body) in [
        (
            &root,
            json!({
                "title": "one", "description": "The quick brown fox", "labels": "bug", "milestone_id": late,
                "assignee_ids": [ann.id], "weight": 1, "due_date": "2030-05-01", "created_at": "2020-01-01T00:00:00Z",
            }),
        ),
        (
            &root,
            json!({
                "title": "two", "description": "jumps over", "labels": "bug,ui", "milestone_id": soon,
                "assignee_ids": [ann.id, ben.id], "weight": 3, "created_at": "2020-01-02T00:00:00Z",
            }),
        ),
        (&root, json!({"title": "three quick", "created_at": "2020-01-03T00:00:00Z", "due_date": "2030-04-01"})),
        (&ann.client, json!({"title": "four", "confidential": true, "labels": "ui", "weight": 2})),
    ] {
        open(client, id, body).await;
    }
    root.put(&format!("/projects/{id}/issues/3"), json!({"state_event": "close"})).await.expect(200);
    Sample { project: id, ann: ann.id, ben: ben.id }
}

/// Returns the titles that a query matches, in the order of creation.
async fn found(client: &Client, project: i64, query: &str) -> Vec<String> {
    titles(client, &format!("/projects/{project}/issues?sort=asc&{query}")).await
}

async fn award(server: &TestServer, project: i64, iid: i64, name: &str) {
    let db = server.backend.database.write();
    let issue = sea_orm::QuerySelect::limit(issues::by_iid(project, iid), 1)
        .one(db)
        .await
        .expect("a lookup")
        .expect("an issue");
    let row = award_emoji::ActiveModel {
        issue_id: Set(Some(issue.id)),
        user_id: Set(1),
        name: Set(name.to_owned()),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    row.insert(db).await.expect("an award");
}

async fn list_issues_applies_each_filter(server: TestServer) {
    let Sample { project: id, ann, ben } = sample(&server).await;
    let root = server.root();
    award(&server, id, 2, "tada").await;
    let (one, two, three, four) = ("one", "two", "three quick", "four");
    for (query, expected) in [
        ("state=opened", &[one, two, four][..]),
        ("state=closed", &[three]),
        ("state=all", &[one, two, three, four]),
        ("labels=bug", &[one, two]),
        ("labels=bug,ui", &[two]),
        ("labels[]=bug&labels[]=ui", &[two]),
        ("labels=None", &[three]),
        ("labels=No+Label", &[three]),
        ("labels=aNY", &[one, two, four]),
        ("labels=bug,none", &[three]),
        ("labels=Bug", &[]),
        ("labels=unknown", &[]),
        ("labels=", &[one, two, three, four]),
        ("milestone=soon", &[two]),
        ("milestone=none", &[three, four]),
        ("milestone=Any", &[one, two]),
        ("milestone=%23upcoming", &[one, two]),
        ("milestone=%23started", &[]),
        ("milestone=unknown", &[]),
        ("scope=created_by_me", &[one, two, three]),
        ("scope=created-by-me", &[one, two, three]),
        ("scope=assigned_to_me", &[]),
        ("scope=assigned-to-me", &[]),
        ("author_id=1", &[one, two, three]),
        ("author_username=ANN", &[four]),
        ("author_id=999999", &[]),
        ("author_username=missing-user", &[]),
        ("assignee_id=None", &[three, four]),
        ("assignee_id=0", &[three, four]),
        ("assignee_id=any", &[one, two]),
        ("assignee_username=ann", &[one, two]),
        ("assignee_username[]=ann&assignee_username[]=ben", &[two]),
        ("assignee_username=missing-user", &[]),
        ("my_reaction_emoji=tada", &[two]),
        ("my_reaction_emoji=None", &[one, three, four]),
        ("my_reaction_emoji=any", &[two]),
        ("my_reaction_emoji=Tada", &[]),
        ("weight=3", &[two]),
        ("weight=None", &[three]),
        ("weight=Any", &[one, two, four]),
        ("iids[]=1&iids[]=4", &[one, four]),
        ("iids=1,99", &[one]),
        ("search=quick", &[one, three]),
        ("search=QUICK+fox", &[one]),
        ("search=%22quick+brown%22", &[one]),
        ("search=%22brown+quick%22", &[]),
        ("search=quick+over", &[]),
        ("search=quick&in=title", &[three]),
        ("search=quick&in=description", &[one]),
        ("search=quick&in=title,description", &[one, three]),
        ("search=qu%25ck", &[]),
        ("search=a+four", &[four]),
        ("search=fo", &[]),
        ("assignee_id=&weight=&milestone=&my_reaction_emoji=+&author_username=", &[one, two, three, four]),
        ("assignee_username[]=", &[one, two, three, four]),
        ("created_after=2020-01-02T00:00:00Z", &[two, three, four]),
        ("created_before=2020-01-02T00:00:00Z", &[one, two]),
        ("updated_before=2000-01-01T00:00:00Z", &[]),
        ("updated_after=2000-01-01T00:00:00Z", &[one, two, three, four]),
        ("confidential=true", &[four]),
        ("confidential=false", &[one, two, three]),
        ("labels=bug&state=opened&assignee_username=ben&search=jumps", &[two]),
        ("labels=ui&confidential=true&weight=2&author_username=ann", &[four]),
    ] {
        assert_eq!(found(&root, id, query).await, expected, "{query}");
    }
    assert_eq!(found(&root, id, &format!("assignee_id={ben}")).await, [two]);
    assert_eq!(found(&root, id, &format!("assignee_id={ann}&labels=ui")).await, [two]);
}

async fn search_matches_short_titles_whole_and_case_insensitively(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "short").await;
    for title in ["ÖL", "öl", "Go", "Öl leckt"] {
        open(&root, id, json!({"title": title})).await;
    }
    for (query, expected) in [("Öl", &["ÖL", "öl"][..]), ("öL", &["ÖL", "öl"]), ("GO", &["Go"]), ("O", &[])] {
        let path = format!("/projects/{id}/issues?sort=asc");
        let query = segment(query);
        assert_eq!(titles(&root, &format!("{path}&search={query}")).await, expected, "{query}");
        let left = titles(&root, &format!("{path}&not[search]={query}")).await;
        assert_eq!(left.len(), 4 - expected.len(), "not {query}");
    }
}

async fn list_issues_applies_each_negated_filter(server: TestServer) {
    let Sample { project: id, ann, .. } = sample(&server).await;
    let root = server.root();
    award(&server, id, 2, "tada").await;
    let (one, two, three, four) = ("one", "two", "three quick", "four");
    for (query, expected) in [
        ("not[labels]=bug", &[three, four][..]),
        ("not[labels]=bug,ui", &[three]),
        ("not[labels]=None", &[one, two, four]),
        ("not[labels]=unknown", &[one, two, three, four]),
        ("not[milestone]=soon", &[one, three, four]),
        ("not[milestone]=None", &[one, two]),
        ("not[milestone]=unknown", &[one, two, three, four]),
        ("not[author_id]=1", &[four]),
        ("not[author_username]=ann", &[one, two, three]),
        ("not[author_username]=missing-user", &[one, two, three, four]),
        ("not[assignee_username][]=ben", &[one, three, four]),
        ("not[assignee_username]=ann", &[three, four]),
        ("not[my_reaction_emoji]=tada", &[one, three, four]),
        ("not[my_reaction_emoji]=Any", &[one, three, four]),
        ("not[search]=quick", &[two, four]),
        ("not[search]=quick&not[in]=title", &[one, two, four]),
        ("not[search]=quick&in=title", &[one, two, four]),
        ("not[search]=fo", &[one, two, three, four]),
        ("not[iids][]=1&not[iids][]=2", &[three, four]),
        ("labels=bug&not[labels]=ui", &[one]),
        ("not[labels]=&not[author_username]=", &[one, two, three, four]),
    ] {
        assert_eq!(found(&root, id, query).await, expected, "{query}");
    }
    assert_eq!(found(&root, id, &format!("not[assignee_id]={ann}")).await, [three, four]);
}

async fn list_issues_sorts_by_each_order_in_both_directions(server: TestServer) {
    let Sample { project: id, .. } = sample(&server).await;
    let root = server.root();
    let (one, two, three, four) = ("one", "two", "three quick", "four");
    root.put(&format!("/projects/{id}/issues/1"), json!({"description": "changed last"})).await.expect(200);
    for (order, up, down) in [
        ("created_at", [one, two, three, four], [four, three, two, one]),
        ("updated_at", [two, four, three, one], [one, three, four, two]),
        // Issues without a value come last in both directions; ties are sorted from newest to oldest.
        ("due_date", [three, one, four, two], [one, three, four, two]),
        ("weight", [one, four, two, three], [two, four, one, three]),
        ("milestone_due", [two, one, four, three], [one, two, four, three]),
        ("label_priority", [four, two, one, three], [one, four, two, three]),
        ("priority", [two, one, four, three], [one, two, four, three]),
        ("popularity", [four, three, two, one], [four, three, two, one]),
        ("relative_position", [four, three, two, one], [four, three, two, one]),
    ] {
        for (direction, expected) in [("asc", up), ("desc", down)] {
            let path = format!("/projects/{id}/issues?order_by={order}&sort={direction}");
            assert_eq!(titles(&root, &path).await, expected, "{order} {direction}");
        }
    }
}

async fn list_issues_rejects_exclusive_and_invalid_parameters(server: TestServer) {
    let root = server.root();
    for (query, message) in [
        ("author_id=1&author_username=root", "author_id, author_username are mutually exclusive"),
        ("assignee_id=1&assignee_username=root", "assignee_id, assignee_username are mutually exclusive"),
        ("not[author_id]=1&not[author_username]=root", "not[author_id], not[author_username] are mutually exclusive"),
        ("assignee_id=me", "assignee_id should be an integer, 'None' or 'Any'"),
        ("weight=heavy", "weight should be an integer, 'None' or 'Any'"),
        ("state=open", "state does not have a valid value"),
        ("scope=mine", "scope does not have a valid value"),
        ("order_by=name", "order_by does not have a valid value"),
        ("sort=up", "sort does not have a valid value"),
        ("created_after=soon", "created_after is invalid"),
        ("author_id=root", "author_id is invalid"),
        ("iids[]=one", "iids is invalid"),
    ] {
        let rejected = root.get(&format!("/issues?{query}")).await.expect(400).json();
        assert_eq!(rejected["message"], message, "{query}");
    }
}

async fn list_issues_covers_projects_subgroups_and_instance(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let low = group(&root, "low", json!({"visibility": "public", "parent_id": top})).await;
    let upper = project(&root, "upper", json!({"visibility": "public", "namespace_id": top})).await;
    let lower = project(&root, "lower", json!({"visibility": "public", "namespace_id": low})).await;
    let other = public_project(&server, "other").await;
    for (id, title) in [(upper, "u"), (lower, "l"), (other, "o")] {
        open(&root, id, json!({"title": title, "labels": "bug"})).await;
    }
    open(&ann.client, other, json!({"title": "ann's"})).await;
    assert_eq!(titles(&root, &format!("/groups/{top}/issues?sort=asc")).await, ["u", "l"]);
    assert_eq!(titles(&root, &format!("/groups/{low}/issues")).await, ["l"]);
    assert_eq!(
        titles(&root, "/issues?sort=asc").await,
        ["u", "l", "o"],
        "the default scope is the issues of the caller"
    );
    assert_eq!(titles(&ann.client, "/issues").await, ["ann's"]);
    assert_eq!(titles(&ann.client, "/issues?scope=all&sort=asc").await, ["u", "l", "o", "ann's"]);
    assert_eq!(titles(&ann.client, "/issues?scope=all&labels=bug&sort=asc&per_page=2&page=2").await, ["o"]);
    let far = root.get(&format!("/groups/{top}/issues?sort=asc")).await.expect(200);
    assert_eq!(far.header("X-Total"), "2");
    let far = &far.json()[1];
    assert_eq!(far["references"], json!({"short": "#1", "relative": "top/low/lower#1", "full": "top/low/lower#1"}));
    assert!(far.get("subscribed").is_none());
    let near = &root.get(&format!("/projects/{lower}/issues?with_labels_details=true")).await.expect(200).json()[0];
    assert_eq!(near["references"]["relative"], "#1");
    let label = &near["labels"][0];
    assert_eq!(
        (&label["name"], &label["color"], &label["text_color"]),
        (&json!("bug"), &json!("#428BCA"), &json!("#FFFFFF"))
    );
    assert!(label["id"].is_number() && label["description"].is_null());
    let hidden = group(&root, "hidden", json!({})).await;
    ann.client.get(&format!("/groups/{hidden}/issues")).await.expect(404);
    server.anonymous().get(&format!("/groups/{top}/issues")).await.expect(401);
    let narrow = server.create_token(ann.id, &["read_user"]).await;
    for path in ["/issues".to_owned(), format!("/groups/{top}/issues"), format!("/projects/{other}/issues")] {
        server.with_token(&narrow).get(&path).await.expect(403);
    }
}

async fn list_issues_ignores_blank_filters_and_accepts_label_none(server: TestServer) {
    let root = server.root();
    let id = sample(&server).await.project;
    let all = ["one", "two", "three quick", "four"];
    for blank in [
        "not[assignee_id]=",
        "not[iids][]=",
        "not[iids]=",
        "not[labels]=",
        "not[milestone]=",
        "not[author_id]=",
        "iids[]=",
        "iids=",
        "iids[]=&iids[]=",
        "not[assignee_username][]=",
        "not[assignee_username]=",
        "not[my_reaction_emoji]=",
        "not[search]=",
        "not[in]=",
    ] {
        assert_eq!(found(&root, id, blank).await, all, "{blank}");
    }
    assert_eq!(found(&root, id, "not[iids][]=&not[iids][]=1").await, all[1..]);
    for none in ["No+Label", "No%2BLabel", "no%2blabel", "No%20Label", "None"] {
        assert_eq!(found(&root, id, &format!("labels={none}")).await, ["three quick"], "{none}");
        assert_eq!(found(&root, id, &format!("not[labels]={none}")).await, ["one", "two", "four"], "{none}");
    }
}

async fn created_before_includes_the_displayed_time(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "bounded").await;
    let iid = open(&root, id, json!({"title": "t", "created_at": "2020-01-01T00:00:00.123456Z"})).await;
    let issue = root.get(&format!("/projects/{id}/issues/{iid}")).await.expect(200).json();
    assert_eq!(issue["created_at"], "2020-01-01T00:00:00.123Z");
    for (query, count) in [
        ("created_before=2020-01-01T00:00:00.123Z", 1),
        ("created_before=2020-01-01T00:00:00.122Z", 0),
        ("created_before=2020-01-01T00:00:00.123455Z", 0),
        ("created_before=2020-01-01T00:00:00.123456Z", 1),
        ("created_after=2020-01-01T00:00:00.123Z&created_before=2020-01-01T00:00:00.123Z", 1),
        ("updated_before=2020-01-01T00:00:00.123Z", 1),
    ] {
        assert_eq!(found(&root, id, query).await.len(), count, "{query}");
    }
}

async fn list_issues_filters_by_many_labels_without_more_statements(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "labelled").await;
    let names = |count: usize| (0..count).map(|number| format!("l{number}")).collect::<Vec<_>>().join(",");
    for count in [3, 7, 30] {
        open(&root, id, json!({"title": format!("with {count}"), "labels": names(count)})).await;
    }
    open(&root, id, json!({"title": "without"})).await;
    for (count, expected) in [(3, 3), (5, 2), (6, 2), (7, 2), (8, 1), (30, 1), (31, 0), (100, 0)] {
        let query = format!("labels={}", names(count));
        assert_eq!(found(&root, id, &query).await.len(), expected, "{count}");
        if count < 100 {
            assert_eq!(found(&root, id, &format!("{query},l0")).await.len(), expected, "{count} and one twice");
        }
        assert_eq!(found(&root, id, &format!("not[{}", query.replacen('=', "]=", 1))).await, ["without"], "{count}");
    }
    let mut taken = Vec::new();
    for count in [3, 100] {
        let before = server.statements();
        root.get(&format!("/projects/{id}/issues?labels={}&per_page=7", names(count))).await.expect(200);
        taken.push(server.statements() - before);
    }
    assert!(taken[1] <= taken[0], "{taken:?}");
}

async fn milestone_of_many_issues_is_read_once(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "work").await;
    let path = format!("/projects/{id}");
    let large = json!({"title": "large", "description": "x".repeat(100_000)});
    let large = root.post(&format!("{path}/milestones"), large).await.expect(201).json()["id"].clone();
    let empty = root.post(&format!("{path}/milestones"), json!({"title": "empty"})).await.expect(201).json();
    for number in 0..3 {
        open(&root, id, json!({"title": format!("Issue {number}"), "milestone_id": large})).await;
    }
    open(&root, id, json!({"title": "last", "milestone_id": empty["id"]})).await;
    let list = async |memory_bytes: u64| {
        let (budgets, memory) = request_memory(memory_bytes);
        let caller = Caller::anonymous().with_memory(memory);
        let (filter, page) = (IssueFilter::default(), PageRequest::default());
        let page = issues_service::list(&server.backend, &caller, ListScope::Project(id), &filter, &page).await;
        (page, budgets.memory.used())
    };
    // The issues share one description, and the response contains it three times.
    let (refused, _) = list(399_990).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    let (page, used) = list(400_000).await;
    assert_eq!(used, 400_000);
    let items = page.expect("issues").items;
    let milestones: Vec<_> = items.iter().map(|detail| detail.milestone.as_ref().expect("a milestone")).collect();
    let large: Vec<_> = milestones.iter().filter(|detail| detail.milestone.title == "large").collect();
    assert_eq!((milestones.len(), large.len()), (4, 3));
    assert!(large.iter().all(|one| Arc::ptr_eq(one, large[0])));
    // The response of a committed update does not fail because too little memory is left, but a read does.
    let ann = server.create_user("ann").await;
    server.insert_member(id, ann.id, AccessLevel::Developer).await;
    let (_, memory) = request_memory(10);
    let caller = Caller::user(ann.row).with_memory(memory);
    let access = ProjectAccess::find(&server.backend, caller, &id.to_string()).await.expect("access");
    let update = IssueUpdate { title: Some("Issue".to_owned()), ..IssueUpdate::default() };
    let updated = issues_service::update(&server.backend, &access, 1, update).await.expect("an issue");
    let refused = issues_service::get_by_id(&server.backend, &access.caller, updated.issue.id).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    assert_eq!(updated.milestone.expect("a milestone").milestone.title, "large");
    let before = server.statements();
    let listed = root.get(&format!("{path}/issues")).await.expect(200).json();
    let texts = server.statement_texts(before).into_iter();
    let joined =
        |text: &String| text.contains("\"issues\".\"title\"") && text.contains("\"milestones\".\"description\"");
    assert_eq!(texts.filter(joined).collect::<Vec<_>>(), [""; 0]);
    for issue in listed.as_array().expect("a list") {
        let shown = root.get(&format!("{path}/issues/{}", issue["iid"])).await.expect(200).json();
        assert_eq!(issue["milestone"], shown["milestone"]);
        let expected = (issue["title"] != "last").then_some(100_000);
        assert_eq!(shown["milestone"]["description"].as_str().map(str::len), expected);
        let changed = root.put(&format!("{path}/issues/{}", issue["iid"]), json!({"weight": 3})).await;
        assert_eq!(changed.expect(200).json()["milestone"], shown["milestone"]);
    }
}

async fn long_descriptions_are_read_after_their_memory_is_reserved(server: TestServer) {
    let root = server.root();
    let id = public_project(&server, "work").await;
    for number in 0..3 {
        open(&root, id, json!({"title": format!("Issue {number}"), "description": "x".repeat(100_000)})).await;
    }
    let list = async |memory_bytes: u64, size: i64| {
        let before = server.statements();
        let (budgets, memory) = request_memory(memory_bytes);
        let caller = Caller::anonymous().with_memory(memory);
        let (filter, page) = (IssueFilter::default(), PageRequest { size, ..PageRequest::default() });
        let page = issues_service::list(&server.backend, &caller, ListScope::Project(id), &filter, &page).await;
        (page, budgets.memory.used(), server.statement_texts(before))
    };
    // The descriptions exist twice while they are read.
    let (refused, used, statements) = list(599_990, 3).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    assert_eq!(used, 0);
    let read = |text: &String| text.contains("\"issues\".\"description\"") && !text.contains("octet_length");
    assert_eq!(statements.into_iter().filter(read).collect::<Vec<_>>(), [""; 0]);
    for (memory_bytes, size) in [(600_000, 3), (400_000, 2)] {
        let (page, used, statements) = list(memory_bytes, size).await;
        assert_eq!(used, memory_bytes / 2);
        assert_eq!(statements.iter().filter(|text| read(text)).count(), 1);
        let items = page.expect("issues").items;
        let sizes: Vec<_> = items.iter().map(|detail| detail.issue.description.as_deref().map(str::len)).collect();
        assert_eq!(sizes, vec![Some(100_000); items.len()]);
        assert_eq!(Ok(items.len()), usize::try_from(size));
    }
}

on_every_database![
    list_issues_applies_each_filter,
    search_matches_short_titles_whole_and_case_insensitively,
    list_issues_applies_each_negated_filter,
    list_issues_sorts_by_each_order_in_both_directions,
    list_issues_rejects_exclusive_and_invalid_parameters,
    list_issues_covers_projects_subgroups_and_instance,
    list_issues_ignores_blank_filters_and_accepts_label_none,
    created_before_includes_the_displayed_time,
    list_issues_filters_by_many_labels_without_more_statements,
    milestone_of_many_issues_is_read_once,
    long_descriptions_are_read_after_their_memory_is_reserved,
];
