//! API client. Each response below `/api` is validated against the contract.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::contract;

/// An API client, with or without a token.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    headers: HeaderMap,
}

/// A response.
#[derive(Debug)]
pub struct ApiResponse {
    /// Status code.
    pub status: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

/// Returns a builder for HTTP clients that ignore the proxies of the environment.
pub fn http() -> reqwest::ClientBuilder {
    // No test uses TLS, and loading the system's certificates for each client would be slow.
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

impl Client {
    /// Creates a client with or without a token.
    pub fn new(base: &str, token: Option<&str>) -> Self {
        // Redirects are responses of operations, and can lead to other servers.
        let http = http().redirect(reqwest::redirect::Policy::none()).build().expect("a client");
        let client = Self { http, base: base.to_owned(), headers: HeaderMap::new() };
        match token {
            Some(token) => client.header("Private-Token", token),
            None => client,
        }
    }

    /// Adds a header to every request.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name.parse().expect("a header name");
        self.headers.insert(name, HeaderValue::from_str(value).expect("a header value"));
        self
    }

    /// Creates a request below `/api/v4`, or to an absolute path if it starts with `//`.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = match path.strip_prefix("//") {
            Some(absolute) => format!("{}/{absolute}", self.base),
            None => format!("{}/api/v4{path}", self.base),
        };
        self.http.request(method, url).headers(self.headers.clone())
    }

    /// Sends a request and validates the response.
    pub async fn send(&self, request: RequestBuilder) -> ApiResponse {
        let request = request.build().expect("a request");
        let (method, path) = (request.method().to_string(), request.url().path().to_owned());
        let response = self.http.execute(request).await.expect("a response");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.bytes().await.expect("a body").to_vec();
        let response = ApiResponse { status, headers, body };
        // The document describes no operation for itself.
        if path.starts_with("/api/") && !path.starts_with("/api/v4/openapi") {
            contract::check(&method, &path, &response);
        }
        response
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> ApiResponse {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a HEAD request.
    pub async fn head(&self, path: &str) -> ApiResponse {
        self.send(self.request(Method::HEAD, path)).await
    }

    /// Sends a DELETE request without a body.
    pub async fn delete(&self, path: &str) -> ApiResponse {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Sends a POST request with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> ApiResponse {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// Sends a PUT request with a JSON body.
    pub async fn put(&self, path: &str, body: Value) -> ApiResponse {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    /// Sends a PATCH request with a JSON body.
    pub async fn patch(&self, path: &str, body: Value) -> ApiResponse {
        self.send(self.request(Method::PATCH, path).json(&body)).await
    }

    /// Sends a POST request with a URL-encoded form.
    pub async fn post_form(&self, path: &str, pairs: &[(&str, &str)]) -> ApiResponse {
        self.send(self.request(Method::POST, path).form(pairs)).await
    }
}

impl ApiResponse {
    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        let body = || String::from_utf8_lossy(&self.body).into_owned();
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", body()))
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    /// Returns the error message.
    pub fn message(&self) -> String {
        let message = self.json()["message"].clone();
        message.as_str().map_or_else(|| message.to_string(), str::to_owned)
    }

    /// Returns a header, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text header"))
    }

    /// Returns the response if it has this status, and panics otherwise.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Returns one field of each entry of a list.
    pub fn pluck(&self, field: &str) -> Vec<Value> {
        self.json().as_array().expect("a list").iter().map(|entry| entry[field].clone()).collect()
    }
}

/// Encodes one path segment (`a/b` -> `a%2Fb`).
pub fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
