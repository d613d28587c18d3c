//! Lists of merge requests: each filter alone, some together, their negations, and every order.

use serde_json::json;
use storage::entities::{AccessLevel, Visibility};

use super::{propose, titles};
use crate::support::code::{NewCommit, Project, file};
use crate::support::spaces::group;
use crate::support::{Client, TestServer, on_every_database};

/// Merge requests that differ in every attribute with a filter, created in the order `one` to `four`.
struct Sample<'a> {
    project: Project<'a>,
    ann: i64,
    ben: i64,
}

/// Creates a public project whose branches `b1` to `b4` each add a file.
async fn branched<'a>(server: &'a TestServer, name: &str) -> Project<'a> {
    let project = Project::with_commits(server, name, Visibility::Public).await;
    for number in 1..=4 {
        project.import(&NewCommit {
            branch: &format!("b{number}"),
            from: Some("refs/heads/main"),
            changes: file(&format!("{number}.txt"), "x\n"),
            ..NewCommit::default()
        });
    }
    project
}

async fn sample(server: &TestServer) -> Sample<'_> {
    let root = server.root();
    let project = branched(server, "sample").await;
    let id = project.id;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    server.insert_member(id, ann.id, AccessLevel::Developer).await;
    let milestones = format!("/projects/{id}/milestones");
    let soon = json!({"title": "soon", "due_date": "2030-01-01"});
    let soon = root.post(&milestones, soon).await.expect(201).json()["id"].clone();
    let late = json!({"title": "late", "due_date": "2031-01-01"});
    let late = root.post(&milestones, late).await.expect(201).json()["id"].clone();
    for (name, priority) in [("bug", json!(2)), ("ui", json!(1))] {
        let label = json!({"name": name, "color": "#123456", "priority": priority});
        root.post(&format!("/projects/{id}/labels"), label).await.expect(201);
    }
    for (client, source, target, body) in [
        (
            &root,
            "b1",
            "main",
            json!({
                "title": "one", "description": "The quick brown fox", "labels": "bug", "milestone_id": late,
                "assignee_ids": [ann.id],
            }),
        ),
        (
            &root,
            "b2",
            "merged",
            json!({
                "title": "Draft: two", "description": "jumps over", "labels": "bug,ui", "milestone_id": soon,
                "assignee_ids": [ann.id, ben.id],
            }),
        ),
        (&root, "b3", "main", json!({"title": "three quick"})),
        (&ann.client, "b4", "main", json!({"title": "four [WIP]", "labels": "ui"})),
    ] {
        propose(client, id, source, target, body).await;
    }
    let three = format!("/projects/{id}/merge_requests/3");
    root.put(&three, json!({"state_event": "close"})).await.expect(200);
    let tada = json!({"name": "tada"});
    root.post(&format!("/projects/{id}/merge_requests/2/award_emoji"), tada).await.expect(201);
    Sample { project, ann: ann.id, ben: ben.id }
}

/// Returns the titles that a query matches, in the order of creation.
async fn found(client: &Client, project: i64, query: &str) -> Vec<String> {
    titles(client, &format!("/projects/{project}/merge_requests?sort=asc&{query}")).await
}

