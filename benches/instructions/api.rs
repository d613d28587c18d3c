//! The API without a network.

use bytes::Bytes;
use poem::http::Method;
use poem::http::uri::Scheme;
use poem::web::{LocalAddr, RemoteAddr};
use poem::{Addr, Endpoint, Request, Response};
use serde_json::Value;

use crate::Result;
use crate::calls::Call;
use crate::data::TOKEN;

/// The endpoint for all requests.
pub struct Api<E>(pub E);

impl<E: Endpoint<Output = Response>> Api<E> {
    /// Sends a request that must succeed, and returns the body of the response.
    pub async fn send(&self, request: Request) -> Result<Bytes> {
        let response = self.0.get_response(request).await;
        let status = response.status();
        let body = response.into_body().into_bytes().await?;
        match status.is_success() {
            true => Ok(body),
            false => Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into()),
        }
    }

    /// Creates a resource.
    pub async fn post(&self, path: &str, body: &Value) -> Result<()> {
        let sent = self.send(request(&Method::POST, path, Some(body))?).await;
        sent.map_err(|error| format!("{path}: {error}"))?;
        Ok(())
    }
}

/// Returns the request of a call with this number.
pub fn request_of(call: &Call, number: usize) -> Result<Request> {
    let body = call.body.map(|body| body(number));
    request(&call.method, &call.path, body.as_ref())
}

/// Returns a request of the administrator, with the headers that HTTP requires.
fn request(method: &Method, path: &str, body: Option<&Value>) -> Result<Request> {
    let mut head = poem::http::Request::builder()
        .method(method)
        .uri(path)
        .header("Host", "127.0.0.1")
        .header("Private-Token", TOKEN);
    let body = body.map(Value::to_string).unwrap_or_default();
    if !body.is_empty() {
        head = head
            .header("Content-Type", "application/json")
            .header("Content-Length", body.len());
    }
    let (parts, ()) = head.body(())?.into_parts();
    let client = RemoteAddr(Addr::SocketAddr(([127, 0, 0, 1], 50_000).into()));
    let from = (parts, LocalAddr::default(), client, Scheme::HTTP);
    Ok(Request::from_parts(from.into(), body.into()))
}
