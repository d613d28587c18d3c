//! Successes as answers: JSON, pages, nothing, and downloads.

use std::marker::PhantomData;

use poem::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use poem::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use poem::{IntoResponse, Response};
use poem_openapi::ApiResponse;
use poem_openapi::registry::{MetaMediaType, MetaResponse, MetaResponses, MetaSchemaRef, Registry};
use poem_openapi::types::Type;
use serde::Serialize;

use crate::api::download;
use crate::api::exchange::Exchange;
use crate::api::paging;
use crate::api::revalidation;
use crate::api::types::{Download, Page, WithHeaders};
use crate::error::{Error, Result};

/// A success that can be sent.
pub trait Success: Sized {
    /// The media types it may have, for the router's own metadata.
    fn media() -> Vec<MetaMediaType> {
        Vec::new()
    }

    /// Registers its schema with the router.
    fn register(_registry: &mut Registry) {}

    /// Makes the answer.
    ///
    /// # Errors
    /// When it cannot be serialised.
    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response>;
}

fn json_media(schema: MetaSchemaRef) -> Vec<MetaMediaType> {
    vec![MetaMediaType {
        content_type: "application/json",
        schema,
    }]
}

fn json_response<T: Serialize>(status: StatusCode, body: &T, exchange: &Exchange<'_>) -> Result<Response> {
    let bytes = serde_json::to_vec(body).map_err(Error::internal)?;
    if exchange.operation().method == "GET" && status == StatusCode::OK {
        return Ok(revalidation::tagged(bytes, exchange));
    }
    Ok(Response::builder()
        .status(status)
        .content_type("application/json")
        .header(CONTENT_LENGTH, bytes.len())
        .body(bytes))
}

/// Sets headers that the contract documents; a value no header can carry is dropped.
pub fn set_headers(headers: &mut HeaderMap, values: Vec<(&'static str, String)>) {
    for (name, value) in values {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

/// A value as JSON.
pub struct Json<T>(pub T);

impl<T: Serialize + Type> Success for Json<T> {
    fn media() -> Vec<MetaMediaType> {
        json_media(T::schema_ref())
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        json_response(status, &self.0, exchange)
    }
}

impl<T: Serialize + Type> Success for Page<T> {
    fn media() -> Vec<MetaMediaType> {
        json_media(<Vec<T> as Type>::schema_ref())
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        let mut response = json_response(status, &self.items, exchange)?;
        if let Some(request) = exchange.page() {
            let headers = paging::headers(&request, self.rest, &exchange.url(), exchange.raw_query());
            set_headers(response.headers_mut(), headers);
        }
        Ok(response)
    }
}

/// Nothing.
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
    fn media() -> Vec<MetaMediaType> {
        T::media()
    }

    fn register(registry: &mut Registry) {
        T::register(registry);
    }

    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        let mut response = self.body.render(status, exchange)?;
        set_headers(response.headers_mut(), self.headers);
        Ok(response)
    }
}

impl Success for Download {
    fn media() -> Vec<MetaMediaType> {
        let binary = MetaSchemaRef::Inline(Box::new(poem_openapi::registry::MetaSchema::new_with_format(
            "string", "binary",
        )));
        vec![MetaMediaType {
            content_type: "application/octet-stream",
            schema: binary,
        }]
    }

    fn render(self, status: StatusCode, exchange: &Exchange<'_>) -> Result<Response> {
        Ok(download::render(self, status, exchange.headers()))
    }
}

/// A finished answer that tells the router which success it was made for.
pub struct Reply<S, const STATUS: u16> {
    response: Response,
    success: PhantomData<fn() -> S>,
}

impl<S, const STATUS: u16> Reply<S, STATUS> {
    pub(super) fn new(response: Response) -> Self {
        Self {
            response,
            success: PhantomData,
        }
    }
}

impl<S: Success, const STATUS: u16> ApiResponse for Reply<S, STATUS> {
    fn meta() -> MetaResponses {
        let response = MetaResponse {
            description: "",
            status: Some(STATUS),
            status_range: None,
            content: S::media(),
            headers: Vec::new(),
        };
        MetaResponses {
            responses: vec![response],
        }
    }

    fn register(registry: &mut Registry) {
        S::register(registry);
    }
}

impl<S: Send, const STATUS: u16> IntoResponse for Reply<S, STATUS> {
    fn into_response(self) -> Response {
        let mut response = self.response;
        // Downloads may be empty and still have a type; other answers without a body have none.
        if matches!(
            response.status(),
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        ) {
            response.headers_mut().remove(CONTENT_TYPE);
        }
        response
    }
}
