//! `DELETE /users/:id`.

use domain::accounts::jobs::delete_user::DeleteUser;
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use domain::lifecycle::deletion::users;
use domain::spaces::groups::{self, GroupSettings, NewGroup};
use futures_util::future::join_all;
use git::RepositoryId;
use reqwest::Method;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DbBackend, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect,
};
use serde_json::json;
use storage::entities::{
    AccessLevel, Visibility, commit_comments, members, namespace_ancestors, namespaces, now, projects,
};

use crate::support::spaces::{membership, project};
use crate::support::{TestServer, on_every_database};

async fn comment(server: &TestServer, project_id: i64, author_id: i64) -> i64 {
    let row = commit_comments::ActiveModel {
        project_id: Set(project_id),
        sha: Set("0".repeat(40)),
        author_id: Set(Some(author_id)),
        note: Set("well done".to_owned()),
        created_at: Set(now()),
        ..Default::default()
    };
    row.insert(server.backend.database.write()).await.expect("a comment").id
}

async fn author(server: &TestServer, comment: i64) -> Option<Option<i64>> {
    let found = commit_comments::Entity::find_by_id(comment).one(server.backend.database.read()).await;
    found.expect("the database").map(|comment| comment.author_id)
}

async fn deleted_user_is_hidden_at_once_and_removed_by_job(server: TestServer) {
    let starred = project(&server.root(), "starred", json!({"visibility": "public"})).await;
    let ada = server.create_user("ada").await;
    ada.client.post(&format!("/projects/{starred}/star"), json!({})).await.expect(201);
    let space = server.personal_namespace(ada.id).await;
    let project = server.insert_project(space.id, "engine", Visibility::Public).await.id;
    let path = format!("/users/{}", ada.id);
    let before = server.statements();
    let deleted = server.root().delete(&path).await.expect(204);
    assert!(deleted.body.is_empty());
    let is_deletion = |sql: &String| sql.starts_with("DELETE FROM \"project_stars\"");
    assert!(!server.statement_texts(before).iter().any(is_deletion), "the request deletes all stars");
    assert_eq!(server.root().get(&path).await.message(), "404 User Not Found");
    assert_eq!(server.root().get("/users?username=ada").await.json(), json!([]));
    assert_eq!(server.root().get("/user?sudo=ada").await.status, 404);
    assert_eq!(ada.client.get("/user").await.status, 401);
    assert_eq!(server.root().delete(&path).await.status, 404);
    server.finish_jobs().await;
    assert!(!server.has_user_row(ada.id).await);
    let shown = server.root().get(&format!("/projects/{starred}")).await.expect(200).json();
    assert_eq!(shown["star_count"], 0);
    let read = server.backend.database.read();
    assert!(namespaces::Entity::find_by_id(space.id).one(read).await.expect("a read").is_none());
    assert!(projects::Entity::find_by_id(project).one(read).await.expect("a read").is_none());
    let repository = RepositoryId::of_project(project);
    assert!(!server.backend.repositories.exists(&repository).await.expect("a look"));
    server.create_user("ada").await;
}

async fn interrupted_user_deletion_is_completed_by_retry(server: TestServer) {
    let ada = server.create_user("ada").await;
    let space = server.personal_namespace(ada.id).await;
    let (first, second) = (
        server.insert_project(space.id, "one", Visibility::Public).await.id,
        server.insert_project(space.id, "two", Visibility::Public).await.id,
    );
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    // State after a kill: the files of one project and the row of another are removed.
    server.backend.repositories.remove(&RepositoryId::of_project(first)).await.expect("a removal");
    projects::Entity::delete_by_id(second).exec(server.backend.database.write()).await.expect("a removal");
    server.finish_jobs().await;
    assert!(!server.has_user_row(ada.id).await);
    let again = DeleteUser { user_id: ada.id, hard: false, groups: vec![] };
    users::run_job(server.backend.clone(), again).await.expect("a second run");
}

async fn delete_user_job_ignores_users_not_marked_for_deletion(server: TestServer) {
    let ada = server.create_user("ada").await;
    let space = server.personal_namespace(ada.id).await;
    let job = DeleteUser { user_id: ada.id, hard: true, groups: vec![] };
    users::run_job(server.backend.clone(), job).await.expect("a run");
    assert!(server.has_user_row(ada.id).await);
    assert_eq!(server.personal_namespace(ada.id).await.id, space.id);
}

