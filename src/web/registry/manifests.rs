//! Manifests, tags and referrers.

use domain::kernel::download::{Download, DownloadContent};
use domain::registry::manifests::{self, Annotations, MAX_BYTES, Manifest, ManifestReference};
use domain::registry::{Digest, RegistryError, RegistryErrorCode, tags};
use poem::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK};
use poem::http::{HeaderName, Method, StatusCode};
use poem::{Request, Response};
use serde_json::{Value, json};

use super::{RegistryCall, blobs::content_response, parameter, responses};

/// Media type of an image index.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Digest of the subject of a pushed manifest. It shows the client that the server maintains the list of
/// referrers.
const SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
/// Filters applied to a list.
const FILTERS: HeaderName = HeaderName::from_static("oci-filters-applied");
/// A tag may point to another manifest later, and access may change.
const REVALIDATED_CACHE: &str = "private, no-cache";

impl RegistryCall<'_> {
    /// Sends, stores or deletes a manifest.
    pub(super) async fn manifest(
        &self,
        reference: &str,
        request: Request,
    ) -> Result<Response, RegistryError> {
        if request.method() == Method::PUT {
            return self.push(&ManifestReference::parse(reference)?, request).await;
        }
        let reference = ManifestReference::parse_existing(reference)?;
        let repository = self.repository_path.repository(self.backend).await?;
        if request.method() == Method::DELETE {
            match &reference {
                ManifestReference::Tag(name) => tags::delete(self.backend, repository.id, name).await?,
                ManifestReference::Digest(digest) => {
                    manifests::delete(self.backend, repository.id, digest).await?
                }
            }
            return Ok(responses::empty(StatusCode::ACCEPTED));
        }
        let (manifest, bytes) = manifests::get(self.backend, repository.id, &reference).await?;
        let digest = Digest::parse(&manifest.digest)?;
        let content = Download {
            content_type: manifest.media_type,
            file_name: String::new(),
            attachment: false,
            etag: Some(manifest.digest),
            headers: Vec::new(),
            content: DownloadContent::Bytes(bytes.into()),
        };
        Ok(content_response(content, &digest, REVALIDATED_CACHE, &request))
    }

    async fn push(
        &self,
        reference: &ManifestReference,
        mut request: Request,
    ) -> Result<Response, RegistryError> {
        let too_large = || {
            RegistryError::new(
                RegistryErrorCode::SizeInvalid,
                format!("the manifest is too large (maximum is {MAX_BYTES} bytes)"),
            )
        };
        let header = |name| request.headers().get(name)?.to_str().ok();
        let announced = header(CONTENT_LENGTH).and_then(|text| text.parse::<usize>().ok());
        if announced.is_some_and(|length| length > MAX_BYTES) {
            return Err(too_large());
        }
        let kind = header(CONTENT_TYPE).unwrap_or_default().to_owned();
        let bytes = match request.take_body().into_bytes_limit(MAX_BYTES).await {
            Ok(bytes) => bytes.to_vec(),
            Err(poem::error::ReadBodyError::PayloadTooLarge) => return Err(too_large()),
            Err(_) => {
                return Err(RegistryError::new(
                    RegistryErrorCode::ManifestInvalid,
                    "the body is incomplete",
                ));
            }
        };
        let pushed = manifests::push(self.backend, &self.repository_path, reference, &kind, bytes).await?;
        let mut response = responses::created(self.name(), "manifests", &pushed.digest);
        if let Some(subject) = pushed.subject {
            responses::set(&mut response, SUBJECT, subject.as_str());
        }
        Ok(response)
    }

    /// Sends the tag names, or a page of them.
    pub(super) async fn tags(&self, request: &Request) -> Result<Response, RegistryError> {
        let requested = parameter(request, "n");
        let limit = match &requested {
            None => tags::MAX_PER_PAGE,
            Some(text) => {
                let wrong = || {
                    RegistryError::new(
                        RegistryErrorCode::PaginationNumberInvalid,
                        "n must be a non-negative integer",
                    )
                };
                text.parse::<u64>().map_err(|_| wrong())?.min(tags::MAX_PER_PAGE)
            }
        };
        let last = parameter(request, "last").filter(|last| !last.contains('\0'));
        let repository = self.repository_path.repository(self.backend).await?;
        let (names, more) = tags::list_names(self.backend, repository.id, last.as_deref(), limit).await?;
        let next = names.last().filter(|_| more).cloned();
        let text = json!({ "name": self.name().as_str(), "tags": names });
        let mut response = responses::document("application/json", text.to_string());
        if let Some(last) = next {
            // Tag names need no encoding in URLs.
            let link = format!(
                "</v2/{}/tags/list?n={limit}&last={last}>; rel=\"next\"",
                self.name()
            );
            responses::set(&mut response, LINK, &link);
        }
        Ok(response)
    }

    /// Sends a list of the referrers of a manifest.
    pub(super) async fn referrers(&self, digest: &str, request: &Request) -> Result<Response, RegistryError> {
        let digest = Digest::parse(digest)?;
        let kind = parameter(request, "artifactType").filter(|kind| !kind.is_empty() && !kind.contains('\0'));
        let after = parameter(request, "last")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        // A repository without pushes has no referrers, which is not an error.
        let (found, more) = match self.repository_path.repository(self.backend).await {
            Ok(repository) => {
                manifests::referrers(self.backend, repository.id, &digest, kind.as_deref(), after).await?
            }
            Err(RegistryError::Protocol { .. }) => (Vec::new(), false),
            Err(fault) => return Err(fault),
        };
        let next = found.last().filter(|_| more).map(|manifest| manifest.id);
        let all: Vec<Value> = found.into_iter().map(descriptor).collect();
        let text = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": all });
        let mut response = responses::document(INDEX, text.to_string());
        if kind.is_some() {
            responses::set(&mut response, FILTERS, "artifactType");
        }
        if let Some(last) = next {
            let kind = kind.map(|kind| {
                let kind: String = url::form_urlencoded::byte_serialize(kind.as_bytes()).collect();
                format!("&artifactType={kind}")
            });
            let path = format!("/v2/{}/referrers/{digest}", self.name());
            let link = format!("<{path}?last={last}{}>; rel=\"next\"", kind.unwrap_or_default());
            responses::set(&mut response, LINK, &link);
        }
        Ok(response)
    }
}

fn descriptor(manifest: Manifest) -> Value {
    let mut descriptor = json!({
        "mediaType": manifest.media_type,
        "digest": manifest.digest,
        "size": manifest.size,
    });
    if let Some(kind) = manifest.artifact_type {
        descriptor["artifactType"] = kind.into();
    }
    let annotations = manifest
        .annotations
        .and_then(|text| serde_json::from_str::<Annotations>(&text).ok());
    if let Some(annotations) = annotations {
        descriptor["annotations"] = json!(annotations);
    }
    descriptor
}
