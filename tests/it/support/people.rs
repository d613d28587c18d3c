//! Users, tokens and what belongs to them, made behind the API.

use chrono::NaiveDate;
use holdfast::entities::access_tokens::Kind;
use holdfast::entities::{
    AccessLevel, Visibility, access_tokens, fold, members, namespace_ancestors, namespaces, now, projects,
    users,
};
use holdfast::git::RepositoryId;
use holdfast::jobs;
use holdfast::services::access_tokens::{NewToken, create as create_token};
use holdfast::services::users::{NewUser, create as create_user};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};

use super::{Client, TestServer};

/// The password of every user made here.
pub const PASSWORD: &str = "correct horse battery";

/// A user and a caller with their token.
pub struct Person {
    /// The row as it was made.
    pub row: users::Model,
    /// The id.
    pub id: i64,
    /// A caller with an `api` token of theirs.
    pub client: Client,
}

impl TestServer {
    /// A user with a token for everything but sudo.
    pub async fn person(&self, username: &str) -> Person {
        let new = NewUser {
            username: username.to_owned(),
            name: format!("Name of {username}"),
            email: format!("{username}@example.com"),
            password: None,
            admin: false,
        };
        let row = create_user(&self.backend, new).await.expect("a user");
        let token = self.token_of(row.id, &["api"]).await;
        Person {
            id: row.id,
            client: self.with_token(&token),
            row,
        }
    }

    /// Gives a user the usual password.
    pub async fn give_password(&self, person: &Person) {
        let hash = holdfast::services::users::hash_password(PASSWORD.to_owned())
            .await
            .expect("a hash");
        let mut row = person.row.clone().into_active_model();
        row.password_hash = Set(Some(hash));
        row.update(self.backend.database.write()).await.expect("a row");
    }

    /// A personal token.
    pub async fn token_of(&self, user_id: i64, scopes: &[&str]) -> String {
        self.token_until(user_id, scopes, None).await
    }

    /// A personal token that ends.
    pub async fn token_until(&self, user_id: i64, scopes: &[&str], last: Option<NaiveDate>) -> String {
        let new = NewToken {
            user_id,
            name: "of a test".to_owned(),
            kind: Kind::Personal,
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            expires_at: last,
            created_by_id: None,
            secret: None,
        };
        create_token(&self.backend, new).await.expect("a token").1
    }

    /// The row of a token.
    pub async fn token_row(&self, secret: &str) -> access_tokens::Model {
        let digest = holdfast::secrets::digest(secret);
        let found = access_tokens::by_digest(self.backend.database.read(), &digest).await;
        found.expect("the database").expect("a token").0
    }

    /// A private group at the top level.
    pub async fn bare_group(&self, path: &str) -> i64 {
        let row = namespaces::ActiveModel {
            kind: Set(namespaces::Kind::Group),
            name: Set(path.to_owned()),
            name_key: Set(fold(path)),
            path: Set(path.to_owned()),
            full_path: Set(path.to_owned()),
            full_path_key: Set(fold(path)),
            description: Set(String::new()),
            visibility: Set(Visibility::Private),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let id = row
            .insert(self.backend.database.write())
            .await
            .expect("a group")
            .id;
        namespace_ancestors::insert(self.backend.database.write(), id, None)
            .await
            .expect("an ancestor");
        id
    }

    /// Makes a user an owner of a group.
    pub async fn own(&self, namespace_id: i64, user_id: i64) {
        let row = members::ActiveModel {
            user_id: Set(user_id),
            namespace_id: Set(Some(namespace_id)),
            access_level: Set(AccessLevel::Owner),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        row.insert(self.backend.database.write()).await.expect("a member");
    }

    /// A project with an empty repository.
    pub async fn bare_project(&self, namespace_id: i64, path: &str) -> i64 {
        let row = projects::ActiveModel {
            namespace_id: Set(namespace_id),
            name: Set(path.to_owned()),
            name_key: Set(fold(path)),
            path: Set(path.to_owned()),
            path_key: Set(fold(path)),
            visibility: Set(Visibility::Public),
            last_activity_at: Set(now()),
            created_at: Set(now()),
            updated_at: Set(now()),
            ..Default::default()
        };
        let id = row
            .insert(self.backend.database.write())
            .await
            .expect("a project")
            .id;
        let repository = RepositoryId::of_project(id);
        self.backend
            .repositories
            .create(&repository, "main")
            .await
            .expect("a repository");
        id
    }

    /// The id of a personal namespace.
    pub async fn personal_namespace(&self, user_id: i64) -> namespaces::Model {
        let found = namespaces::of_user(self.backend.database.read(), user_id).await;
        found.expect("the database").expect("a namespace")
    }

    /// Runs all jobs that wait.
    pub async fn finish_jobs(&self) {
        let idle = async {
            loop {
                let backlog = jobs::backlog(self.backend.database.read())
                    .await
                    .expect("a backlog");
                if backlog.waiting + backlog.running == 0 {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let registry = jobs::registry(&self.backend);
        jobs::Runner::new(self.backend.database.clone(), registry, jobs::Options::default())
            .run(idle)
            .await;
    }

    /// Whether a user's row is there at all, in sight or not.
    pub async fn has_user_row(&self, id: i64) -> bool {
        let found = users::Entity::find_by_id(id)
            .one(self.backend.database.read())
            .await;
        found.expect("the database").is_some()
    }
}
