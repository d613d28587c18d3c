//! Members and roles of imported groups.

use serde_json::{Value, json};

use super::{Draft, import, member, send, unmapped};
use crate::support::spaces::{group, join};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the direct members of a group, sorted by name.
async fn members(client: &Client, group: &str) -> Vec<(String, i64)> {
    let listed = client.get(&format!("/groups/{group}/members")).await.expect(200).json();
    let one = |member: &Value| {
        let name = member["username"].as_str().expect("a name").to_owned();
        (name, member["access_level"].as_i64().expect("a number"))
    };
    let mut all: Vec<_> = listed.as_array().expect("a list").iter().map(one).collect();
    all.sort();
    all
}

fn named(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter().map(|(name, level)| ((*name).to_owned(), *level)).collect()
}

async fn import_maps_members_by_confirmed_email_only(server: TestServer) {
    let root = server.root();
    let mut ids = Vec::new();
    for name in ["ada", "bob", "eve", "dan", "fay"] {
        ids.push(server.create_user(name).await.id);
    }
    let further =
        |confirmed: bool| json!({"email": format!("further-{confirmed}@example.com"), "skip_confirmation": confirmed});
    for confirmed in [true, false] {
        root.post(&format!("/users/{}/emails", ids[1]), further(confirmed)).await.expect(201);
    }
    // An unconfirmed address.
    let moved = json!({"email": "moved@example.com", "skip_reconfirmation": false});
    let changed = root.put(&format!("/users/{}", ids[2]), moved).await.expect(200).json();
    assert_eq!(changed["confirmed_at"], json!(null));
    let mut ended = member(106, "fay@example.com", 30);
    ended["expires_at"] = json!("2020-01-31");
    let mut public = member(104, "", 20);
    public["user"]["public_email"] = json!("dan@example.com");
    let all = [
        member(101, "ADA@example.com", 30),
        member(102, "further-true@example.com", 20),
        member(103, "moved@example.com", 40),
        public,
        member(105, "further-false@example.com", 10),
        ended,
        member(107, "ada@example.com", 40),
        // Members are not mapped by ID or username.
        json!({"access_level": 50, "user": {"id": ids[4], "username": "fay"}}),
        json!({"access_level": 50, "user": {"id": 1, "username": "root", "email": "missing-user@example.com"}}),
    ];
    let (id, status) =
        import(&server, &root, "fresh", None, Draft::new().with_records(7, "members", all).packed()).await;
    assert_eq!(members(&root, &id.to_string()).await, named(&[("ada", 30), ("bob", 20), ("dan", 20), ("root", 50)]));
    let names: Vec<_> = unmapped(&status).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(
        names,
        [
            "member moved@example.com",
            "member further-false@example.com",
            "member fay@example.com",
            "member ada@example.com",
            "member fay",
            "member missing-user@example.com",
        ]
    );
    assert_eq!(status["unmapped_count"], 6);
}

async fn import_caps_roles_at_role_of_importer(server: TestServer) {
    let root = server.root();
    let top = group(&root, "parent", json!({})).await;
    let (ada, eve, bob) =
        (server.create_user("ada").await, server.create_user("eve").await, server.create_user("bob").await);
    join(&root, &format!("/groups/{top}"), ada.id, 40).await;
    join(&root, &format!("/groups/{top}"), bob.id, 30).await;
    let all = || [member(1, "eve@example.com", 50), member(2, "bob@example.com", 20), member(3, "ada@example.com", 10)];
    let archive = || {
        Draft::new()
            .with_records(7, "members", all())
            .with_subgroup(8, 7, "low")
            .with_records(8, "members", all())
            .packed()
    };
    let (_, status) = import(&server, &ada.client, "fresh", Some(top), archive()).await;
    assert_eq!(status["import_status"], "finished");
    assert_eq!(members(&root, "parent%2Ffresh").await, named(&[("ada", 50), ("eve", 40)]));
    assert_eq!(members(&root, "parent%2Ffresh%2Flow").await, named(&[("eve", 40)]));
    let reasons: Vec<_> =
        unmapped(&status).into_iter().map(|(kind, name, reason)| format!("{kind} {name}: {reason}")).collect();
    assert_eq!(
        reasons,
        [
            "level eve@example.com: lowered from Owner to Maintainer, the highest role that the importing user can grant",
            "member bob@example.com: the user has a higher role through an ancestor group",
            "level eve@example.com: lowered from Owner to Maintainer, the highest role that the importing user can grant",
            "member bob@example.com: the user has a higher role through an ancestor group",
        ]
    );
    // For a top-level group the importer can assign all roles.
    import(&server, &ada.client, "own", None, archive()).await;
    assert_eq!(members(&root, "own").await, named(&[("ada", 50), ("bob", 20), ("eve", 50)]));
    eve.client.get("/groups/own/import").await.expect(200);
}

async fn import_of_blocked_user_fails(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let labels = [json!({"title": "bug", "color": "#ff0000"})];
    let archive = Draft::new().with_records(7, "labels", labels).packed();
    send(&ada.client, "fresh", None, archive).await.expect(202);
    root.post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    server.finish_jobs().await;
    let status = root.get("/groups/fresh/import").await.expect(200).json();
    assert_eq!((&status["import_status"], &status["imported_groups_count"]), (&json!("failed"), &json!(0)));
    assert_eq!(root.get("/groups/fresh/labels").await.expect(200).json(), json!([]));
}

on_every_database![
    import_maps_members_by_confirmed_email_only,
    import_caps_roles_at_role_of_importer,
    import_of_blocked_user_fails,
];
