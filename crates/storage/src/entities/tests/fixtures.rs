//! Helpers that create rows for tests.

use chrono::NaiveDate;
use sea_orm::{ActiveValue::Set, DbErr, EntityTrait};

use crate::{
    database::Database,
    entities::{
        AccessLevel, Visibility, fold, group_shares, members, namespace_ancestors, namespaces, now,
        project_shares, projects, users,
    },
};

/// The current date in tests.
pub(crate) fn today() -> NaiveDate {
    NaiveDate::from_ymd_opt(2026, 11, 21).unwrap()
}

/// A user with their personal namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Person {
    pub(crate) id: i64,
    pub(crate) personal: i64,
}

/// Creates rows in a database.
pub(crate) struct World<'a>(&'a Database);

pub(crate) fn user_row(username: &str) -> users::ActiveModel {
    let at = now();
    users::ActiveModel {
        username: Set(username.to_owned()),
        username_key: Set(fold(username)),
        name: Set(username.to_owned()),
        email: Set(format!("{username}@example.com")),
        email_key: Set(fold(&format!("{username}@example.com"))),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}

impl<'a> World<'a> {
    pub(crate) async fn new(db: &'a Database) -> Self {
        Self(db)
    }

    pub(crate) async fn user(&self, username: &str) -> Person {
        let id = users::Entity::insert(user_row(username))
            .exec(self.0.write())
            .await
            .unwrap()
            .last_insert_id;
        let row = namespaces::ActiveModel {
            kind: Set(namespaces::NamespaceKind::User),
            owner_id: Set(Some(id)),
            ..namespace_row(username, username, Visibility::Public)
        };
        Person {
            id,
            personal: self.namespace(row, None).await.unwrap(),
        }
    }

    /// Creates a group by its full path, whose parent must exist.
    pub(crate) async fn group(&self, full_path: &str, visibility: Visibility) -> i64 {
        self.try_group(full_path, visibility).await.unwrap()
    }

    pub(crate) async fn try_group(&self, full_path: &str, visibility: Visibility) -> Result<i64, DbErr> {
        let (parent, path) = match full_path.rsplit_once('/') {
            Some((parent, path)) => {
                let parent = namespaces::by_full_path(self.0.read(), parent)
                    .await
                    .unwrap()
                    .unwrap();
                (Some(parent.id), path)
            }
            None => (None, full_path),
        };
        let row = namespaces::ActiveModel {
            kind: Set(namespaces::NamespaceKind::Group),
            parent_id: Set(parent),
            ..namespace_row(path, full_path, visibility)
        };
        self.namespace(row, parent).await
    }

    async fn namespace(&self, row: namespaces::ActiveModel, parent: Option<i64>) -> Result<i64, DbErr> {
        self.0
            .transaction(async |tx| {
                let id = namespaces::Entity::insert(row).exec(tx).await?.last_insert_id;
                namespace_ancestors::insert(tx, id, parent).await?;
                Ok(id)
            })
            .await
    }

    /// Creates a private project in the namespace with this path.
    pub(crate) async fn project(&self, namespace: &str, name: &str) -> i64 {
        let namespace = namespaces::by_full_path(self.0.read(), namespace)
            .await
            .unwrap()
            .unwrap();
        self.try_project(namespace.id, name).await.unwrap()
    }

    pub(crate) async fn try_project(&self, namespace_id: i64, name: &str) -> Result<i64, DbErr> {
        let at = now();
        let row = projects::ActiveModel {
            namespace_id: Set(namespace_id),
            name: Set(name.to_owned()),
            name_key: Set(fold(name)),
            path: Set(name.to_owned()),
            path_key: Set(fold(name)),
            visibility: Set(Visibility::Private),
            last_activity_at: Set(at),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        };
        Ok(projects::Entity::insert(row)
            .exec(self.0.write())
            .await?
            .last_insert_id)
    }

    pub(crate) async fn visibility(&self, project: i64, visibility: Visibility) {
        let row = projects::ActiveModel {
            id: Set(project),
            visibility: Set(visibility),
            ..Default::default()
        };
        projects::Entity::update(row).exec(self.0.write()).await.unwrap();
    }

    pub(crate) async fn member(&self, source: members::MembershipSource, user: Person, level: AccessLevel) {
        self.member_until(source, user, level, None).await;
    }

    pub(crate) async fn member_until(
        &self,
        source: members::MembershipSource,
        user: Person,
        level: AccessLevel,
        expires_at: Option<NaiveDate>,
    ) {
        let (namespace_id, project_id) = match source {
            members::MembershipSource::Group(id) => (Some(id), None),
            members::MembershipSource::Project(id) => (None, Some(id)),
        };
        let at = now();
        let row = members::ActiveModel {
            user_id: Set(user.id),
            namespace_id: Set(namespace_id),
            project_id: Set(project_id),
            access_level: Set(level),
            expires_at: Set(expires_at),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        };
        members::Entity::insert(row).exec(self.0.write()).await.unwrap();
    }

    pub(crate) async fn share_group(
        &self,
        group: i64,
        with: i64,
        level: AccessLevel,
        expires_at: Option<NaiveDate>,
    ) {
        let at = now();
        let row = group_shares::ActiveModel {
            namespace_id: Set(group),
            with_group_id: Set(with),
            access_level: Set(level),
            expires_at: Set(expires_at),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        };
        group_shares::Entity::insert(row)
            .exec(self.0.write())
            .await
            .unwrap();
    }

    pub(crate) async fn share_project(
        &self,
        project: i64,
        with: i64,
        level: AccessLevel,
        expires_at: Option<NaiveDate>,
    ) {
        let at = now();
        let row = project_shares::ActiveModel {
            project_id: Set(project),
            group_id: Set(with),
            access_level: Set(level),
            expires_at: Set(expires_at),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        };
        project_shares::Entity::insert(row)
            .exec(self.0.write())
            .await
            .unwrap();
    }
}

fn namespace_row(path: &str, full_path: &str, visibility: Visibility) -> namespaces::ActiveModel {
    let at = now();
    namespaces::ActiveModel {
        name: Set(path.to_owned()),
        name_key: Set(fold(path)),
        path: Set(path.to_owned()),
        full_path: Set(full_path.to_owned()),
        full_path_key: Set(fold(full_path)),
        visibility: Set(visibility),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}
