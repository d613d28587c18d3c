//! Successful responses: JSON, pages, redirects and empty responses.

use domain::kernel::error::{Error, Result};
use domain::kernel::page::Page;
use poem::Response;
use poem::http::header::{CONTENT_LENGTH, LOCATION};
use poem::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use crate::api::exchange::Exchange;
use crate::api::paging::{self, Links};
use crate::api::resource_location::resource_location;
use crate::api::response_cache::WholeBody;
use crate::api::response_memory::to_json;
use crate::api::revalidation;

/// A result that can be sent as a response.
pub trait Success: Sized {
    /// Returns the response.
    ///
    /// # Errors
    /// If it cannot be serialized.
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response>;
}

fn json_response(status: StatusCode, bytes: Vec<u8>, exchange: &Exchange<'_>) -> Response {
    if exchange.operation().method == "GET" && status == StatusCode::OK {
        return revalidation::tagged(bytes, exchange);
    }
    let body = WholeBody(bytes.into());
    let mut response = Response::builder()
        .status(status)
        .content_type(exchange.operation().media_type)
        .header(CONTENT_LENGTH, body.0.len())
        .extension(body.clone())
        .body(body.body());
    if status == StatusCode::CREATED
        && let Some(location) = &exchange.operation().location
        && let Ok(parameters) = exchange.path()
        && let Some(location) = resource_location(exchange.base_url(), location, &parameters, &body.0)
    {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}

/// Sets headers that the contract documents; a value that is invalid in a header is dropped.
pub fn set_headers(headers: &mut HeaderMap, values: Vec<(&'static str, String)>) {
    for (name, value) in values {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

/// A success with headers that the contract documents for it.
#[derive(Debug, Clone)]
pub struct WithHeaders<T> {
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: T,
}

impl<T> WithHeaders<T> {
    /// Returns the same headers with a converted body.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> WithHeaders<U> {
        WithHeaders {
            headers: self.headers,
            body: change(self.body),
        }
    }
}

/// A value as JSON.
pub struct Json<T>(pub T);

impl<T: Serialize> Success for Json<T> {
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        Ok(json_response(
            status,
            to_json(&self.0, exchange.memory())?,
            exchange,
        ))
    }
}

/// A value as JSON, or an empty response with status 204.
pub struct OptionalJson<T>(pub Option<T>);

impl<T: Serialize> Success for OptionalJson<T> {
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        match self.0 {
            Some(value) => Json(value).render(status, exchange),
            None => Empty.render(StatusCode::NO_CONTENT, exchange),
        }
    }
}

impl<T: Serialize> Success for Page<T> {
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        let mut response = json_response(status, to_json(&self.items, exchange.memory())?, exchange);
        let links = Links {
            url: &exchange.url(),
            query: exchange.raw_query(),
            body: exchange.body_filters(),
        };
        let headers = paging::headers(&exchange.page(), self.rest, &links);
        set_headers(response.headers_mut(), headers);
        Ok(response)
    }
}

/// A redirect to a URL, or to a path of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect(pub String);

impl Success for Redirect {
    fn render(self, status: StatusCode, _: &Exchange<'_>) -> Result<Response> {
        let location = HeaderValue::try_from(self.0).map_err(Error::internal)?;
        Ok(Response::builder()
            .status(status)
            .header(LOCATION, location)
            .finish())
    }
}

/// An empty response.
pub struct Empty;

impl From<()> for Empty {
    fn from((): ()) -> Self {
        Self
    }
}

impl Success for Empty {
    fn render(self, status: StatusCode, _: &Exchange<'_>) -> Result<Response> {
        Ok(Response::builder().status(status).finish())
    }
}

impl<T: Success> Success for WithHeaders<T> {
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        let mut response = self.body.render(status, exchange)?;
        set_headers(response.headers_mut(), self.headers);
        Ok(response)
    }
}
