//! Data of `holdfast demo`: users, the data of the samples in the documentation, and an example of daily work with groups,
//! projects, issues, merge requests and notes. All of it is created through the API, as a client would.

mod code;
mod planning;
mod samples;
mod spaces;

use chrono::Days;
use domain::kernel::Backend;
use domain::secrets::Secret;
use poem::http::Method;
use poem::http::uri::Scheme;
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Endpoint, Request, Response};
use serde_json::Value;
use storage::clock::now;

use crate::app;
use crate::config::ServerSettings;
use crate::server::error::Error;

/// User names in the demo, except the administrator.
pub const USERS: [&str; 4] = ["ada", "ben", "cleo", "dana"];

/// User name of the administrator.
const ADMINISTRATOR: &str = "root";

/// The main project.
pub const PROJECT: &str = "harbor/lighthouse";

/// Fills an instance whose only user is the administrator `root`. `token` is root's token with the scopes
/// `api` and `sudo`; all created users get `password`.
///
/// # Errors
/// If the API rejects a request, for example because a name is already taken.
pub async fn fill(
    backend: &Backend,
    settings: &ServerSettings,
    token: &Secret,
    password: &Secret,
) -> Result<(), Error> {
    let api = DemoApi {
        endpoint: app::endpoint(backend, settings),
        token: token.expose(),
    };
    let user_ids = spaces::create_users(&api, password.expose()).await?;
    // Before everything else, because the samples contain IDs.
    samples::create(&api).await?;
    let demo_ids = spaces::create(&api, user_ids).await?;
    code::create(&api, &demo_ids).await?;
    planning::create(&api, &demo_ids).await
}

/// The body of a request.
struct RequestBody {
    media_type: String,
    content: Vec<u8>,
}

impl RequestBody {
    fn new(media_type: &str, content: Vec<u8>) -> Self {
        let media_type = media_type.to_owned();
        Self { media_type, content }
    }

    fn json(value: &Value) -> Self {
        Self::new("application/json", value.to_string().into_bytes())
    }
}

/// The API without a network.
struct DemoApi<'a, E> {
    endpoint: E,
    token: &'a str,
}

impl<E: Endpoint<Output = Response>> DemoApi<'_, E> {
    /// Creates a resource as this user and returns it.
    async fn post(&self, user: &str, path: &str, body: Value) -> Result<Value, Error> {
        self.send(user, Method::POST, path, RequestBody::json(&body))
            .await
    }

    /// Updates a resource as this user and returns it.
    async fn put(&self, user: &str, path: &str, body: Value) -> Result<Value, Error> {
        self.send(user, Method::PUT, path, RequestBody::json(&body)).await
    }

    /// Sends a request as this user and returns the JSON of the response, or null if there is none.
    async fn send(&self, user: &str, method: Method, path: &str, body: RequestBody) -> Result<Value, Error> {
        let failed = |why: String| Error::Demo(format!("{method} {path} as {user}: {why}"));
        let head = poem::http::Request::builder()
            .method(method.clone())
            .uri(format!("/api/v4{path}"))
            .header("Private-Token", self.token)
            .header("Sudo", user)
            .header("Content-Type", body.media_type)
            .body(())
            .map_err(|error| failed(error.to_string()))?;
        let (parts, ()) = head.into_parts();
        // The endpoint expects a request with network addresses.
        let from = (parts, LocalAddr::default(), RemoteAddr::default(), Scheme::HTTP);
        let request = Request::from_parts(from.into(), body.content.into());
        let response = self.endpoint.get_response(request).await;
        let status = response.status();
        let text = response.into_body().into_string().await;
        let text = text.map_err(|error| failed(error.to_string()))?;
        if !status.is_success() {
            return Err(failed(format!("{status} {text}")));
        }
        match text.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_str(&text).map_err(|error| failed(error.to_string())),
        }
    }
}

/// Returns an integer field of a response.
fn number(answer: &Value, field: &str) -> Result<i64, Error> {
    let number = answer[field].as_i64();
    number.ok_or_else(|| Error::Demo(format!("a response has no {field}: {answer}")))
}

/// Returns the date in `days` days.
fn in_days(days: u64) -> String {
    let day = now().date_naive().checked_add_days(Days::new(days));
    day.unwrap_or_default().to_string()
}

/// Returns the time `days` days ago.
fn days_ago(days: u64) -> String {
    let time = now().checked_sub_days(Days::new(days));
    time.unwrap_or_default().to_rfc3339()
}
