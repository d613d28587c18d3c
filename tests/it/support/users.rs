//! Users and their tokens, created without the API.

use std::time::Duration;

use chrono::NaiveDate;
use domain::accounts::users::{NewUser, create as create_user};
use domain::audit::Actor;
use domain::identity::access_tokens::{NewToken, create as create_token};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};
use storage::entities::access_tokens::TokenKind;
use storage::entities::{access_tokens, users};
use storage::jobs;

use super::{Client, TestServer};

/// Password that [`TestServer::set_password`] sets.
pub const PASSWORD: &str = "correct horse battery";

/// A user and a client with their token.
pub struct TestUser {
    /// The row at creation.
    pub row: users::Model,
    /// ID of the user.
    pub id: i64,
    /// Token of the user.
    pub token: String,
    /// Client with that token.
    pub client: Client,
}

impl TestServer {
    /// Creates a user with a token for all scopes except `sudo`.
    pub async fn create_user(&self, username: &str) -> TestUser {
        self.create_user_with_scopes(username, &["api"]).await
    }

    /// Creates a user with a token of these scopes.
    pub async fn create_user_with_scopes(&self, username: &str, scopes: &[&str]) -> TestUser {
        let new = NewUser {
            username: username.to_owned(),
            name: format!("Name of {username}"),
            email: format!("{username}@example.com"),
            password: None,
            admin: false,
        };
        let row = create_user(&self.backend, &Actor::system(), new).await.expect("a user");
        let token = self.create_token(row.id, scopes).await;
        TestUser { id: row.id, client: self.with_token(&token), token, row }
    }

    /// Sets [`PASSWORD`] for a user.
    pub async fn set_password(&self, user: &TestUser) {
        let hash = domain::identity::passwords::hash_password(PASSWORD.to_owned()).await.expect("a hash");
        let mut row = user.row.clone().into_active_model();
        row.password_hash = Set(Some(hash));
        row.update(self.backend.database.write()).await.expect("a row");
    }

    /// Creates a personal access token.
    pub async fn create_token(&self, user_id: i64, scopes: &[&str]) -> String {
        self.create_token_until(user_id, scopes, None).await
    }

    /// Creates a personal access token with an expiry date.
    pub async fn create_token_until(&self, user_id: i64, scopes: &[&str], last: Option<NaiveDate>) -> String {
        let new = NewToken {
            user_id,
            name: "of a test".to_owned(),
            kind: TokenKind::Personal,
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            expires_at: last,
            created_by_id: None,
            secret: None,
        };
        create_token(&self.backend, &Actor::system(), new).await.expect("a token").1
    }

    /// Returns the row of a token.
    pub async fn token_row(&self, secret: &str) -> access_tokens::Model {
        let digest = domain::secrets::digest(secret);
        let found = access_tokens::by_digest(self.backend.database.read(), &digest).await;
        found.expect("the database").expect("a token").0
    }

    /// Runs jobs while `work` runs.
    pub async fn run_jobs_while<T>(&self, work: impl Future<Output = T>) -> T {
        self.run_jobs_in_slots(32, work).await
    }

    /// Runs jobs while `work` runs, but at most this number at the same time.
    pub async fn run_jobs_in_slots<T>(&self, slots: usize, work: impl Future<Output = T>) -> T {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let options = jobs::RunnerOptions {
            concurrency: slots,
            poll: Duration::from_millis(100),
            drain: Duration::ZERO,
            ..jobs::RunnerOptions::default()
        };
        let registry = holdfast::worker::registry(&self.backend);
        let runner = jobs::JobRunner::new(self.backend.database.clone(), registry, options);
        let running = tokio::spawn(runner.run(async {
            let _ = stopped.await;
        }));
        let done = work.await;
        let _ = stop.send(());
        running.await.expect("a runner");
        done
    }

    /// Runs all pending jobs.
    pub async fn finish_jobs(&self) {
        let database = self.backend.database.clone();
        // A task of its own, because the runner does not poll `shutdown` while it waits for a connection. A statement
        // of this loop may occupy that connection.
        let idle = tokio::spawn(async move {
            loop {
                let backlog = jobs::backlog(database.read()).await.expect("a backlog");
                if backlog.waiting + backlog.running == 0 {
                    break;
                }
                // Without the pause this loop would take CPU time from the jobs.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let idle = async { idle.await.expect("no panic") };
        let registry = holdfast::worker::registry(&self.backend);
        let runner = jobs::JobRunner::new(self.backend.database.clone(), registry, jobs::RunnerOptions::default());
        // A job scheduled for later would never finish, hence the time limit.
        let finished = tokio::time::timeout(Duration::from_secs(120), runner.run(idle));
        finished.await.expect("jobs that are due");
    }

    /// Returns whether the row of a user exists, even if it is marked for deletion.
    pub async fn has_user_row(&self, id: i64) -> bool {
        let found = users::Entity::find_by_id(id).one(self.backend.database.read()).await;
        found.expect("the database").is_some()
    }
}
