//! Users, groups and projects for tests about where things lie and who may see them.

use holdfast::entities::access_tokens::Kind;
use holdfast::services::access_tokens::{self, NewToken};
use holdfast::services::users::{self, NewUser};
use serde_json::{Value, json};

use super::{Client, TestServer};

/// A user with a token.
pub struct Person {
    /// The user's id.
    pub id: i64,
    /// The user as a caller.
    pub client: Client,
}

impl TestServer {
    /// Makes a user who has a token for everything.
    pub async fn person(&self, username: &str) -> Person {
        let new = NewUser {
            username: username.to_owned(),
            name: format!("{username} Lovelace"),
            email: format!("{username}@example.com"),
            password: None,
            admin: false,
        };
        let user = users::create(&self.backend, new).await.expect("a user");
        let new = NewToken {
            user_id: user.id,
            name: "test".to_owned(),
            kind: Kind::Personal,
            scopes: vec!["api".to_owned()],
            expires_at: None,
            created_by_id: None,
            secret: None,
        };
        let (_, token) = access_tokens::create(&self.backend, new).await.expect("a token");
        Person {
            id: user.id,
            client: self.with_token(&token),
        }
    }

    /// Makes people with each of the roles on a group, named after them.
    pub async fn cast(&self, owner: &Client, group: i64) -> Vec<(i64, Person)> {
        let mut cast = Vec::new();
        for (level, name) in [
            (10, "guest"),
            (20, "reporter"),
            (30, "developer"),
            (40, "maintainer"),
            (50, "owner"),
        ] {
            let person = self.person(name).await;
            join(owner, &format!("/groups/{group}"), person.id, level).await;
            cast.push((level, person));
        }
        cast
    }
}

/// Makes a group; `extra` adds and replaces attributes.
pub async fn group(client: &Client, path: &str, extra: Value) -> i64 {
    let mut body = json!({ "name": path, "path": path });
    merge(&mut body, extra);
    id(&client.post("/groups", body).await.expect(201).json())
}

/// Makes a project; `extra` adds and replaces attributes.
pub async fn project(client: &Client, path: &str, extra: Value) -> i64 {
    let mut body = json!({ "path": path });
    merge(&mut body, extra);
    id(&client.post("/projects", body).await.expect(201).json())
}

/// Makes a user a member of `/groups/:id` or `/projects/:id`.
pub async fn join(client: &Client, place: &str, user_id: i64, level: i64) {
    let body = json!({ "user_id": user_id, "access_level": level });
    client.post(&format!("{place}/members"), body).await.expect(201);
}

/// The id in an answer.
pub fn id(value: &Value) -> i64 {
    value["id"].as_i64().expect("an id")
}

fn merge(body: &mut Value, extra: Value) {
    let Value::Object(extra) = extra else { return };
    body.as_object_mut().expect("an object").extend(extra);
}
