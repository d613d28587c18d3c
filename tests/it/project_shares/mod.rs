//! Sharing projects with groups.

use chrono::Days;
use serde_json::{Value, json};

use crate::support::places::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn a_share_gives_the_members_of_the_group_access_at_once(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    let (ada, bob) = (server.person("ada").await, server.person("bob").await);
    join(&root, &format!("/groups/{readers}"), ada.id, 40).await;
    join(&root, &format!("/groups/{readers}"), bob.id, 10).await;
    let one = format!("/projects/{work}");
    ada.client.get(&one).await.expect(404);
    let day = chrono::Utc::now().date_naive() + Days::new(30);
    let body = json!({"group_id": readers, "group_access": 30, "expires_at": day});
    let made = root.post(&format!("{one}/share"), body).await.expect(201).json();
    assert_eq!(made["project_id"], work);
    assert_eq!(
        (&made["group_id"], &made["group_access"], &made["expires_at"]),
        (&json!(readers), &json!(30), &json!(day))
    );
    let shown = root.get(&one).await.expect(200).json();
    assert_eq!(
        shown["shared_with_groups"],
        json!([{"group_id": readers, "group_name": "readers",
        "group_full_path": "readers", "group_access_level": 30, "expires_at": day}])
    );
    // The lower of both roles counts.
    let level = async |client: &crate::support::Client, least: i64| {
        client.get(&format!("/projects?min_access_level={least}")).await.expect(200).pluck("id")
    };
    assert_eq!((level(&ada.client, 30).await, level(&ada.client, 40).await), (vec![json!(work)], vec![]));
    assert_eq!((level(&bob.client, 10).await, level(&bob.client, 20).await), (vec![json!(work)], vec![]));
    root.delete(&format!("{one}/share/{readers}")).await.expect(204);
    ada.client.get(&one).await.expect(404);
    let gone = root.delete(&format!("{one}/share/{readers}")).await.expect(404);
    assert_eq!(gone.message(), "404 Group Link Not Found");
}

async fn a_project_is_shared_with_a_group_once(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({"parent_id": outer})).await;
    let readers = group(&root, "readers", json!({})).await;
    let work = project(&root, "work", json!({"namespace_id": inner})).await;
    let share = format!("/projects/{work}/share");
    let with = |group: i64| json!({"group_id": group, "group_access": 20});
    let shares = [root.post(&share, with(readers)), root.post(&share, with(readers))];
    let mut statuses: Vec<u16> = futures_util::future::join_all(shares).await.iter().map(|one| one.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    for above in [inner, outer] {
        root.post(&share, with(above)).await.expect(409);
    }
}

async fn what_makes_no_share_is_refused(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let hidden = group(&root, "hidden", json!({})).await;
    let locked = group(&root, "locked", json!({"share_with_group_lock": true})).await;
    let ada = server.person("ada").await;
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
        let refused = ada.client.post(&share, json!({"group_id": unknown, "group_access": 20})).await.expect(404);
        assert_eq!(refused.message(), "404 Group Not Found");
    }
    let kept = project(&root, "kept", json!({"namespace_id": locked})).await;
    let refused = root.post(&format!("/projects/{kept}/share"), json!({"group_id": readers, "group_access": 20})).await;
    assert_eq!(refused.expect(400).message(), "The project sharing with group is disabled");
    root.delete(&format!("{share}/readers")).await.expect(400);
    let large = json!({"group_id": readers, "x": "y".repeat(1 << 20)});
    root.post(&share, large).await.expect(413);
}

async fn maintainers_share_and_others_do_not(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({"visibility": "public"})).await;
    let work = project(&root, "work", json!({})).await;
    let body: Value = json!({"group_id": readers, "group_access": 20});
    let share = format!("/projects/{work}/share");
    for (name, level, status) in [("dev", 30, 403), ("maintainer", 40, 201)] {
        let person = server.person(name).await;
        join(&root, &format!("/projects/{work}"), person.id, level).await;
        person.client.post(&share, body.clone()).await.expect(status);
        if status == 403 {
            person.client.delete(&format!("{share}/{readers}")).await.expect(403);
        }
    }
    let stranger = server.person("stranger").await;
    stranger.client.post(&share, body.clone()).await.expect(404);
    server.anonymous().post(&share, body).await.expect(401);
    server.anonymous().delete(&format!("{share}/{readers}")).await.expect(401);
    let late = root.clone().header("If-Unmodified-Since", "Wed, 21 Oct 2015 07:28:00 GMT");
    late.delete(&format!("{share}/{readers}")).await.expect(412);
}

async fn a_share_that_has_ended_grants_nothing_is_not_shown_and_gives_way(server: TestServer) {
    let root = server.root();
    let readers = group(&root, "readers", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    let ada = server.person("ada").await;
    join(&root, &format!("/groups/{readers}"), ada.id, 40).await;
    let (one, share) = (format!("/projects/{work}"), format!("/projects/{work}/share"));
    let today = chrono::Utc::now().date_naive();
    let with = |day: Value| json!({"group_id": readers, "group_access": 30, "expires_at": day});
    // One that has ended does not keep the next from ending, too.
    for day in [json!(today), json!("2020-01-01")] {
        let made = root.post(&share, with(day.clone())).await.expect(201).json();
        assert_eq!(made["expires_at"], day);
        ada.client.get(&one).await.expect(404);
        assert_eq!(root.get(&one).await.expect(200).json()["shared_with_groups"], json!([]));
        assert_eq!(root.get(&format!("{one}/members/all")).await.expect(200).pluck("username"), ["root"]);
        for list in ["/projects?membership=true", "/projects", "/projects?search=work"] {
            assert_eq!(ada.client.get(list).await.expect(200).json(), json!([]), "{list}");
        }
        let of_group = root.get(&format!("/groups/{readers}/projects")).await.expect(200);
        assert_eq!(of_group.json(), json!([]));
        assert_eq!(root.get(&format!("/groups/{readers}")).await.expect(200).json()["shared_projects"], json!([]));
        let gone = root.delete(&format!("{share}/{readers}")).await.expect(404);
        assert_eq!(gone.message(), "404 Group Link Not Found");
    }
    let made = root.post(&share, with(Value::Null)).await.expect(201).json();
    assert_eq!(made["expires_at"], Value::Null);
    ada.client.get(&one).await.expect(200);
    root.post(&share, with(Value::Null)).await.expect(409);
    root.delete(&format!("{share}/{readers}")).await.expect(204);
}

on_every_database![
    a_share_gives_the_members_of_the_group_access_at_once,
    a_project_is_shared_with_a_group_once,
    what_makes_no_share_is_refused,
    maintainers_share_and_others_do_not,
    a_share_that_has_ended_grants_nothing_is_not_shown_and_gives_way,
];
