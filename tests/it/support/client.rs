//! A caller of the API. Every answer below `/api` is validated against the contract before a test sees it.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::contract;

/// Somebody who calls.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    headers: HeaderMap,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// An HTTP client of the tests, not yet built: one without the environment's proxies.
pub fn http() -> reqwest::ClientBuilder {
    // The server chooses one as well, but not every test has a server in its process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Nobody is reached by TLS: reading the machine's certificates for each client would take longer than many a test.
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

impl Client {
    /// A caller with or without a token.
    pub fn new(base: &str, token: Option<&str>) -> Self {
        let http = http().build().expect("a client");
        let client = Self { http, base: base.to_owned(), headers: HeaderMap::new() };
        match token {
            Some(token) => client.header("Private-Token", token),
            None => client,
        }
    }

    /// The same caller with another header on every request.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header name");
        self.headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        self
    }

    /// A request below `/api/v4`, or to an absolute path that begins with `//`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = match path.strip_prefix("//") {
            Some(absolute) => format!("{}/{absolute}", self.base),
            None => format!("{}/api/v4{path}", self.base),
        };
        self.http.request(method, url).headers(self.headers.clone())
    }

    /// Sends a request and checks the answer.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let request = request.build().expect("a request");
        let (method, path) = (request.method().to_string(), request.url().path().to_owned());
        let response = self.http.execute(request).await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.expect("a body").to_vec();
        let answer = Answer { status, headers, body };
        // The document itself is no operation of the document.
        if path.starts_with("/api/") && !path.starts_with("/api/v4/openapi.") {
            contract::check(&method, &path, &answer);
        }
        answer
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// HEAD.
    pub async fn head(&self, path: &str) -> Answer {
        self.send(self.request(Method::HEAD, path)).await
    }

    /// DELETE without a body.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// POST with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// PUT with a JSON body.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    /// POST with an urlencoded body.
    pub async fn post_form(&self, path: &str, pairs: &[(&str, &str)]) -> Answer {
        self.send(self.request(Method::POST, path).form(pairs)).await
    }
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        let shown = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", shown()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// The error's message as text.
    pub fn message(&self) -> String {
        let message = self.json()["message"].clone();
        message.as_str().map_or_else(|| message.to_string(), str::to_owned)
    }

    /// A header, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text header"))
    }

    /// The answer itself when it has this status; fails the test otherwise.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// One field of every entry of a list.
    pub fn pluck(&self, field: &str) -> Vec<Value> {
        self.json().as_array().expect("a list").iter().map(|entry| entry[field].clone()).collect()
    }
}

/// Encodes one path segment (`a/b` -> `a%2Fb`).
pub fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
