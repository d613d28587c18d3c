//! Manifests, tags and referrers.

use bytes::Bytes;
use domain::kernel::budgets::UNCOUNTED_REQUEST_BYTES;
use domain::kernel::download::{Download, DownloadContent};
use domain::registry::manifests::{self, Annotations, MAX_BYTES, Manifest, ManifestReference};
use domain::registry::{Digest, RegistryError, RegistryErrorCode, tags};
use futures_util::{StreamExt, stream};
use poem::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LINK};
use poem::http::{HeaderName, Method, StatusCode};
use poem::{Body, Request, Response};
use serde::{Serialize, Serializer};
use serde_json::json;

use super::{RegistryCall, blobs::content_response, parameter, responses};
use crate::api::response_memory;

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
            let access = &self.repository_path.access;
            match &reference {
                ManifestReference::Tag(name) => {
                    tags::delete(self.backend, access, repository.id, name).await?
                }
                ManifestReference::Digest(digest) => {
                    manifests::delete(self.backend, access, repository.id, digest).await?
                }
            }
            return Ok(responses::empty(StatusCode::ACCEPTED));
        }
        let manifest = manifests::find(self.backend, repository.id, &reference).await?;
        let digest = Digest::parse(&manifest.digest)?;
        let content = match request.method() == Method::HEAD {
            true => DownloadContent::Seekable {
                size: u64::try_from(manifest.size).unwrap_or_default(),
                open: Box::new(|_, _| stream::empty().boxed()),
            },
            false => {
                let bytes = manifests::content(self.backend, &manifest, &reference, &self.memory).await?;
                DownloadContent::Bytes(response_memory::hold_bytes(bytes.into(), &self.memory)?)
            }
        };
        let content = Download {
            content_type: manifest.media_type,
            file_name: String::new(),
            attachment: false,
            etag: Some(manifest.digest),
            headers: Vec::new(),
            content,
        };
        Ok(content_response(content, &digest, REVALIDATED_CACHE, &request))
    }

    async fn push(
        &self,
        reference: &ManifestReference,
        mut request: Request,
    ) -> Result<Response, RegistryError> {
        let header = |name| request.headers().get(name)?.to_str().ok();
        let announced = header(CONTENT_LENGTH).and_then(|text| text.parse::<usize>().ok());
        if announced.is_some_and(|length| length > MAX_BYTES) {
            return Err(too_large());
        }
        let kind = header(CONTENT_TYPE).unwrap_or_default().to_owned();
        let bytes = self.read_manifest(request.take_body()).await?;
        let path = &self.repository_path;
        let pushed = manifests::push(self.backend, path, reference, &kind, bytes, &self.memory).await?;
        let mut response = responses::created(self.name(), "manifests", &pushed.digest);
        if let Some(subject) = pushed.subject {
            responses::set(&mut response, SUBJECT, subject.as_str());
        }
        Ok(response)
    }

    /// Reads a pushed manifest, and reserves its memory while it is read. In addition to the bytes, the transaction and
    /// the database need a copy each.
    async fn read_manifest(&self, body: Body) -> Result<Vec<u8>, RegistryError> {
        let (mut bytes, mut chunks) = (Vec::<u8>::new(), body.into_bytes_stream());
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| {
                RegistryError::new(RegistryErrorCode::ManifestInvalid, "the body is incomplete")
            })?;
            let size = bytes.len() + chunk.len();
            if size > MAX_BYTES {
                return Err(too_large());
            }
            if size as u64 > UNCOUNTED_REQUEST_BYTES {
                self.memory.resize(3 * size as u64)?;
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
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
        let mut response = responses::document("application/json", self.held_json(&text)?);
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
                let (kind, memory) = (kind.as_deref(), &self.memory);
                manifests::referrers(self.backend, repository.id, &digest, kind, after, memory).await?
            }
            Err(RegistryError::Protocol { .. }) => (Vec::new(), false),
            Err(fault) => return Err(fault),
        };
        let next = found.last().filter(|_| more).map(|manifest| manifest.id);
        let list = ReferrerList {
            schema_version: 2,
            media_type: INDEX,
            manifests: found,
        };
        let mut response = responses::document(INDEX, self.held_json(&list)?);
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

    /// Returns a JSON document that holds its memory until it was sent.
    fn held_json(&self, document: &impl Serialize) -> Result<Bytes, RegistryError> {
        let json = response_memory::to_json(document, Some(&self.memory))?;
        Ok(response_memory::hold_bytes(json.into(), &self.memory)?)
    }
}

fn too_large() -> RegistryError {
    RegistryError::new(
        RegistryErrorCode::SizeInvalid,
        format!("the manifest is too large (maximum is {MAX_BYTES} bytes)"),
    )
}

/// A list of referrers, which is an image index.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReferrerList {
    schema_version: u8,
    media_type: &'static str,
    /// Parsed annotations need much more memory than their text, so they are parsed one after the other.
    #[serde(serialize_with = "descriptors")]
    manifests: Vec<Manifest>,
}

/// A manifest in a list of referrers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    media_type: &'a str,
    digest: &'a str,
    size: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations>,
}

impl<'a> Descriptor<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let annotations = manifest.annotations.as_deref();
        Self {
            media_type: &manifest.media_type,
            digest: &manifest.digest,
            size: manifest.size,
            artifact_type: manifest.artifact_type.as_deref(),
            annotations: annotations.and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}

fn descriptors<S: Serializer>(manifests: &[Manifest], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(manifests.iter().map(Descriptor::of))
}
