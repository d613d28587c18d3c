//! OAuth 2.0: authorization, tokens and invalid requests.

mod authorization;
mod refresh;
mod tokens;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Url;
use reqwest::header::LOCATION;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::browser::{Browser, Seen, token};
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{ApiResponse, TestServer};

/// Redirect URI of the applications in the tests.
const CALLBACK: &str = "https://app.example/callback?from=holdfast";
/// Code verifier for PKCE.
const VERIFIER: &str = "a-verifier-of-the-tests-that-is-long-enough-for-it";

/// An application, and a browser with a signed-in user.
struct Fixture<'a> {
    server: &'a TestServer,
    application: Value,
    user: TestUser,
    browser: Browser,
}

fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER.as_bytes()))
}

impl<'a> Fixture<'a> {
    async fn new(server: &'a TestServer, extra: Value) -> Self {
        let mut body = json!({ "name": "<App>", "redirect_uri": CALLBACK, "scopes": "api read_user sudo" });
        body.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
        let application = server.root().post("/applications", body).await.expect(201).json();
        let user = server.create_user("ada").await;
        server.set_password(&user).await;
        let mut browser = Browser::new(server);
        assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
        Self { server, application, user, browser }
    }

    fn uid(&self) -> &str {
        self.application["application_id"].as_str().expect("an id")
    }

    fn secret(&self) -> &str {
        self.application["secret"].as_str().expect("a secret")
    }

    /// Returns the URL of the consent page. `extra` adds and replaces parameters; an empty value removes one.
    fn address(&self, extra: &[(&str, &str)]) -> String {
        let mut pairs =
            vec![("client_id", self.uid()), ("redirect_uri", CALLBACK), ("response_type", "code"), ("state", "s & t")];
        pairs.retain(|(name, _)| !extra.iter().any(|(other, _)| name == other));
        pairs.extend(extra.iter().filter(|(_, value)| !value.is_empty()));
        let url = Url::parse_with_params("http://h/oauth/authorize", pairs).expect("an address");
        format!("/oauth/authorize?{}", url.query().expect("a query"))
    }

    /// Submits the consent form with a decision.
    async fn submit(&mut self, address: &str, decision: &str) -> Seen {
        let page = self.browser.get(address).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let mut fields: Vec<(String, String)> =
            Url::parse(&format!("http://h{address}")).expect("an address").query_pairs().into_owned().collect();
        fields.push(("authenticity_token".to_owned(), token(&page)));
        fields.push(("decision".to_owned(), decision.to_owned()));
        let pairs: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.browser.post("/oauth/authorize", &pairs).await
    }

    /// Returns an authorization code that the user granted.
    async fn code(&mut self, extra: &[(&str, &str)]) -> String {
        let address = self.address(extra);
        let response = self.submit(&address, "authorize").await;
        parameter(&response, "code").expect("a code")
    }

    /// Sends a form to an OAuth endpoint.
    async fn send_form(&self, endpoint: &str, pairs: &[(&str, &str)]) -> ApiResponse {
        let client = self.server.anonymous();
        client.send(client.request(reqwest::Method::POST, &format!("//oauth/{endpoint}")).form(pairs)).await
    }

    /// Sends a form whose length is unknown to an OAuth endpoint.
    async fn send_chunked_form(&self, endpoint: &str, pairs: &[(&str, &str)]) -> ApiResponse {
        let client = self.server.anonymous();
        let form = Url::parse_with_params("http://h", pairs).expect("an address");
        let chunks = [Ok::<_, std::io::Error>(form.query().expect("a query").to_owned())];
        let request = client
            .request(reqwest::Method::POST, &format!("//oauth/{endpoint}"))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(reqwest::Body::wrap_stream(futures_util::stream::iter(chunks)));
        client.send(request).await
    }

    async fn exchange(&self, code: &str, extra: &[(&str, &str)]) -> ApiResponse {
        let mut pairs = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("client_id", self.uid()),
            ("client_secret", self.secret()),
        ];
        pairs.retain(|(name, _)| !extra.iter().any(|(other, _)| name == other));
        pairs.extend(extra.iter().filter(|(_, value)| !value.is_empty()));
        self.send_form("token", &pairs).await
    }

    async fn refresh(&self, refresh_token: &Value, extra: &[(&str, &str)]) -> ApiResponse {
        let mut pairs = vec![
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.as_str().expect("a token")),
            ("client_id", self.uid()),
            ("client_secret", self.secret()),
        ];
        pairs.extend(extra);
        self.send_form("token", &pairs).await
    }

    /// Returns tokens that the user granted.
    async fn tokens(&mut self, extra: &[(&str, &str)]) -> Value {
        let code = self.code(extra).await;
        self.exchange(&code, &[]).await.expect(200).json()
    }

    /// Returns the status of an API request with an access token.
    async fn status(&self, access_token: &Value) -> u16 {
        let bearer = format!("Bearer {}", access_token.as_str().expect("a token"));
        self.server.anonymous().header("Authorization", &bearer).get("/user").await.status
    }
}

/// Returns a query parameter of the redirect target of a response.
fn parameter(response: &Seen, name: &str) -> Option<String> {
    assert_eq!(response.status, 303, "{}", response.text);
    let target = Url::parse(response.headers[LOCATION].to_str().expect("text")).expect("an absolute address");
    let found = target.query_pairs().find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned())
}
