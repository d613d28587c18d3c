//! Users and their tokens, made behind the API.

use std::time::Duration;

use chrono::NaiveDate;
use domain::accounts::users::{NewUser, create as create_user};
use domain::identity::access_tokens::{NewToken, create as create_token};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use storage::entities::access_tokens::Kind;
use storage::entities::{access_tokens, users};
use storage::jobs;

use super::{Client, TestServer};

/// The password of whoever was given one here.
pub const PASSWORD: &str = "correct horse battery";

/// A user and a caller with their token.
pub struct Person {
    /// The row as it was made.
    pub row: users::Model,
    /// The id.
    pub id: i64,
    /// A token of theirs.
    pub token: String,
    /// A caller with that token.
    pub client: Client,
}

impl TestServer {
    /// A user with a token for everything but sudo.
    pub async fn person(&self, username: &str) -> Person {
        self.person_with(username, &["api"]).await
    }

    /// A user with a token of these scopes.
    pub async fn person_with(&self, username: &str, scopes: &[&str]) -> Person {
        let new = NewUser {
            username: username.to_owned(),
            name: format!("Name of {username}"),
            email: format!("{username}@example.com"),
            password: None,
            admin: false,
        };
        let row = create_user(&self.backend, new).await.expect("a user");
        let token = self.token_of(row.id, scopes).await;
        Person { id: row.id, client: self.with_token(&token), token, row }
    }

    /// Gives a user the usual password.
    pub async fn give_password(&self, person: &Person) {
        let hash = domain::accounts::users::hash_password(PASSWORD.to_owned()).await.expect("a hash");
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
        let digest = domain::secrets::digest(secret);
        let found = access_tokens::by_digest(self.backend.database.read(), &digest).await;
        found.expect("the database").expect("a token").0
    }

    /// Runs jobs while something else is done.
    pub async fn run_jobs_while<T>(&self, work: impl Future<Output = T>) -> T {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let options = jobs::Options {
            concurrency: 32,
            poll: Duration::from_millis(100),
            drain: Duration::ZERO,
            ..jobs::Options::default()
        };
        let registry = holdfast::worker::registry(&self.backend);
        let runner = jobs::Runner::new(self.backend.database.clone(), registry, options);
        let running = tokio::spawn(runner.run(async {
            let _ = stopped.await;
        }));
        let done = work.await;
        let _ = stop.send(());
        running.await.expect("a runner");
        done
    }

    /// Runs all jobs that wait.
    pub async fn finish_jobs(&self) {
        let idle = async {
            loop {
                let backlog = jobs::backlog(self.backend.database.read()).await.expect("a backlog");
                if backlog.waiting + backlog.running == 0 {
                    break;
                }
                // Asked again at once, it would take the processor from the jobs it waits for.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let registry = holdfast::worker::registry(&self.backend);
        let runner = jobs::Runner::new(self.backend.database.clone(), registry, jobs::Options::default());
        // A job that waits for another day would be waited for in vain.
        let finished = tokio::time::timeout(Duration::from_secs(120), runner.run(idle));
        finished.await.expect("jobs that are due");
    }

    /// Whether a user's row is there at all, in sight or not.
    pub async fn has_user_row(&self, id: i64) -> bool {
        let found = users::Entity::find_by_id(id).one(self.backend.database.read()).await;
        found.expect("the database").is_some()
    }
}