async fn delete_sole_group_owner_requires_hard_delete(server: TestServer) {
    let ada = server.create_user("ada").await;
    let group = server.insert_group("tools", Visibility::Private).await;
    let project = server.insert_project(group, "hammer", Visibility::Public).await.id;
    server.insert_owner(group, ada.id).await;
    let path = format!("/users/{}", ada.id);
    let rejected = server.root().delete(&path).await.expect(409);
    assert_eq!(rejected.message(), "User cannot be removed while is the sole-owner of a group");
    ada.client.get("/user").await.expect(200);
    server.root().delete(&format!("{path}?hard_delete=true")).await.expect(204);
    server.finish_jobs().await;
    let read = server.backend.database.read();
    assert!(namespaces::Entity::find_by_id(group).one(read).await.expect("a read").is_none());
    assert!(projects::Entity::find_by_id(project).one(read).await.expect("a read").is_none());
}

async fn blocked_co_owner_does_not_allow_deletion_of_owner(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let group = server.insert_group("tools", Visibility::Private).await;
    server.insert_owner(group, ada.id).await;
    server.insert_owner(group, bob.id).await;
    let root = server.root();
    root.post(&format!("/users/{}/block", bob.id), json!({})).await.expect(201);
    let path = format!("/users/{}", ada.id);
    let rejected = root.delete(&path).await.expect(409);
    assert_eq!(rejected.message(), "User cannot be removed while is the sole-owner of a group");
    // The blocked user is still an Owner, so the group is not deleted.
    root.delete(&format!("{path}?hard_delete=true")).await.expect(204);
    server.finish_jobs().await;
    let read = server.backend.database.read();
    assert!(namespaces::Entity::find_by_id(group).one(read).await.expect("a read").is_some());
}

async fn concurrent_deletions_of_owners_leave_one_owner(server: TestServer) {
    let root = server.root();
    for round in 0..4 {
        let group = server.insert_group(&format!("tools-{round}"), Visibility::Private).await;
        let mut paths = Vec::new();
        for name in ["ada", "bob"] {
            let user = server.create_user(&format!("{name}-{round}")).await;
            server.insert_owner(group, user.id).await;
            paths.push(format!("/users/{}", user.id));
        }
        let responses = join_all(paths.iter().map(|path| root.delete(path))).await;
        let mut statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 409], "round {round}");
    }
}

async fn deleted_caller_cannot_create_group(server: TestServer) {
    let ada = server.create_user("ada").await;
    let caller = Caller::user(ada.row.clone());
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    let new = NewGroup {
        name: "Tools".to_owned(),
        path: "tools".to_owned(),
        parent_id: None,
        visibility: None,
        settings: GroupSettings::default(),
    };
    let refused = groups::create(&server.backend, &caller, new).await;
    assert!(matches!(refused, Err(Error::Unauthorized)), "{:?}", refused.err());
    let found = namespaces::by_full_path(server.backend.database.read(), "tools").await.expect("a read");
    assert!(found.is_none());
}

/// Inserts this number of groups of which a user is the only Owner.
async fn insert_owned_groups(server: &TestServer, user_id: i64, count: usize) {
    let db = server.backend.database.write();
    let names: Vec<String> = (0..count).map(|number| format!("group-{number}")).collect();
    for names in names.chunks(1000) {
        let rows = names.iter().map(|name| namespaces::ActiveModel {
            kind: Set(namespaces::NamespaceKind::Group),
            name: Set(name.clone()),
            name_key: Set(name.clone()),
            path: Set(name.clone()),
            path_key: Set(name.clone()),
            full_path: Set(name.clone()),
            full_path_key: Set(name.clone()),
            description: Set(String::new()),
            visibility: Set(Visibility::Private),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        });
        namespaces::Entity::insert_many(rows).exec_without_returning(db).await.expect("groups");
    }
    let groups: Vec<i64> = namespaces::Entity::find()
        .select_only()
        .column(namespaces::Column::Id)
        .filter(namespaces::Column::Kind.eq(namespaces::NamespaceKind::Group))
        .into_tuple()
        .all(db)
        .await
        .expect("groups");
    for groups in groups.chunks(1000) {
        let rows = groups.iter().map(|group| members::ActiveModel {
            namespace_id: Set(Some(*group)),
            ..membership(user_id, AccessLevel::Owner)
        });
        members::Entity::insert_many(rows).exec_without_returning(db).await.expect("members");
        let rows = groups.iter().map(|group| namespace_ancestors::ActiveModel {
            namespace_id: Set(*group),
            ancestor_id: Set(*group),
            depth: Set(0),
            ..Default::default()
        });
        namespace_ancestors::Entity::insert_many(rows).exec_without_returning(db).await.expect("ancestors");
    }
}

