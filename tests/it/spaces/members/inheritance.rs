//! Inherited roles: nested groups, shares, many members and concurrent changes.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, fold, members, now, users};

use crate::support::spaces::{group, group_share, join, membership, project};
use crate::support::{TestServer, on_every_database};

/// Inserts users directly into the database and returns their IDs.
async fn insert_users(server: &TestServer, name: &str, size: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    let rows = (0..size).map(|number| {
        let username = format!("{name}{number}");
        users::ActiveModel {
            username_key: Set(fold(&username)),
            name: Set(format!("Name of {username}")),
            email: Set(format!("{username}@example.com")),
            email_key: Set(format!("{username}@example.com")),
            username: Set(username),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        }
    });
    for row in rows {
        ids.push(row.insert(server.backend.database.write()).await.expect("a user").id);
    }
    ids
}

async fn insert_members(server: &TestServer, group: i64, ids: &[i64], level: AccessLevel) {
    let rows = ids.iter().map(|id| members::ActiveModel { namespace_id: Set(Some(group)), ..membership(*id, level) });
    members::Entity::insert_many(rows).exec_without_returning(server.backend.database.write()).await.expect("members");
}

async fn share(server: &TestServer, group: i64, with: i64, level: AccessLevel) {
    let row = group_share(group, with, level);
    row.insert(server.backend.database.write()).await.expect("a share");
}

async fn nearest_group_role_precedes_ancestors_and_shares(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let mid = group(&root, "mid", json!({"parent_id": top})).await;
    let low = group(&root, "low", json!({"parent_id": mid})).await;
    let work = project(&root, "work", json!({"namespace_id": low})).await;
    let team = group(&root, "team", json!({})).await;
    let squad = group(&root, "squad", json!({"parent_id": team})).await;
    let ids = insert_users(&server, "p", 5).await;
    use AccessLevel::{Developer, Guest, Maintainer, Owner, Reporter};
    // The first user is a member of all groups, the second of an ancestor and an invited group.
    // The third is a member of the parent of an invited group.
    insert_members(&server, top, &ids[..2], Maintainer).await;
    insert_members(&server, mid, &ids[..1], Developer).await;
    insert_members(&server, low, &ids[..1], Guest).await;
    insert_members(&server, squad, &ids[..2], Owner).await;
    insert_members(&server, team, &ids[2..3], Maintainer).await;
    insert_members(&server, squad, &ids[3..4], Guest).await;
    share(&server, top, squad, Reporter).await;
    share(&server, mid, squad, Developer).await;
    let levels = async |parent: String| {
        let response = root.get(&format!("{parent}/members/all")).await.expect(200);
        response.pluck("id").into_iter().zip(response.pluck("access_level")).skip(1).collect::<Vec<_>>()
    };
    let expected = |levels: [i64; 4]| ids.iter().map(|id| json!(id)).zip(levels.map(Value::from)).collect::<Vec<_>>();
    assert_eq!(levels(format!("/projects/{work}")).await, expected([10, 40, 30, 10]));
    assert_eq!(levels(format!("/groups/{low}")).await, expected([10, 40, 30, 10]));
    assert_eq!(levels(format!("/groups/{mid}")).await, expected([30, 40, 30, 10]));
    assert_eq!(levels(format!("/groups/{top}")).await, expected([40, 40, 20, 10]));
    // The highest of several shares applies.
    let one = root.get(&format!("/projects/{work}/members/all/{}", ids[2])).await.expect(200).json();
    assert_eq!(one["access_level"], 30);
    root.get(&format!("/projects/{work}/members/all/{}", ids[4])).await.expect(404);
}

async fn members_of_an_invisible_shared_group_are_hidden(server: TestServer) {
    let root = server.root();
    let work = project(&root, "work", json!({"visibility": "public"})).await;
    let team = group(&root, "team", json!({"visibility": "private"})).await;
    let (inside, outside) = (server.create_user("inside").await, server.create_user("outside").await);
    join(&root, &format!("/groups/{team}"), inside.id, 30).await;
    let shared = json!({"group_id": team, "group_access": 20});
    root.post(&format!("/projects/{work}/share"), shared).await.expect(201);
    let all = format!("/projects/{work}/members/all");
    for (client, names, status) in [
        (&root, vec!["root", "inside"], 200),
        (&inside.client, vec!["root", "inside"], 200),
        (&outside.client, vec!["root"], 404),
    ] {
        assert_eq!(client.get(&all).await.expect(200).pluck("username"), names);
        client.get(&format!("{all}/{}", inside.id)).await.expect(status);
    }
}

