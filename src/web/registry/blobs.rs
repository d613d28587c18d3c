//! Blobs: whole, in part, or headers only.

use domain::kernel::download::Download;
use domain::registry::{Digest, RegistryError, blobs};
use poem::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, EXPIRES, PRAGMA};
use poem::http::{Method, StatusCode};
use poem::{Request, Response};

use super::{RegistryCall, responses};
use crate::api::download;

/// Content of a digest never changes, but access to it does.
const IMMUTABLE_CACHE: &str = "private, max-age=31536000, immutable";

impl RegistryCall<'_> {
    /// Sends a blob, or removes it from the repository.
    pub(super) async fn blob(&self, digest: &str, request: &Request) -> Result<Response, RegistryError> {
        let digest = Digest::parse(digest)?;
        let repository = self.repository_path.repository(self.backend).await?;
        if request.method() == Method::DELETE {
            let access = &self.repository_path.access;
            blobs::remove(self.backend, access, repository.id, &digest).await?;
            return Ok(responses::empty(StatusCode::ACCEPTED));
        }
        let blob = blobs::find(self.backend, repository.id, &digest).await?;
        // Clients send HEAD before they push a blob.
        if request.method() == Method::HEAD {
            blobs::check_objects(self.backend, &blob).await?;
        }
        let content = blobs::open(self.backend, &blob).await?;
        Ok(content_response(content, &digest, IMMUTABLE_CACHE, request))
    }
}

/// Returns content with this digest: whole, in part, or 304.
pub(super) fn content_response(
    content: Download,
    digest: &Digest,
    cache_control: &str,
    request: &Request,
) -> Response {
    let mut response = download::render(content, StatusCode::OK, request.headers());
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        let text = "the range is outside the blob";
        let registry_error = responses::error(response.status(), "SIZE_INVALID", text, None);
        let (parts, body) = (registry_error.headers().clone(), registry_error.into_body());
        response.headers_mut().extend(parts);
        response.set_body(body);
    }
    let headers = response.headers_mut();
    for name in [CONTENT_DISPOSITION, EXPIRES, PRAGMA] {
        headers.remove(name);
    }
    responses::set(&mut response, CACHE_CONTROL, cache_control);
    responses::set(&mut response, responses::CONTENT_DIGEST, digest.as_str());
    response
}
