//! Links between issues.

use std::sync::Arc;

use domain::identity::access::ProjectAccess;
use domain::kernel::budgets::Budgets;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::planning::issues::links::{self as links_service, NewIssueLink};
use futures_util::future::join_all;
use holdfast::config::ConfigOptions;
use sea_orm::{ActiveValue::Set, EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::issue_links::{ActiveModel, Entity, IssueLinkType};
use storage::entities::{AccessLevel, issues, now};

use super::{open, public_project, system_notes};
use crate::support::body_memory::request_memory;
use crate::support::spaces::{id as id_of, project};
use crate::support::{Client, TestServer, on_every_database};

/// Links the first issue of a project to another issue, and returns the response.
async fn link(client: &Client, project: i64, target: (i64, i64), link_type: &str) -> Value {
    let body = json!({ "target_project_id": target.0, "target_issue_iid": target.1, "link_type": link_type });
    client.post(&format!("/projects/{project}/issues/1/links"), body).await.expect(201).json()
}

async fn count(server: &TestServer) -> u64 {
    Entity::find().count(server.backend.database.read()).await.expect("a count")
}

async fn issue_links_are_created_listed_and_deleted(server: TestServer) {
    let root = server.root();
    let (here, there) = (public_project(&server, "here").await, public_project(&server, "there").await);
    for (project, title) in [(here, "One"), (here, "Two"), (there, "Far")] {
        open(&root, project, json!({ "title": title })).await;
    }
    let list = format!("/projects/{here}/issues/1/links");
    assert_eq!(root.get(&list).await.expect(200).json(), json!([]));
    // The type is `relates_to` by default, and the project can be named by its path.
    let body = json!({ "target_project_id": "of-there/there", "target_issue_iid": 1 });
    let created = root.post(&list, body).await.expect(201);
    assert!(created.header("location").ends_with(&format!("{list}/{}", created.json()["id"])));
    let created = created.json();
    assert_eq!(created["link_type"], "relates_to");
    assert_eq!((&created["source_issue"]["title"], &created["target_issue"]["title"]), (&json!("One"), &json!("Far")));
    assert_eq!(created["target_issue"]["references"]["relative"], "of-there/there#1");
    let blocking = link(&root, here, (here, 2), "blocks").await;
    assert_eq!(blocking["link_type"], "blocks");
    // Each issue is listed with its relation, in order of the links.
    let listed = root.get(&list).await.expect(200);
    assert_eq!(listed.pluck("title"), ["Far", "Two"]);
    assert_eq!(listed.pluck("link_type"), ["relates_to", "blocks"]);
    assert_eq!(listed.pluck("issue_link_id"), [created["id"].clone(), blocking["id"].clone()]);
    assert!(listed.json()[0]["link_created_at"].is_string() && listed.json()[0]["link_updated_at"].is_string());
    let reversed = root.get(&format!("/projects/{here}/issues/2/links")).await.expect(200);
    assert_eq!(
        (reversed.pluck("title"), reversed.pluck("link_type")),
        (vec![json!("One")], vec![json!("is_blocked_by")])
    );
    let far = root.get(&format!("/projects/{there}/issues/1/links")).await.expect(200);
    assert_eq!(
        (far.pluck("issue_link_id"), far.pluck("link_type")),
        (vec![created["id"].clone()], vec![json!("relates_to")])
    );
    // The issue itself does not include its links.
    let alone = root.get(&format!("/projects/{here}/issues/1")).await.expect(200).json();
    assert_eq!((alone.get("issue_link_id"), alone.get("link_type")), (None, None));
    let one = format!("{list}/{}", created["id"]);
    let seen = root.get(&one).await.expect(200).json();
    assert_eq!(seen, created);
    assert_eq!(
        root.get(&format!("/projects/{there}/issues/1/links/{}", created["id"])).await.expect(200).json(),
        created
    );
    for (method_path, status) in [(format!("{list}/999999"), 404), (format!("{list}/x"), 400)] {
        root.get(&method_path).await.expect(status);
        root.delete(&method_path).await.expect(status);
    }
    // A link of other issues.
    root.get(&format!("/projects/{here}/issues/2/links/{}", created["id"])).await.expect(404);
    let old =
        root.request(reqwest::Method::DELETE, &one).header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    root.send(old).await.expect(412);
    assert_eq!(root.delete(&one).await.expect(200).json(), created);
    root.delete(&one).await.expect(404);
    assert_eq!(root.get(&list).await.expect(200).pluck("title"), ["Two"]);
    assert_eq!(
        system_notes(&server, here, 1).await,
        [
            "marked this issue as related to of-there/there#1",
            "marked this issue as blocking #2",
            "removed the relation with of-there/there#1",
        ]
    );
    assert_eq!(system_notes(&server, here, 2).await, ["marked this issue as blocked by #1"]);
    assert_eq!(
        system_notes(&server, there, 1).await,
        ["marked this issue as related to of-here/here#1", "removed the relation with of-here/here#1"]
    );
}

async fn create_issue_link_rejects_duplicates_and_invalid_targets(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for title in ["One", "Two"] {
        open(&root, work, json!({ "title": title })).await;
    }
    link(&root, work, (work, 2), "is_blocked_by").await;
    for (from, to) in [(1, 2), (2, 1)] {
        let body = json!({ "target_project_id": work, "target_issue_iid": to });
        let rejected = root.post(&format!("/projects/{work}/issues/{from}/links"), body).await.expect(409);
        assert_eq!(rejected.message(), "Issue(s) already assigned");
    }
    let list = format!("/projects/{work}/issues/1/links");
    let itself = json!({ "target_project_id": work, "target_issue_iid": 1 });
    let rejected = root.post(&list, itself).await.expect(422);
    assert_eq!(rejected.message(), "#1 cannot be added: cannot be related to itself");
    for (body, status) in [
        (json!({ "target_project_id": work }), 400),
        (json!({ "target_issue_iid": 2 }), 400),
        (json!({ "target_project_id": work, "target_issue_iid": "x" }), 400),
        (json!({ "target_project_id": work, "target_issue_iid": 2, "link_type": "causes" }), 400),
        (json!({ "target_project_id": work, "target_issue_iid": 99 }), 404),
        (json!({ "target_project_id": 999_999, "target_issue_iid": 1 }), 404),
        (json!({ "target_project_id": "no/where", "target_issue_iid": 1 }), 404),
    ] {
        root.post(&list, body.clone()).await.expect(status);
    }
    let body = json!({ "target_project_id": work, "target_issue_iid": 2 });
    root.post(&format!("/projects/{work}/issues/99/links"), body).await.expect(404);
    assert_eq!(count(&server).await, 1);
}

async fn issue_links_need_permissions_on_both_issues(server: TestServer) {
    let root = server.root();
    let (here, there) = (public_project(&server, "here").await, public_project(&server, "there").await);
    let hidden = project(&root, "hidden", json!({})).await;
    for project in [here, there, hidden] {
        open(&root, project, json!({ "title": "t" })).await;
    }
    open(&root, there, json!({ "title": "secret", "confidential": true })).await;
    let guest = server.create_user("guest").await;
    server.insert_member(here, guest.id, AccessLevel::Guest).await;
    let list = format!("/projects/{here}/issues/1/links");
    let to = |project: i64, iid: i64| json!({ "target_project_id": project, "target_issue_iid": iid });
    let rejected = guest.client.post(&list, to(there, 1)).await.expect(403);
    let text = "403 Forbidden - Couldn't link issue. You must have at least the Guest role in both projects.";
    assert_eq!(rejected.message(), text);
    for (project, iid) in [(there, 2), (hidden, 1)] {
        guest.client.post(&list, to(project, iid)).await.expect(404);
    }
    // A stranger cannot link the issues of a public project.
    let stranger = server.create_user("stranger").await;
    stranger.client.post(&list, to(here, 1)).await.expect(403);
    server.anonymous().post(&list, to(there, 1)).await.expect(401);
    server.insert_member(there, guest.id, AccessLevel::Guest).await;
    let visible = guest.client.post(&list, to(there, 1)).await.expect(201).json();
    for (project, iid) in [(there, 2), (hidden, 1)] {
        link(&root, here, (project, iid), "relates_to").await;
    }
    // Issues that the caller cannot see are left out, and so are the notes about them.
    assert_eq!(root.get(&list).await.expect(200).pluck("issue_link_id").len(), 3);
    for client in [&guest.client, &stranger.client, &server.anonymous()] {
        let listed = client.get(&list).await.expect(200);
        assert_eq!(listed.pluck("issue_link_id"), [visible["id"].clone()]);
    }
    let all = root.get(&list).await.expect(200).pluck("issue_link_id");
    for hidden in &all[1..] {
        guest.client.get(&format!("{list}/{hidden}")).await.expect(404);
        guest.client.delete(&format!("{list}/{hidden}")).await.expect(404);
    }
    let notes = guest.client.get(&format!("/projects/{here}/issues/1/notes")).await.expect(200).pluck("body");
    assert_eq!(notes, ["marked this issue as related to of-there/there#1"]);
    stranger.client.delete(&format!("{list}/{}", visible["id"])).await.expect(403);
    // The role in one of the projects is not sufficient.
    let single = server.create_user("single").await;
    server.insert_member(there, single.id, AccessLevel::Guest).await;
    let from_here = format!("{list}/{}", visible["id"]);
    let from_there = format!("/projects/{there}/issues/1/links/{}", visible["id"]);
    single.client.delete(&from_here).await.expect(403);
    let rejected = single.client.delete(&from_there).await.expect(403);
    assert!(rejected.message().contains("at least the Guest role in both projects"));
    // Archived projects do not change.
    root.post(&format!("/projects/{there}/archive"), json!({})).await.expect(201);
    for path in [&from_here, &from_there] {
        guest.client.delete(path).await.expect(403);
        root.delete(path).await.expect(403);
    }
    assert_eq!(count(&server).await, 3);
    assert_eq!(root.post(&list, to(there, 1)).await.expect(403).message(), text);
    root.post(&format!("/projects/{there}/issues/1/links"), to(here, 1)).await.expect(403);
    root.post(&format!("/projects/{there}/unarchive"), json!({})).await.expect(201);
    guest.client.delete(&from_there).await.expect(200);
}

async fn blocking_issues_need_the_premium_plan(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for title in ["One", "Two"] {
        open(&root, work, json!({ "title": title })).await;
    }
    for link_type in ["blocks", "is_blocked_by"] {
        let body = json!({ "target_project_id": work, "target_issue_iid": 2, "link_type": link_type });
        root.post(&format!("/projects/{work}/issues/1/links"), body).await.expect(403);
    }
    assert_eq!(count(&server).await, 0);
    link(&root, work, (work, 2), "relates_to").await;
}

async fn links_follow_moved_issues_and_are_deleted_with_issues(server: TestServer) {
    let root = server.root();
    let (here, there) = (public_project(&server, "here").await, public_project(&server, "there").await);
    for title in ["One", "Two", "Three"] {
        open(&root, here, json!({ "title": title })).await;
    }
    link(&root, here, (here, 2), "blocks").await;
    let body = json!({ "target_project_id": here, "target_issue_iid": 1 });
    root.post(&format!("/projects/{here}/issues/3/links"), body).await.expect(201);
    let moved = root.post(&format!("/projects/{here}/issues/1/move"), json!({ "to_project_id": there })).await;
    assert_eq!(moved.expect(201).json()["iid"], 1);
    let listed = root.get(&format!("/projects/{there}/issues/1/links")).await.expect(200);
    assert_eq!(listed.pluck("title"), ["Two", "Three"]);
    assert_eq!(listed.pluck("link_type"), ["blocks", "relates_to"]);
    assert_eq!(root.get(&format!("/projects/{here}/issues/1/links")).await.expect(200).json(), json!([]));
    root.delete(&format!("/projects/{here}/issues/2")).await.expect(204);
    assert_eq!(count(&server).await, 1);
    assert_eq!(root.get(&format!("/projects/{there}/issues/1/links")).await.expect(200).pluck("title"), ["Three"]);
    root.delete(&format!("/projects/{here}")).await.expect(202);
    server.finish_jobs().await;
    assert_eq!(count(&server).await, 0);
}

async fn concurrent_links_of_two_issues_are_created_once(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    for title in ["One", "Two"] {
        open(&root, work, json!({ "title": title })).await;
    }
    let paths: Vec<String> = [1, 2].map(|iid| format!("/projects/{work}/issues/{iid}/links")).into();
    let created = join_all((0..20).map(|number| {
        let body = json!({ "target_project_id": work, "target_issue_iid": 2 - number % 2 });
        root.post(&paths[number % 2], body)
    }));
    let statuses: Vec<u16> = created.await.into_iter().map(|response| response.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 19, "{statuses:?}");
    assert_eq!(count(&server).await, 1);
}

async fn issue_has_limited_number_of_links_listed_in_few_statements(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({})).await;
    open(&root, work, json!({ "title": "One" })).await;
    let body = json!({ "title": "Two", "labels": "a", "assignee_ids": [1] });
    let two = root.post(&format!("/projects/{work}/issues"), body).await.expect(201).json();
    let first = id_of(&root.get(&format!("/projects/{work}/issues/1")).await.expect(200).json());
    let db = server.backend.database.write();
    let rows = (3..=202).map(|iid| issues::ActiveModel {
        project_id: Set(work),
        iid: Set(iid),
        title: Set(format!("Issue {iid}")),
        state: Set(issues::IssueState::Opened),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    issues::Entity::insert_many(rows).exec_without_returning(db).await.expect("issues");
    let others = issues::Entity::find().all(db).await.expect("issues");
    let others = others.into_iter().map(|issue| issue.id).filter(|id| *id > id_of(&two));
    let rows = others.map(|target| ActiveModel {
        source_id: Set(first),
        target_id: Set(target),
        link_type: Set(IssueLinkType::RelatesTo),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    });
    Entity::insert_many(rows).exec_without_returning(db).await.expect("links");
    let list = format!("/projects/{work}/issues/1/links");
    for (from, to) in [(1, 2), (2, 1)] {
        let body = json!({ "target_project_id": work, "target_issue_iid": to });
        let rejected = root.post(&format!("/projects/{work}/issues/{from}/links"), body).await.expect(400);
        assert_eq!(rejected.message(), "An issue can have at most 200 links: delete a link first");
    }
    let before = server.statements();
    assert_eq!(root.get(&list).await.expect(200).pluck("title").len(), 200);
    let statements = server.statements() - before;
    assert!(statements <= 8, "{statements}: {:?}", server.statement_texts(before));
}

/// Returns access to a project with this many bytes of memory, and its budgets.
async fn access_with_memory(
    server: &TestServer,
    caller: Caller,
    project: i64,
    memory_bytes: u64,
) -> (Budgets, ProjectAccess) {
    let (budgets, memory) = request_memory(memory_bytes);
    let (caller, reference) = (caller.with_memory(memory), project.to_string());
    (budgets, ProjectAccess::find(&server.backend, caller, &reference).await.expect("access"))
}

async fn list_issue_links_reserves_memory_of_descriptions(server: TestServer) {
    let root = server.root();
    let work = public_project(&server, "work").await;
    let body = json!({ "title": "large", "description": "x".repeat(100_000) });
    let milestone = root.post(&format!("/projects/{work}/milestones"), body).await.expect(201).json()["id"].clone();
    open(&root, work, json!({ "title": "One", "description": "x".repeat(100_000) })).await;
    let body = |is_confidential: bool| {
        json!({
            "title": "t", "description": "y".repeat(100_000), "milestone_id": milestone,
            "confidential": is_confidential,
        })
    };
    for is_confidential in [false, false, false, true] {
        let iid = open(&root, work, body(is_confidential)).await;
        link(&root, work, (work, iid), "relates_to").await;
    }
    // A created link is returned even if too little memory is left, because a repeated request fails.
    let ann = server.create_user("ann").await;
    server.insert_member(work, ann.id, AccessLevel::Developer).await;
    let (_, access) = access_with_memory(&server, Caller::user(ann.row), work, 10).await;
    let new = NewIssueLink { target_project: work.to_string(), target_iid: 3, link_type: IssueLinkType::RelatesTo };
    let created = links_service::create(&server.backend, &access, 2, new).await.expect("a link");
    assert_eq!(created.target.issue.description.as_deref().map(str::len), Some(100_000));
    let refused = links_service::get(&server.backend, &access, 2, created.link.id).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    // The issue is the target of this link.
    let body = json!({ "target_project_id": work, "target_issue_iid": 1 });
    let last = open(&root, work, json!({ "title": "last" })).await;
    root.post(&format!("/projects/{work}/issues/{last}/links"), body).await.expect(201);
    let list = async |memory_bytes: u64| {
        let (budgets, access) = access_with_memory(&server, Caller::anonymous(), work, memory_bytes).await;
        let linked = links_service::list(&server.backend, &access, 1).await;
        (linked, budgets.memory.used())
    };
    // The descriptions of the three visible issues exist twice while they are read. They are not read without memory.
    let before = server.statements();
    let (refused, used) = list(599_990).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    assert_eq!(used, 0);
    let refused_statements = server.statements() - before;
    // The issues share the description of the milestone, and the response contains it three times.
    let (refused, _) = list(699_990).await;
    assert!(matches!(refused, Err(Error::Overloaded)));
    let before = server.statements();
    let (linked, used) = list(700_000).await;
    assert_eq!(used, 700_000);
    assert!(refused_statements < server.statements() - before);
    let linked = linked.expect("issues");
    let milestones: Vec<_> = linked.iter().filter_map(|one| one.issue.milestone.as_ref()).collect();
    assert_eq!((linked.len(), milestones.len()), (4, 3));
    assert!(milestones.iter().all(|one| Arc::ptr_eq(one, milestones[0])));
    let listed = root.get(&format!("/projects/{work}/issues/1/links")).await.expect(200).pluck("description");
    let sizes: Vec<_> = listed.iter().map(|text| text.as_str().map(str::len)).collect();
    assert_eq!(sizes, [Some(100_000), Some(100_000), Some(100_000), Some(100_000), None]);
}

fn free_plan() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    issue_links_are_created_listed_and_deleted,
    create_issue_link_rejects_duplicates_and_invalid_targets,
    issue_links_need_permissions_on_both_issues,
    blocking_issues_need_the_premium_plan with free_plan(),
    links_follow_moved_issues_and_are_deleted_with_issues,
    concurrent_links_of_two_issues_are_created_once,
    issue_has_limited_number_of_links_listed_in_few_statements,
    list_issue_links_reserves_memory_of_descriptions,
];