async fn list_merge_requests_applies_each_filter(server: TestServer) {
    let Sample { project, ann, ben } = sample(&server).await;
    let (root, id) = (server.root(), project.id);
    let (one, two, three, four) = ("one", "Draft: two", "three quick", "four [WIP]");
    for (query, expected) in [
        ("state=opened", &[one, two, four][..]),
        ("state=closed", &[three]),
        ("state=merged", &[]),
        ("state=locked", &[]),
        ("state=all", &[one, two, three, four]),
        ("labels=bug", &[one, two]),
        ("labels=bug,ui", &[two]),
        ("labels[]=bug&labels[]=ui", &[two]),
        ("labels=None", &[three]),
        ("labels=No+Label", &[three]),
        ("labels=aNY", &[one, two, four]),
        ("labels=unknown", &[]),
        ("labels=", &[one, two, three, four]),
        ("milestone=soon", &[two]),
        ("milestone=none", &[three, four]),
        ("milestone=Any", &[one, two]),
        ("milestone=%23upcoming", &[one, two]),
        ("milestone=unknown", &[]),
        ("scope=created_by_me", &[one, two, three]),
        ("scope=created-by-me", &[one, two, three]),
        ("scope=assigned_to_me", &[]),
        ("scope=assigned-to-me", &[]),
        ("author_id=1", &[one, two, three]),
        ("author_username=ANN", &[four]),
        ("author_username=missing-user", &[]),
        ("assignee_id=None", &[three, four]),
        ("assignee_id=0", &[three, four]),
        ("assignee_id=any", &[one, two]),
        ("assignee_username=ann", &[one, two]),
        ("assignee_username[]=ann&assignee_username[]=ben", &[two]),
        ("my_reaction_emoji=tada", &[two]),
        ("my_reaction_emoji=None", &[one, three, four]),
        ("my_reaction_emoji=any", &[two]),
        ("source_branch=b3", &[three]),
        ("source_branch=b", &[]),
        ("target_branch=merged", &[two]),
        ("target_branch=main", &[one, three, four]),
        ("source_project_id=999999", &[]),
        ("wip=yes", &[two]),
        ("wip=no", &[one, three, four]),
        ("iids[]=1&iids[]=4", &[one, four]),
        ("iids=1,99", &[one]),
        ("search=quick", &[one, three]),
        ("search=QUICK+fox", &[one]),
        ("search=%22brown+quick%22", &[]),
        ("search=quick&in=title", &[three]),
        ("search=quick&in=description", &[one]),
        ("search=qu%25ck", &[]),
        ("search=a+four", &[four]),
        ("search=fo", &[]),
        ("created_after=2000-01-01T00:00:00Z", &[one, two, three, four]),
        ("created_before=2000-01-01T00:00:00Z", &[]),
        ("updated_before=2000-01-01T00:00:00Z", &[]),
        ("updated_after=2000-01-01T00:00:00Z", &[one, two, three, four]),
        ("labels=bug&state=opened&assignee_username=ben&search=jumps&wip=yes", &[two]),
        ("labels=ui&author_username=ann&target_branch=main&source_branch=b4", &[four]),
    ] {
        assert_eq!(found(&root, id, query).await, expected, "{query}");
    }
    assert_eq!(found(&root, id, &format!("source_project_id={id}")).await, [one, two, three, four]);
    assert_eq!(found(&root, id, &format!("assignee_id={ben}")).await, [two]);
    assert_eq!(found(&root, id, &format!("assignee_id={ann}&labels=ui")).await, [two]);
}

async fn list_merge_requests_ignores_award_emoji_filter_of_anonymous_caller(server: TestServer) {
    let id = sample(&server).await.project.id;
    let anonymous = server.anonymous();
    let all = found(&anonymous, id, "").await;
    assert_eq!(all.len(), 4);
    for name in ["tada", "Any", "None"] {
        for query in [format!("my_reaction_emoji={name}"), format!("not[my_reaction_emoji]={name}")] {
            assert_eq!(found(&anonymous, id, &query).await, all, "{query}");
        }
    }
}

async fn list_merge_requests_applies_each_negated_filter(server: TestServer) {
    let Sample { project, ann, .. } = sample(&server).await;
    let (root, id) = (server.root(), project.id);
    let (one, two, three, four) = ("one", "Draft: two", "three quick", "four [WIP]");
    for (query, expected) in [
        ("not[labels]=bug", &[three, four][..]),
        ("not[labels]=bug,ui", &[three]),
        ("not[labels]=None", &[one, two, four]),
        ("not[milestone]=soon", &[one, three, four]),
        ("not[milestone]=None", &[one, two]),
        ("not[author_id]=1", &[four]),
        ("not[author_username]=ann", &[one, two, three]),
        ("not[assignee_username][]=ben", &[one, three, four]),
        ("not[my_reaction_emoji]=tada", &[one, three, four]),
        ("not[search]=quick", &[two, four]),
        ("not[search]=quick&not[in]=title", &[one, two, four]),
        ("not[iids][]=1&not[iids][]=2", &[three, four]),
        ("labels=bug&not[labels]=ui", &[one]),
    ] {
        assert_eq!(found(&root, id, query).await, expected, "{query}");
    }
    assert_eq!(found(&root, id, &format!("not[assignee_id]={ann}")).await, [three, four]);
}

