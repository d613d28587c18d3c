//! Sharing projects with groups.

use chrono::Days;
use serde_json::{Value, json};

use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn share_grants_access_to_group_members_at_once(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    join(&root, &format!("/groups/{readers}"), ada.id, 40).await;
    join(&root, &format!("/groups/{readers}"), bob.id, 10).await;
    let one = format!("/projects/{work}");
    ada.client.get(&one).await.expect(404);
    let day = chrono::Utc::now().date_naive() + Days::new(30);
    let body = json!({"group_id": readers, "group_access": 30, "expires_at": day});
    let created = root.post(&format!("{one}/share"), body).await.expect(201).json();
    assert_eq!(created["project_id"], work);
    assert_eq!(
        (&created["group_id"], &created["group_access"], &created["expires_at"]),
        (&json!(readers), &json!(30), &json!(day))
    );
    let shown = root.get(&one).await.expect(200).json();
    assert_eq!(
        shown["shared_with_groups"],
        json!([{"group_id": readers, "group_name": "readers",
        "group_full_path": "readers", "group_access_level": 30, "expires_at": day}])
    );
    // The lower of both roles applies.
    let level = async |client: &crate::support::Client, least: i64| {
        client.get(&format!("/projects?min_access_level={least}")).await.expect(200).pluck("id")
    };
    assert_eq!((level(&ada.client, 30).await, level(&ada.client, 40).await), (vec![json!(work)], vec![]));
    assert_eq!((level(&bob.client, 10).await, level(&bob.client, 20).await), (vec![json!(work)], vec![]));
    root.delete(&format!("{one}/share/{readers}")).await.expect(204);
    ada.client.get(&one).await.expect(404);
    let missing_share = root.delete(&format!("{one}/share/{readers}")).await.expect(404);
    assert_eq!(missing_share.message(), "404 Group Link Not Found");
}

async fn share_with_same_or_ancestor_group_returns_409(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let readers = group(&root, "readers", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let share = format!("/projects/{work}/share");
    let share_body = |group: i64| json!({"group_id": group, "group_access": 20});
    let shares = [root.post(&share, share_body(readers)), root.post(&share, share_body(readers))];
    let mut statuses: Vec<u16> = futures_util::future::join_all(shares).await.iter().map(|one| one.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    for ancestor in [inner, outer] {
        root.post(&share, share_body(ancestor)).await.expect(409);
    }
}

async fn share_rejects_invalid_parameters_and_invisible_groups(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    let locked = group(&root, "locked", json!({"share_with_group_lock": true})).await;
    let ada = server.create_user("ada").await;
    let work = project(&ada.client, "work", json!({})).await;
    let share = format!("/projects/{work}/share");
    for (body, message) in [
        (json!({"group_access": 20}), "group_id is missing"),
        (json!({"group_id": readers}), "group_access is missing"),
        (json!({"group_id": readers, "group_access": 50}), "group_access does not have a valid value"),
        (json!({"group_id": readers, "group_access": 15}), "group_access does not have a valid value"),
        (json!({"group_id": readers, "group_access": 20, "expires_at": "soon"}), "expires_at is invalid"),
    ] {
        assert_eq!(root.post(&share, body).await.expect(400).message(), message);
    }
    for unknown in [hidden, 999_999, -1] {
        let rejected = ada.client.post(&share, json!({"group_id": unknown, "group_access": 20})).await.expect(404);
        assert_eq!(rejected.message(), "404 Group Not Found");
    }
    let locked_project = project(&root, "kept", json!({"namespace_id": locked})).await;
    let rejected =
        root.post(&format!("/projects/{locked_project}/share"), json!({"group_id": readers, "group_access": 20})).await;
    assert_eq!(rejected.expect(400).message(), "The project sharing with group is disabled");
    root.delete(&format!("{share}/readers")).await.expect(400);
    let large = json!({"group_id": readers, "x": "y".repeat(1 << 20)});
    root.post(&share, large).await.expect(413);
}

async fn share_and_unshare_require_maintainer(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({"visibility": "public"})).await;
    let work = project(&root, "work", json!({})).await;
    let body: Value = json!({"group_id": readers, "group_access": 20});
    let share = format!("/projects/{work}/share");
    for (name, level, status) in [("dev", 30, 403), ("maintainer", 40, 201)] {
        let user = server.create_user(name).await;
        join(&root, &format!("/projects/{work}"), user.id, level).await;
        user.client.post(&share, body.clone()).await.expect(status);
        if status == 403 {
            user.client.delete(&format!("{share}/{readers}")).await.expect(403);
        }
    }
    let non_member = server.create_user("stranger").await;
    non_member.client.post(&share, body.clone()).await.expect(404);
    server.anonymous().post(&share, body).await.expect(401);
    server.anonymous().delete(&format!("{share}/{readers}")).await.expect(401);
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&format!("{share}/{readers}")).await.expect(412);
}

async fn expired_share_is_hidden_and_can_be_replaced(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    let ada = server.create_user("ada").await;
    join(&root, &format!("/groups/{readers}"), ada.id, 40).await;
    let (one, share) = (format!("/projects/{work}"), format!("/projects/{work}/share"));
    let today = chrono::Utc::now().date_naive();
    let share_body = |day: Value| json!({"group_id": readers, "group_access": 30, "expires_at": day});
    // An expired share can be replaced by another expired one.
    for day in [json!(today), json!("2020-01-01")] {
        let created = root.post(&share, share_body(day.clone())).await.expect(201).json();
        assert_eq!(created["expires_at"], day);
        ada.client.get(&one).await.expect(404);
        assert_eq!(root.get(&one).await.expect(200).json()["shared_with_groups"], json!([]));
        assert_eq!(root.get(&format!("{one}/members/all")).await.expect(200).pluck("username"), ["root"]);
        for list in ["/projects?membership=true", "/projects", "/projects?search=work"] {
            assert_eq!(ada.client.get(list).await.expect(200).json(), json!([]), "{list}");
        }
        let of_group = root.get(&format!("/groups/{readers}/projects")).await.expect(200);
        assert_eq!(of_group.json(), json!([]));
        assert_eq!(root.get(&format!("/groups/{readers}")).await.expect(200).json()["shared_projects"], json!([]));
        let missing_share = root.delete(&format!("{share}/{readers}")).await.expect(404);
        assert_eq!(missing_share.message(), "404 Group Link Not Found");
    }
    let created = root.post(&share, share_body(Value::Null)).await.expect(201).json();
    assert_eq!(created["expires_at"], Value::Null);
    ada.client.get(&one).await.expect(200);
    root.post(&share, share_body(Value::Null)).await.expect(409);
    root.delete(&format!("{share}/{readers}")).await.expect(204);
}

on_every_database![
    share_grants_access_to_group_members_at_once,
    share_with_same_or_ancestor_group_returns_409,
    share_rejects_invalid_parameters_and_invisible_groups,
    share_and_unshare_require_maintainer,
    expired_share_is_hidden_and_can_be_replaced,
];
