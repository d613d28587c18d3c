//! Avatars of groups.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::spaces::{group, join};
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n, as far as anybody looks";

async fn send(client: &Client, method: Method, path: &str, form: Form, name: &str, bytes: &[u8]) -> ApiResponse {
    let form = form.part("avatar", Part::bytes(bytes.to_vec()).file_name(name.to_owned()));
    client.send(client.request(method, path).multipart(form)).await
}

async fn group_avatar_follows_group_visibility(server: TestServer) {
    let (ada, bob, eve) =
        (server.create_user("ada").await, server.create_user("bob").await, server.create_user("eve").await);
    let form = Form::new().text("name", "Engines").text("path", "engines");
    let created = send(&ada.client, Method::POST, "/groups", form, "a b.png", PNG).await.expect(201).json();
    let address = format!("{}/uploads/-/system/group/avatar/{}/a_b.png", server.base, created["id"]);
    assert_eq!((&created["avatar_url"], &created["name"]), (&json!(address), &json!("Engines")));
    let (path, one) = (address.replace(&server.base, "/"), format!("/groups/{}", created["id"]));
    join(&ada.client, &one, bob.id, 10).await;
    let seen = bob.client.get(&path).await.expect(200);
    assert_eq!((seen.header("content-type"), &seen.body[..]), ("image/png", PNG));
    assert!(seen.header("content-security-policy").contains("sandbox"));
    for non_member in [&eve.client, &server.anonymous()] {
        non_member.get(&path).await.expect(404);
    }
    ada.client.put(&one, json!({ "visibility": "public" })).await.expect(200);
    server.anonymous().get(&path).await.expect(200);
    // The path is for groups only, not for personal namespaces.
    let personal = server.personal_namespace(ada.id).await;
    server.root().get(&format!("//uploads/-/system/group/avatar/{}/a_b.png", personal.id)).await.expect(404);
    let changed =
        send(&ada.client, Method::PUT, &one, Form::new().text("description", "Brass"), "c.gif", b"GIF89a").await;
    assert_eq!(changed.expect(200).json()["description"], "Brass");
    server.anonymous().get(&path).await.expect(404);
    let changed = ada.client.put(&one, json!({ "avatar": "" })).await.expect(200).json();
    assert_eq!((&changed["avatar_url"], &changed["description"]), (&Value::Null, &json!("Brass")));
}

async fn deleting_group_deletes_avatar(server: TestServer) {
    let root = server.root();
    let outer = group(&root, "outer", json!({})).await;
    let inner = group(&root, "inner", json!({ "parent_id": outer })).await;
    send(&root, Method::PUT, &format!("/groups/{inner}"), Form::new(), "a.png", PNG).await.expect(200);
    let stored = || server.data().join(format!("objects/groups/{inner}/avatar")).exists();
    assert!(stored());
    root.delete(&format!("/groups/{outer}")).await.expect(202);
    root.get(&format!("//uploads/-/system/group/avatar/{inner}/a.png")).await.expect(404);
    server.finish_jobs().await;
    assert!(!stored());
}

async fn avatar_must_be_image_and_requires_owner(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let one = format!("/groups/{}", group(&ada.client, "engines", json!({})).await);
    join(&ada.client, &one, bob.id, 40).await;
    for (name, bytes) in
        [("a.svg", b"<svg/>".as_slice()), ("a.png", b"<html>"), ("a.png", &[PNG, &[0; 200 << 10]].concat())]
    {
        let form = || Form::new().text("name", "Other").text("path", "other");
        let rejected = send(&ada.client, Method::POST, "/groups", form(), name, bytes).await.expect(400);
        assert!(rejected.json()["message"]["avatar"].is_array(), "{name}");
        send(&ada.client, Method::PUT, &one, form(), name, bytes).await.expect(400);
    }
    ada.client.get("/groups/other").await.expect(404);
    send(&bob.client, Method::PUT, &one, Form::new(), "a.png", PNG).await.expect(403);
    send(&server.anonymous(), Method::PUT, &one, Form::new(), "a.png", PNG).await.expect(401);
    assert_eq!(ada.client.get(&one).await.expect(200).json()["avatar_url"], Value::Null);
}

on_every_database![
    group_avatar_follows_group_visibility,
    deleting_group_deletes_avatar,
    avatar_must_be_image_and_requires_owner,
];