async fn list_merge_requests_sorts_by_each_order_in_both_directions(server: TestServer) {
    let Sample { project, .. } = sample(&server).await;
    let (root, id) = (server.root(), project.id);
    let (one, two, three, four) = ("one", "Draft: two", "three quick", "four [WIP]");
    // Authors can vote for their own merge request only with a note.
    root.post(&format!("/projects/{id}/merge_requests/1/notes"), json!({"body": ":thumbsup:"})).await.expect(201);
    root.put(&format!("/projects/{id}/merge_requests/2"), json!({"squash": true})).await.expect(200);
    for (order, up, down) in [
        ("created_at", [one, two, three, four], [four, three, two, one]),
        // Merge requests without a value come last in both directions; ties are sorted from newest to oldest.
        ("milestone_due", [two, one, four, three], [one, two, four, three]),
        ("label_priority", [four, two, one, three], [one, four, two, three]),
        ("priority", [two, one, four, three], [one, two, four, three]),
        ("popularity", [four, three, two, one], [one, four, three, two]),
    ] {
        for (direction, expected) in [("asc", up), ("desc", down)] {
            let path = format!("/projects/{id}/merge_requests?order_by={order}&sort={direction}");
            assert_eq!(titles(&root, &path).await, expected, "{order} {direction}");
        }
    }
    let changed = titles(&root, &format!("/projects/{id}/merge_requests?order_by=updated_at")).await;
    assert_eq!(changed[0], two);
}

async fn list_merge_requests_rejects_exclusive_and_invalid_parameters(server: TestServer) {
    let root = server.root();
    let project = branched(&server, "refused").await;
    let top = group(&root, "top", json!({})).await;
    let prefixes = [String::new(), format!("/groups/{top}"), format!("/projects/{}", project.id)];
    for (query, message) in [
        ("author_id=1&author_username=root", "author_id, author_username are mutually exclusive"),
        ("not[author_id]=1&not[author_username]=root", "not[author_id], not[author_username] are mutually exclusive"),
        ("assignee_id=me", "assignee_id should be an integer, 'None' or 'Any'"),
        ("state=open", "state does not have a valid value"),
        ("scope=mine", "scope does not have a valid value"),
        ("order_by=weight", "order_by does not have a valid value"),
        ("wip=true", "wip does not have a valid value"),
        ("view=full", "view does not have a valid value"),
        ("source_project_id=x", "source_project_id is invalid"),
    ] {
        for prefix in &prefixes {
            let rejected = root.get(&format!("{prefix}/merge_requests?{query}")).await.expect(400).json();
            assert_eq!(rejected["message"], message, "{prefix} {query}");
        }
    }
}

async fn list_merge_requests_covers_projects_subgroups_and_instance(server: TestServer) {
    let root = server.root();
    let ann = server.create_user("ann").await;
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    let low = group(&root, "low", json!({"visibility": "public", "parent_id": top})).await;
    let (upper, lower, other) =
        (branched(&server, "upper").await, branched(&server, "lower").await, branched(&server, "other").await);
    for (project, namespace) in [(&upper, top), (&lower, low)] {
        project.update(|row| row.namespace_id = sea_orm::ActiveValue::Set(namespace)).await;
    }
    for (project, title) in [(&upper, "u"), (&lower, "l"), (&other, "o")] {
        propose(&root, project.id, "b1", "main", json!({"title": title, "labels": "bug"})).await;
    }
    server.insert_member(other.id, ann.id, AccessLevel::Developer).await;
    propose(&ann.client, other.id, "b2", "main", json!({"title": "ann's"})).await;
    assert_eq!(titles(&root, &format!("/groups/{top}/merge_requests?sort=asc")).await, ["u", "l"]);
    assert_eq!(titles(&root, &format!("/groups/{low}/merge_requests")).await, ["l"]);
    assert_eq!(
        titles(&root, "/merge_requests?sort=asc").await,
        ["u", "l", "o"],
        "the default scope is the merge requests of the caller"
    );
    assert_eq!(titles(&ann.client, "/merge_requests").await, ["ann's"]);
    assert_eq!(titles(&ann.client, "/merge_requests?scope=all&sort=asc").await, ["u", "l", "o", "ann's"]);
    let second = "/merge_requests?scope=all&labels=bug&sort=asc&per_page=2&page=2";
    assert_eq!(titles(&ann.client, second).await, ["o"]);
    let far = root.get(&format!("/groups/{top}/merge_requests?sort=asc")).await.expect(200);
    assert_eq!(far.header("X-Total"), "2");
    let far = &far.json()[1];
    let references = json!({"short": "!1", "relative": "top/low/lower!1", "full": "top/low/lower!1"});
    assert_eq!(far["references"], references);
    assert!(far.get("subscribed").is_none() && far.get("diff_refs").is_none());
    let near = format!("/projects/{}/merge_requests?with_labels_details=true", lower.id);
    let near = &root.get(&near).await.expect(200).json()[0];
    assert_eq!((&near["references"]["relative"], &near["labels"][0]["name"]), (&json!("!1"), &json!("bug")));
    let brief = format!("/projects/{}/merge_requests?view=simple", lower.id);
    let brief = &root.get(&brief).await.expect(200).json()[0];
    assert_eq!(brief.as_object().map(serde_json::Map::len), Some(9), "{brief}");
    // Archived projects are excluded by default.
    lower.archive().await;
    assert_eq!(titles(&root, &format!("/groups/{top}/merge_requests")).await, ["u"]);
    assert_eq!(titles(&root, "/merge_requests?non_archived=false&sort=asc").await, ["u", "l", "o"]);
    assert_eq!(titles(&root, &format!("/projects/{}/merge_requests", lower.id)).await, ["l"]);
    // The merge requests of a public project can be read without a token.
    let anonymous = server.anonymous();
    assert_eq!(titles(&anonymous, &format!("/projects/{}/merge_requests", upper.id)).await, ["u"]);
    anonymous.get(&format!("/projects/{}/merge_requests?scope=created_by_me", upper.id)).await.expect(401);
    anonymous.get("/merge_requests").await.expect(401);
    anonymous.get(&format!("/groups/{top}/merge_requests")).await.expect(401);
    let hidden = group(&root, "hidden", json!({})).await;
    ann.client.get(&format!("/groups/{hidden}/merge_requests")).await.expect(404);
    let narrow = server.create_token(ann.id, &["read_user"]).await;
    for path in ["/merge_requests".to_owned(), format!("/groups/{top}/merge_requests")] {
        server.with_token(&narrow).get(&path).await.expect(403);
    }
}

