//! Avatars of users.

use domain::accounts::avatars::{self, AvatarImage, AvatarOwner, HasAvatar};
use domain::accounts::uploads::UploadedFile;
use domain::kernel::Backend;
use domain::kernel::error::{Error, Result};
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::EntityTrait;
use serde_json::json;
use storage::entities::users;
use tokio::io::{AsyncSeekExt, AsyncWriteExt};

use crate::support::{ApiResponse, Client, TestServer, on_every_database};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n, as far as anybody looks";

async fn send(client: &Client, method: Method, path: &str, form: Form, name: &str, bytes: &[u8]) -> ApiResponse {
    let form = form.part("avatar", Part::bytes(bytes.to_vec()).file_name(name.to_owned()));
    client.send(client.request(method, path).multipart(form)).await
}

async fn user_avatar_can_be_created_replaced_and_removed(server: TestServer) {
    let root = server.root();
    let form = Form::new()
        .text("username", "ada")
        .text("name", "Ada")
        .text("email", "ada@example.com")
        .text("force_random_password", "true");
    let created = send(&root, Method::POST, "/users", form, "me.png", PNG).await.expect(201).json();
    let address = |name: &str| format!("{}/uploads/-/system/user/avatar/{}/{name}", server.base, created["id"]);
    assert_eq!((&created["avatar_url"], &created["username"]), (&json!(address("me.png")), &json!("ada")));
    let path = |name: &str| address(name).replace(&server.base, "/");
    let seen = server.anonymous().get(&path("me.png")).await.expect(200);
    assert_eq!((seen.header("content-type"), &seen.body[..]), ("image/png", PNG));
    assert!(seen.header("content-security-policy").contains("sandbox"));
    assert_eq!(seen.header("x-content-type-options"), "nosniff");
    let one = format!("/users/{}", created["id"]);
    let form = Form::new().text("location", "London");
    let jpeg = b"\xff\xd8\xff\xe0".as_slice();
    let changed = send(&root, Method::PUT, &one, form, "b.jpg", jpeg).await.expect(200).json();
    assert_eq!((&changed["avatar_url"], &changed["location"]), (&json!(address("b.jpg")), &json!("London")));
    assert_eq!(server.anonymous().get(&path("b.jpg")).await.expect(200).body, jpeg);
    server.anonymous().get(&path("me.png")).await.expect(404);
    assert_eq!(root.get("/users?username=ada").await.pluck("avatar_url"), [json!(address("b.jpg"))]);
    // An update without `avatar` keeps it.
    assert_eq!(root.put(&one, json!({ "name": "A" })).await.expect(200).json()["avatar_url"], address("b.jpg"));
    let changed = root.put(&one, json!({ "avatar": "" })).await.expect(200).json();
    assert_eq!((&changed["avatar_url"], &changed["name"]), (&json!(address("identicon.svg")), &json!("A")));
    server.anonymous().get(&path("b.jpg")).await.expect(404);
}

async fn delete_user_deletes_avatar(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let one = format!("/users/{}", ada.id);
    send(&root, Method::PUT, &one, Form::new(), "a.png", PNG).await.expect(200);
    let stored = || server.data().join(format!("objects/users/{}/avatar", ada.id)).exists();
    assert!(stored());
    root.delete(&one).await.expect(204);
    server.anonymous().get(&format!("//uploads/-/system/user/avatar/{}/a.png", ada.id)).await.expect(404);
    server.finish_jobs().await;
    assert!(!stored());
}

async fn invalid_avatars_are_rejected_and_updates_require_administrator(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    for (name, bytes) in [
        ("a.svg", b"<svg/>".as_slice()),
        ("a.png", b"<html>"),
        ("a.gif", PNG),
        ("a.png", &[PNG, &[0; 200 << 10]].concat()),
    ] {
        let form = Form::new()
            .text("username", "eve")
            .text("name", "Eve")
            .text("email", "eve@example.com")
            .text("force_random_password", "true");
        let rejected = send(&root, Method::POST, "/users", form, name, bytes).await.expect(400);
        assert!(rejected.json()["message"]["avatar"].is_array(), "{name}");
        send(&root, Method::PUT, &format!("/users/{}", ada.id), Form::new().text("name", "X"), name, bytes)
            .await
            .expect(400);
    }
    assert_eq!(root.get("/users?username=eve").await.expect(200).json(), json!([]));
    assert_eq!(root.get(&format!("/users/{}", ada.id)).await.json()["name"], "Name of ada");
    for (client, status) in [(&server.anonymous(), 401), (&ada.client, 403)] {
        send(client, Method::PUT, &format!("/users/{}", ada.id), Form::new(), "a.png", PNG).await.expect(status);
        send(client, Method::POST, "/users", Form::new(), "a.png", PNG).await.expect(status);
    }
    let avatar = root.get(&format!("/users/{}", ada.id)).await.json()["avatar_url"].clone();
    assert!(avatar.as_str().is_some_and(|url| url.ends_with("/identicon.svg")), "{avatar}");
}

