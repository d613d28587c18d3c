//! An authenticator app, and users with a second factor.

use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{now, two_factor_secrets};
use totp_rs::{Builder, Secret, Totp};

use super::users::{PASSWORD, TestUser};
use super::{ApiResponse, Client, TestServer};

/// Duration of a time step, in seconds.
const STEP: i64 = 30;

/// An authenticator app with the secret of one account.
pub struct Authenticator(Totp);

impl Authenticator {
    pub fn new(secret: &str) -> Self {
        let secret = Secret::try_from_base32(secret).expect("a secret");
        Self(Builder::new().with_secret(secret).build().expect("parameters"))
    }

    /// Returns the current code.
    pub fn code(&self) -> String {
        self.code_at(0)
    }

    /// Returns the code of a number of time steps after the current one.
    pub fn code_at(&self, steps: i64) -> String {
        let seconds = now().timestamp() + steps * STEP;
        self.0.generate(u64::try_from(seconds).expect("a time")).to_string()
    }
}

/// The second factor of a user.
pub struct SecondFactor {
    pub app: Authenticator,
    pub recovery_codes: Vec<String>,
}

/// Starts the setup of a second factor, and returns the app.
pub async fn start_setup(client: &Client) -> Authenticator {
    let started = client.post("/user/two_factor", json!({ "current_password": PASSWORD })).await.expect(201).json();
    Authenticator::new(started["secret"].as_str().expect("a secret"))
}

/// Returns the recovery codes in a response.
pub fn recovery_codes(response: &ApiResponse) -> Vec<String> {
    let codes = response.json()["recovery_codes"].as_array().expect("codes").clone();
    codes.iter().map(|code| code.as_str().expect("text").to_owned()).collect()
}

/// Sends a code to disable the second factor of the caller.
pub async fn disable(client: &Client, body: Value) -> ApiResponse {
    client.send(client.request(Method::DELETE, "/user/two_factor").json(&body)).await
}

impl TestServer {
    /// Creates a user with [`PASSWORD`] and a second factor, which accepts the current code.
    pub async fn create_user_with_second_factor(&self, username: &str) -> (TestUser, SecondFactor) {
        let user = self.create_user(username).await;
        self.set_password(&user).await;
        let factor = self.enable_second_factor(&user).await;
        (user, factor)
    }

    /// Sets up the second factor of a user with [`PASSWORD`].
    pub async fn enable_second_factor(&self, user: &TestUser) -> SecondFactor {
        let app = start_setup(&user.client).await;
        let confirmed = user.client.post("/user/two_factor/confirm", json!({ "code": app.code() })).await.expect(201);
        self.forget_used_codes(user.id).await;
        SecondFactor { app, recovery_codes: recovery_codes(&confirmed) }
    }

    /// Allows a user to use the current code again, so that a test need not wait for the next one.
    pub async fn forget_used_codes(&self, user_id: i64) {
        two_factor_secrets::Entity::update_many()
            .col_expr(two_factor_secrets::Column::LastUsedStep, Expr::value(None::<i64>))
            .filter(two_factor_secrets::Column::UserId.eq(user_id))
            .exec(self.backend.database.write())
            .await
            .expect("an update");
    }
}