async fn list_all_members_reads_a_page_and_its_total_in_two_statements(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({})).await;
    let mid = group(&root, "mid", json!({"parent_id": top})).await;
    let low = group(&root, "low", json!({"parent_id": mid})).await;
    let work = project(&root, "work", json!({"namespace_id": low})).await;
    let friends = group(&root, "friends", json!({})).await;
    let parent = format!("/projects/{work}/members/all");
    let cost = async |query: &str| {
        let before = server.statements();
        let response = root.get(&format!("{parent}{query}")).await.expect(200);
        (response, server.statements() - before, before)
    };
    let (_, few, _) = cost("").await;
    let ids = insert_users(&server, "p", 400).await;
    insert_members(&server, top, &ids[..200], AccessLevel::Guest).await;
    insert_members(&server, mid, &ids[100..300], AccessLevel::Reporter).await;
    insert_members(&server, low, &ids[50..150], AccessLevel::Maintainer).await;
    insert_members(&server, friends, &ids[250..], AccessLevel::Owner).await;
    share(&server, mid, friends, AccessLevel::Developer).await;
    let mut seen = Vec::new();
    for page in 1..=5 {
        let (response, many, before) = cost(&format!("?per_page=100&page={page}")).await;
        // The list ends on the last page, so it is not counted there.
        let counts = usize::from(page < 5);
        assert_eq!(many, few + counts, "{page}");
        assert_eq!(response.header("x-total"), "401");
        let texts = server.statement_texts(before);
        let reads = texts.iter().filter(|text| text.contains("ROW_NUMBER")).count();
        assert_eq!(reads, 1 + counts, "the page and its total: {texts:#?}");
        seen.extend(response.pluck("id").into_iter().zip(response.pluck("access_level")));
    }
    let level = |index: usize| match index {
        50..150 => 40,
        150..300 => 20,
        300.. => 30,
        _ => 10,
    };
    let expected = ids.iter().enumerate().map(|(index, id)| (json!(id), json!(level(index))));
    let expected: Vec<_> = std::iter::once((json!(1), json!(50))).chain(expected).collect();
    assert_eq!(seen, expected);
    let (response, ..) = cost("?query=p399&per_page=5").await;
    assert_eq!(response.pluck("username"), ["p399"]);
}

async fn concurrent_leave_of_both_owners_returns_403_to_one(server: TestServer) {
    let root = server.root();
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    for round in 0..4 {
        let engines = group(&ada.client, &format!("g{round}"), json!({})).await;
        join(&ada.client, &format!("/groups/{engines}"), bob.id, 50).await;
        let list = format!("/groups/{engines}/members");
        let (first, second) = (format!("{list}/{}", ada.id), format!("{list}/{}", bob.id));
        let (one, two) = tokio::join!(ada.client.delete(&first), bob.client.delete(&second));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 403], "{round}");
        assert_eq!(root.get(&list).await.expect(200).pluck("access_level"), [50]);
    }
}

async fn concurrent_adds_of_one_user_return_409_except_one(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let ada = server.create_user("ada").await;
    let (list, new) = (format!("/groups/{engines}/members"), json!({"user_id": ada.id, "access_level": 30}));
    let tries = (0..6).map(|_| root.post(&list, new.clone()));
    let mut statuses: Vec<u16> = futures_util::future::join_all(tries).await.iter().map(|a| a.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409]);
}

async fn remove_member_returns_412_if_modified_since(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
    let one = format!("/groups/{engines}/members/{}", ada.id);
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&one).await.expect(412);
    root.get(&one).await.expect(200);
}

on_every_database![
    nearest_group_role_precedes_ancestors_and_shares,
    members_of_an_invisible_shared_group_are_hidden,
    list_all_members_reads_a_page_and_its_total_in_two_statements,
    concurrent_leave_of_both_owners_returns_403_to_one,
    concurrent_adds_of_one_user_return_409_except_one,
    remove_member_returns_412_if_modified_since,
];