async fn milestone_lists_return_its_merge_requests_and_issues(server: TestServer) {
    let Sample { project, .. } = sample(&server).await;
    let (root, id) = (server.root(), project.id);
    let milestones = root.get(&format!("/projects/{id}/milestones?title=soon")).await.expect(200).json();
    let soon = milestones[0]["id"].as_i64().expect("a number");
    let path = format!("/projects/{id}/milestones/{soon}");
    crate::planning::issues::open(&root, id, json!({"title": "i", "milestone_id": soon})).await;
    crate::planning::issues::open(&root, id, json!({"title": "without"})).await;
    assert_eq!(titles(&root, &format!("{path}/merge_requests")).await, ["Draft: two"]);
    assert_eq!(titles(&root, &format!("{path}/issues")).await, ["i"]);
    root.get(&format!("/projects/{id}/milestones/99/merge_requests")).await.expect(404);
    root.get(&format!("/projects/{id}/milestones/99/issues")).await.expect(404);
    let ann = server.create_user("zoe").await;
    let narrow = server.with_token(&server.create_token(ann.id, &["read_user"]).await);
    let top = group(&root, "top", json!({"visibility": "public"})).await;
    project.update(|row| row.namespace_id = sea_orm::ActiveValue::Set(top)).await;
    let whole = json!({"title": "whole"});
    let whole = root.post(&format!("/groups/{top}/milestones"), whole).await.expect(201).json()["id"].clone();
    root.put(&format!("/projects/{id}/merge_requests/4"), json!({"milestone_id": whole})).await.expect(200);
    root.put(&format!("/projects/{id}/issues/2"), json!({"milestone_id": whole})).await.expect(200);
    let path = format!("/groups/{top}/milestones/{whole}");
    for (list, expected) in [("merge_requests", "four [WIP]"), ("issues", "without")] {
        assert_eq!(titles(&root, &format!("{path}/{list}")).await, [expected]);
        root.get(&format!("/groups/{top}/milestones/99/{list}")).await.expect(404);
        for prefix in [path.clone(), format!("/projects/{id}/milestones/{soon}")] {
            narrow.get(&format!("{prefix}/{list}")).await.expect(403);
            server.anonymous().get(&format!("{prefix}/{list}")).await.expect(401);
            root.get(&format!("{prefix}/{list}?page=x")).await.expect(400);
        }
    }
}

on_every_database![
    list_merge_requests_applies_each_filter,
    list_merge_requests_ignores_award_emoji_filter_of_anonymous_caller,
    list_merge_requests_applies_each_negated_filter,
    list_merge_requests_sorts_by_each_order_in_both_directions,
    list_merge_requests_rejects_exclusive_and_invalid_parameters,
    list_merge_requests_covers_projects_subgroups_and_instance,
    milestone_lists_return_its_merge_requests_and_issues,
];
