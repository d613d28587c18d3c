//! Minimal browser for the pages of the server.

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::StatusCode;
use reqwest::header::{COOKIE, HeaderMap, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::TestServer;

/// A browser that follows no redirects and exposes its cookies.
pub struct Browser {
    pub http: reqwest::Client,
    pub base: String,
    /// Names and values of the cookies.
    pub cookies: Vec<(String, String)>,
}

/// A response to the browser.
pub struct Seen {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Seen {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    pub fn set_cookies(&self) -> Vec<&str> {
        let values = self.headers.get_all(SET_COOKIE).iter();
        values.map(|value| value.to_str().expect("text")).collect()
    }
}

impl Browser {
    pub fn new(server: &TestServer) -> Self {
        Self::at(&server.base)
    }

    /// Creates a browser for the server with this base URL.
    pub fn at(base: &str) -> Self {
        let http = crate::support::client::http().redirect(Policy::none()).build();
        Self { http: http.expect("a client"), base: base.to_owned(), cookies: Vec::new() }
    }

    pub async fn send(&mut self, request: reqwest::RequestBuilder) -> Seen {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = request.header(COOKIE, cookies.join("; ")).send().await.expect("a response");
        let (status, headers) = (response.status(), response.headers().clone());
        let seen = Seen { status, headers, text: response.text().await.expect("text") };
        for cookie in seen.set_cookies() {
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().expect("a value");
            self.cookies.retain(|(known, _)| known != name);
            if !value.is_empty() {
                self.cookies.push((name.to_owned(), value.to_owned()));
            }
        }
        seen
    }

    pub async fn get(&mut self, path: &str) -> Seen {
        self.send(self.http.get(format!("{}{path}", self.base))).await
    }

    pub async fn post(&mut self, path: &str, pairs: &[(&str, &str)]) -> Seen {
        self.send(self.http.post(format!("{}{path}", self.base)).form(pairs)).await
    }

    /// Opens the sign-in form and submits it.
    pub async fn sign_in(&mut self, login: &str, password: &str, more: &[(&str, &str)]) -> Seen {
        let token = token(&self.get("/users/sign_in").await);
        let mut pairs = vec![("authenticity_token", token.as_str()), ("login", login), ("password", password)];
        pairs.extend_from_slice(more);
        self.post("/users/sign_in", &pairs).await
    }

    pub fn session(&self) -> Option<&str> {
        self.cookies.iter().find(|(name, _)| name == "_service_session").map(|(_, value)| value.as_str())
    }
}

/// Returns the authenticity token in a form.
pub fn token(page: &Seen) -> String {
    let (_, rest) = page.text.split_once("name=\"authenticity_token\" value=\"").expect("a form");
    rest.split('"').next().expect("a value").to_owned()
}

/// Returns the source that allows the inline style of a page in a content security policy.
pub fn style_source(page: &Seen) -> String {
    let (_, rest) = page.text.split_once("<style>").expect("a style");
    let (style, rest) = rest.split_once("</style>").expect("a style");
    assert!(!rest.contains("<style"), "a page has one style");
    format!("sha256-{}", STANDARD.encode(Sha256::digest(style)))
}