async fn user_without_avatar_has_generated_image(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let path = |id: i64| format!("//uploads/-/system/user/avatar/{id}/identicon.svg");
    let image = server.anonymous().get(&path(ada.id)).await.expect(200);
    assert_eq!(image.header("content-type"), "image/svg+xml");
    assert!(image.header("content-security-policy").contains("sandbox"));
    assert!(image.text().starts_with("<svg ") && image.text().ends_with("</svg>"));
    assert_eq!(server.anonymous().get(&path(ada.id)).await.expect(200).body, image.body);
    assert_ne!(server.anonymous().get(&path(bob.id)).await.expect(200).body, image.body);
    server.anonymous().get(&path(999_999)).await.expect(404);
    // The address of the image remains valid when the user gets an avatar.
    let one = format!("/users/{}", ada.id);
    send(&server.root(), Method::PUT, &one, Form::new(), "a.png", PNG).await.expect(200);
    server.anonymous().get(&path(ada.id)).await.expect(200);
    // Projects and groups have no generated image.
    server.anonymous().get("//uploads/-/system/project/avatar/1/identicon.svg").await.expect(404);
}

async fn image(backend: &Backend) -> Option<AvatarImage> {
    let mut file = tokio::fs::File::from_std(backend.objects.spool().expect("a file"));
    file.write_all(PNG).await.expect("writing");
    file.rewind().await.expect("the start");
    let size = u64::try_from(PNG.len()).expect("a size");
    let picture = UploadedFile { file_name: "a.png".to_owned(), size, file };
    avatars::validate(Some(picture)).await.expect("an image")
}

async fn row(server: &TestServer, id: i64) -> users::Model {
    let found = users::Entity::find_by_id(id).one(server.backend.database.read()).await;
    found.expect("a query").expect("a user")
}

async fn avatar_of_deleted_user_returns_404_and_leaves_no_object(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    let user = row(&server, ada.id).await;
    root.delete(&format!("/users/{}", ada.id)).await.expect(204);
    for _ in 0..2 {
        let result = avatars::set(&server.backend, user.clone(), image(&server.backend).await).await;
        assert!(matches!(result, Err(Error::NotFound(_))), "{result:?}");
        assert!(!server.data().join(format!("objects/users/{}/avatar", ada.id)).exists());
        // The row exists in the first round only.
        server.finish_jobs().await;
    }
}

/// A user whose avatar a concurrent request changes while a request saves it.
struct Contended {
    user: users::Model,
    pending: bool,
}

impl HasAvatar for Contended {
    fn owner(&self) -> AvatarOwner {
        self.user.owner()
    }

    fn file_name(&self) -> Option<&str> {
        self.user.file_name()
    }

    async fn save(self, backend: &Backend, file_name: Option<String>) -> Result<Self> {
        let (pending, stores) = (self.pending, file_name.is_some());
        let mut user = self.user;
        if pending && stores {
            user = avatars::set(backend, user, None).await?;
        }
        user = user.save(backend, file_name).await?;
        if pending && !stores {
            user = avatars::set(backend, user, image(backend).await).await?;
        }
        Ok(Self { user, pending: false })
    }

    async fn reload(self, backend: &Backend) -> Result<Self> {
        let user = self.user.reload(backend).await?;
        Ok(Self { user, pending: self.pending })
    }
}

async fn concurrent_changes_of_avatar_leave_row_and_object_consistent(server: TestServer) {
    let backend = &server.backend;
    let id = server.create_user("ada").await.id;
    avatars::set(backend, row(&server, id).await, image(backend).await).await.expect("an avatar");
    for stores in [true, false] {
        let contended = Contended { user: row(&server, id).await, pending: true };
        let picture = if stores { image(backend).await } else { None };
        let changed = avatars::set(backend, contended, picture).await.expect("a change");
        let stored = server.data().join(format!("objects/users/{id}/avatar")).exists();
        let named = row(&server, id).await.avatar.is_some();
        assert_eq!((named, stored, changed.user.avatar.is_some()), (stores, stores, stores));
    }
}

on_every_database![
    avatar_of_deleted_user_returns_404_and_leaves_no_object,
    concurrent_changes_of_avatar_leave_row_and_object_consistent,
    user_avatar_can_be_created_replaced_and_removed,
    delete_user_deletes_avatar,
    invalid_avatars_are_rejected_and_updates_require_administrator,
    user_without_avatar_has_generated_image,
];
