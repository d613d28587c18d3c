//! Users, groups and projects for tests about where things lie and who may see them.

use serde_json::{Value, json};

use super::people::Person;
use super::{Client, TestServer};

impl TestServer {
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
