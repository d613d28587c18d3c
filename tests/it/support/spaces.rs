//! Groups, projects and their members. Functions use the API; methods of the server bypass it.

use git::{Repository, RepositoryId};
use sea_orm::{ActiveModelTrait, ActiveValue::Set};
use serde_json::{Value, json};
use storage::entities::{
    AccessLevel, Visibility, fold, group_shares, members, namespace_ancestors, namespaces, now, projects,
};

use super::users::TestUser;
use super::{Client, TestServer};

impl TestServer {
    /// Creates a user for each role of a group, named after the role.
    pub async fn create_member_per_role(&self, owner: &Client, group: i64) -> Vec<(i64, TestUser)> {
        let mut members_by_role = Vec::new();
        for (level, name) in [(10, "guest"), (20, "reporter"), (30, "developer"), (40, "maintainer"), (50, "owner")] {
            let user = self.create_user(name).await;
            join(owner, &format!("/groups/{group}"), user.id, level).await;
            members_by_role.push((level, user));
        }
        members_by_role
    }

    /// Returns the ID of the group with this path and creates missing groups.
    pub async fn insert_group(&self, full_path: &str, visibility: Visibility) -> i64 {
        let db = self.backend.database.write();
        let mut parent = None;
        let mut full_path_so_far = String::new();
        for path in full_path.split('/') {
            if !full_path_so_far.is_empty() {
                full_path_so_far.push('/');
            }
            full_path_so_far.push_str(path);
            let found = namespaces::by_full_path(db, &full_path_so_far).await.expect("a lookup");
            if let Some(found) = found {
                parent = Some(found.id);
                continue;
            }
            let row = namespaces::ActiveModel {
                kind: Set(namespaces::NamespaceKind::Group),
                parent_id: Set(parent),
                name: Set(path.to_owned()),
                name_key: Set(fold(path)),
                path: Set(path.to_owned()),
                full_path: Set(full_path_so_far.clone()),
                full_path_key: Set(fold(&full_path_so_far)),
                description: Set(String::new()),
                visibility: Set(visibility),
                created_at: Set(now()),
                updated_at: Set(now()),
                ..Default::default()
            };
            let row = row.insert(db).await.expect("a group");
            namespace_ancestors::insert(db, row.id, parent).await.expect("ancestors");
            parent = Some(row.id);
        }
        parent.expect("a group")
    }

    /// Creates a project with an empty repository whose HEAD is `main`.
    pub async fn insert_project(&self, namespace_id: i64, path: &str, visibility: Visibility) -> projects::Model {
        let row = projects::ActiveModel {
            namespace_id: Set(namespace_id),
            name: Set(path.to_owned()),
            name_key: Set(fold(path)),
            path: Set(path.to_owned()),
            path_key: Set(fold(path)),
            visibility: Set(visibility),
            last_activity_at: Set(now()),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let row = row.insert(self.backend.database.write()).await.expect("a project");
        let id = RepositoryId::of_project(row.id);
        let repositories = &self.backend.repositories;
        repositories.create(&id, "main").await.expect("a repository");
        row
    }

    /// Creates a project like [`Self::insert_project`], and missing public parent groups.
    pub async fn insert_project_at(&self, full_path: &str, visibility: Visibility) -> projects::Model {
        let (parent, path) = full_path.rsplit_once('/').expect("a full path");
        let group = self.insert_group(parent, Visibility::Public).await;
        self.insert_project(group, path, visibility).await
    }

    /// Reloads the row of a project.
    pub async fn reload(&self, project: &projects::Model) -> projects::Model {
        let found = projects::by_reference(self.backend.database.read(), &project.id.to_string()).await;
        found.expect("a lookup").expect("the project").0
    }

    /// Returns the repository of a project.
    pub fn repository(&self, project_id: i64) -> Repository {
        let id = RepositoryId::of_project(project_id);
        self.backend.repositories.repository(&id)
    }

    /// Adds a user as a member of a project.
    pub async fn insert_member(&self, project_id: i64, user_id: i64, level: AccessLevel) {
        let row = members::ActiveModel { project_id: Set(Some(project_id)), ..membership(user_id, level) };
        row.insert(self.backend.database.write()).await.expect("a member");
    }

    /// Adds a user as an owner of a group.
    pub async fn insert_owner(&self, namespace_id: i64, user_id: i64) {
        let row =
            members::ActiveModel { namespace_id: Set(Some(namespace_id)), ..membership(user_id, AccessLevel::Owner) };
        row.insert(self.backend.database.write()).await.expect("a member");
    }

    /// Returns the personal namespace of a user.
    pub async fn personal_namespace(&self, user_id: i64) -> namespaces::Model {
        let found = namespaces::of_user(self.backend.database.read(), user_id).await;
        found.expect("the database").expect("a namespace")
    }
}

/// Returns a membership row without its namespace or project.
pub fn membership(user_id: i64, level: AccessLevel) -> members::ActiveModel {
    members::ActiveModel {
        user_id: Set(user_id),
        access_level: Set(level),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    }
}

/// Returns a row that shares a group with another group.
pub fn group_share(group: i64, with_group: i64, level: AccessLevel) -> group_shares::ActiveModel {
    group_shares::ActiveModel {
        namespace_id: Set(group),
        with_group_id: Set(with_group),
        access_level: Set(level),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    }
}

/// Creates a group and returns its ID; `extra` overrides attributes.
pub async fn group(client: &Client, path: &str, extra: Value) -> i64 {
    let mut body = json!({ "name": path, "path": path });
    merge(&mut body, extra);
    id(&client.post("/groups", body).await.expect(201).json())
}

/// Creates a project and returns its ID; `extra` overrides attributes.
pub async fn project(client: &Client, path: &str, extra: Value) -> i64 {
    let mut body = json!({ "path": path });
    merge(&mut body, extra);
    id(&client.post("/projects", body).await.expect(201).json())
}

/// Adds a user as a member of `/groups/:id` or `/projects/:id`.
pub async fn join(client: &Client, parent: &str, user_id: i64, level: i64) {
    let body = json!({ "user_id": user_id, "access_level": level });
    client.post(&format!("{parent}/members"), body).await.expect(201);
}

/// Returns the `id` of a JSON object.
pub fn id(value: &Value) -> i64 {
    value["id"].as_i64().expect("an id")
}

fn merge(body: &mut Value, extra: Value) {
    let Value::Object(extra) = extra else { return };
    body.as_object_mut().expect("an object").extend(extra);
}
