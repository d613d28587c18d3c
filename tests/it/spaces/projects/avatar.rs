//! Avatars of projects.

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use storage::entities::AccessLevel;

use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n, as far as anybody looks";

async fn send(client: &Client, project: i64, name: &str, bytes: &[u8]) -> ApiResponse {
    let form = Form::new().part("avatar", Part::bytes(bytes.to_vec()).file_name(name.to_owned()));
    let form = form.text("description", "Brass");
    client.send(client.request(Method::PUT, &format!("/projects/{project}")).multipart(form)).await
}

async fn avatar_can_be_set_replaced_and_removed(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let one = format!("/projects/{id}");
    for (name, clean, kind, bytes) in [
        ("my logo.png", "my_logo.png", "image/png", PNG),
        ("b.JPG", "b.JPG", "image/jpeg", b"\xff\xd8\xff\xe0".as_slice()),
    ] {
        let changed = send(&root, id, name, bytes).await.expect(200).json();
        let address = format!("{}/uploads/-/system/project/avatar/{id}/{clean}", server.base);
        assert_eq!((&changed["avatar_url"], &changed["description"]), (&json!(address), &json!("Brass")));
        let path = address.replace(&server.base, "/");
        let response = root.get(&path).await.expect(200);
        assert_eq!((response.header("content-type"), &response.body[..]), (kind, bytes));
        assert!(response.header("content-security-policy").contains("sandbox"));
        server.anonymous().get(&path).await.expect(404);
        root.get(&path.replace(clean, "other.png")).await.expect(404);
    }
    let changed = root.put(&one, json!({"avatar": ""})).await.expect(200).json();
    assert_eq!(changed["avatar_url"], Value::Null);
    root.get(&format!("//uploads/-/system/project/avatar/{id}/b.JPG")).await.expect(404);
    let form = Form::new().text("avatar", "").text("description", "Steam");
    let changed = root.send(root.request(Method::PUT, &one).multipart(form)).await.expect(200).json();
    assert_eq!(changed["description"], "Steam");
}

/// A server that is killed between the two steps must not leave an avatar without its object.
async fn removed_avatar_is_not_listed_even_if_its_object_remains(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let one = format!("/projects/{id}");
    send(&root, id, "a.png", PNG).await.expect(200);
    let (objects, moved) = (server.data().join("objects"), server.data().join("moved"));
    std::fs::rename(&objects, &moved).expect("a rename");
    std::fs::write(&objects, "no directory").expect("a file");
    // The helper of the client panics on server errors, so the request is sent directly.
    let request = root.request(Method::PUT, &one).json(&json!({"avatar": ""}));
    assert_eq!(request.send().await.expect("a response").status(), 500);
    std::fs::remove_file(&objects).expect("a removal");
    std::fs::rename(&moved, &objects).expect("a rename");
    assert_eq!(root.get(&one).await.expect(200).json()["avatar_url"], Value::Null);
    send(&root, id, "a.png", PNG).await.expect(200);
}

async fn update_project_rejects_invalid_avatars(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for (name, bytes) in [
        ("a.svg", b"<svg/>".as_slice()),
        ("a.png", b"<svg/>"),
        ("a.gif", PNG),
        ("a", PNG),
        ("a.png", b""),
        ("a.png", &[PNG, &[0; 200 << 10]].concat()),
    ] {
        send(&root, id, name, bytes).await.expect(400);
    }
    root.put(&format!("/projects/{id}"), json!({"avatar": "text"})).await.expect(400);
    let unchanged = root.get(&format!("/projects/{id}")).await.expect(200).json();
    assert_eq!(unchanged["avatar_url"], Value::Null);
    // The other attributes of these requests did not change either.
    assert_ne!(unchanged["description"], "Brass");
    let dev = server.create_user("dev").await;
    server.insert_member(id, dev.id, AccessLevel::Developer).await;
    send(&dev.client, id, "a.png", PNG).await.expect(403);
    send(&server.anonymous(), id, "a.png", PNG).await.expect(401);
}

on_every_database![
    removed_avatar_is_not_listed_even_if_its_object_remains,
    avatar_can_be_set_replaced_and_removed,
    update_project_rejects_invalid_avatars,
];