async fn owner_of_very_many_groups_can_be_deleted(server: TestServer) {
    // SQLite allows 32,766 parameters in a statement, and PostgreSQL 65,535. More groups take too much time.
    if server.backend.database.backend() == DbBackend::Postgres {
        return;
    }
    let ada = server.create_user("ada").await;
    insert_owned_groups(&server, ada.id, 33_000).await;
    let path = format!("/users/{}", ada.id);
    server.root().delete(&path).await.expect(409);
    server.root().delete(&format!("{path}?hard_delete=true")).await.expect(204);
    let visible = namespaces::not_deleted().filter(namespaces::Column::Kind.eq(namespaces::NamespaceKind::Group));
    assert_eq!(visible.count(server.backend.database.read()).await.expect("a count"), 0);
}

async fn hard_delete_keeps_groups_with_another_owner(server: TestServer) {
    let (ada, bob) = (server.create_user("ada").await, server.create_user("bob").await);
    let group = server.insert_group("tools", Visibility::Private).await;
    server.insert_owner(group, ada.id).await;
    server.insert_owner(group, bob.id).await;
    server.root().delete(&format!("/users/{}?hard_delete=true", ada.id)).await.expect(204);
    server.finish_jobs().await;
    let read = server.backend.database.read();
    assert!(namespaces::Entity::find_by_id(group).one(read).await.expect("a read").is_some());
    assert_eq!(members::Entity::find().count(read).await.expect("a count"), 1);
}

async fn delete_user_keeps_comments_unless_hard_delete(server: TestServer) {
    let group = server.insert_group("tools", Visibility::Private).await;
    let project = server.insert_project(group, "hammer", Visibility::Public).await.id;
    for (name, hard, left) in [("ada", false, Some(None)), ("bob", true, None)] {
        let user = server.create_user(name).await;
        let comment = comment(&server, project, user.id).await;
        server.root().delete(&format!("/users/{}?hard_delete={hard}", user.id)).await.expect(204);
        server.finish_jobs().await;
        assert_eq!(author(&server, comment).await, left, "{name}");
    }
}

async fn delete_last_administrator_returns_409(server: TestServer) {
    let rejected = server.root().delete("/users/1?hard_delete=true").await.expect(409);
    assert_eq!(rejected.message(), "The last administrator cannot be deleted");
    server.root().get("/user").await.expect(200);
}

async fn delete_user_respects_if_unmodified_since(server: TestServer) {
    let ada = server.create_user("ada").await;
    let path = format!("/users/{}", ada.id);
    let delete = |date: &str| {
        let root = server.root().header("If-Unmodified-Since", date);
        let path = path.clone();
        async move { root.send(root.request(Method::DELETE, &path)).await }
    };
    let rejected = delete("Sat, 01 Jan 2000 00:00:00 GMT").await.expect(412);
    assert_eq!(rejected.message(), "412 Precondition Failed");
    assert_eq!(server.root().delete(&format!("{path}?hard_delete=perhaps")).await.status, 400);
    delete("no date at all").await.expect(204);
}

on_every_database![
    deleted_user_is_hidden_at_once_and_removed_by_job,
    interrupted_user_deletion_is_completed_by_retry,
    delete_user_job_ignores_users_not_marked_for_deletion,
    delete_sole_group_owner_requires_hard_delete,
    blocked_co_owner_does_not_allow_deletion_of_owner,
    concurrent_deletions_of_owners_leave_one_owner,
    deleted_caller_cannot_create_group,
    owner_of_very_many_groups_can_be_deleted,
    hard_delete_keeps_groups_with_another_owner,
    delete_user_keeps_comments_unless_hard_delete,
    delete_last_administrator_returns_409,
    delete_user_respects_if_unmodified_since,
];
