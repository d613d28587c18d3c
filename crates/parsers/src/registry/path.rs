//! Parser of registry paths. Image names have any number of components, so paths are parsed from the end.

use percent_encoding::percent_decode_str;

use super::{ImageName, InvalidImageName};

/// Root of the registry.
const ROOT: &str = "/v2";
/// Path of the token endpoint.
const TOKENS: &str = "/jwt/auth";

/// Target of a path.
#[derive(Debug, PartialEq, Eq)]
pub enum RegistryPath {
    /// Tokens.
    Tokens,
    /// The registry itself.
    Base,
    /// A resource of a repository.
    Of(ImageName, RepositoryResource),
    /// An unknown path.
    Nothing,
}

/// Resource of a repository.
#[derive(Debug, PartialEq, Eq)]
pub enum RepositoryResource {
    /// The list of tags.
    Tags,
    /// A manifest, by a tag or a digest.
    Manifest(String),
    /// A blob, by its digest.
    Blob(String),
    /// The uploads.
    Uploads,
    /// An upload.
    Upload(String),
    /// The referrers of the manifest with this digest.
    Referrers(String),
}

/// Returns whether a raw path belongs to the registry.
#[must_use]
pub fn is_registry_path(path: &str) -> bool {
    path == TOKENS || path == ROOT || path.strip_prefix(ROOT).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether a raw path accepts bodies of any length.
#[must_use]
pub fn accepts_large_body(path: &str) -> bool {
    is_registry_path(path) && path.contains("/blobs/")
}

impl RegistryPath {
    /// Parses the raw path of a request; none if it does not belong to the registry.
    ///
    /// # Errors
    /// Returns [`InvalidImageName`] for an invalid repository name.
    pub fn of(path: &str) -> Option<Result<Self, InvalidImageName>> {
        if !is_registry_path(path) {
            return None;
        }
        if path == TOKENS {
            return Some(Ok(Self::Tokens));
        }
        let rest = path.strip_prefix(ROOT)?;
        let Some(rest) = rest.strip_prefix('/').filter(|rest| !rest.is_empty()) else {
            return Some(Ok(Self::Base));
        };
        let Some((name, what)) = split(rest) else {
            return Some(Ok(Self::Nothing));
        };
        let name = percent_decode_str(name).decode_utf8_lossy();
        Some(ImageName::parse(&name).map(|name| Self::Of(name, what)))
    }
}

fn split(path: &str) -> Option<(&str, RepositoryResource)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let path = match path.strip_suffix("/blobs/uploads/") {
        Some(name) => return Some((name, RepositoryResource::Uploads)),
        None => path,
    };
    let (rest, last) = path.rsplit_once('/')?;
    if let Some(name) = rest.strip_suffix("/blobs/uploads") {
        return Some((name, RepositoryResource::Upload(decoded(last))));
    }
    let (name, kind) = rest.rsplit_once('/')?;
    let what = match (kind, last) {
        ("tags", "list") => RepositoryResource::Tags,
        ("blobs", "uploads") => RepositoryResource::Uploads,
        (_, "") => return None,
        ("manifests", reference) => RepositoryResource::Manifest(decoded(reference)),
        ("blobs", digest) => RepositoryResource::Blob(decoded(digest)),
        ("referrers", digest) => RepositoryResource::Referrers(decoded(digest)),
        _ => return None,
    };
    Some((name, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> (String, RepositoryResource) {
        match RegistryPath::of(path) {
            Some(Ok(RegistryPath::Of(name, what))) => (name.to_string(), what),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn registry_path_is_parsed_from_its_end() {
        for (path, name, what) in [
            ("/v2/a/b/tags/list", "a/b", RepositoryResource::Tags),
            (
                "/v2/a/tags/list/tags/list",
                "a/tags/list",
                RepositoryResource::Tags,
            ),
            (
                "/v2/a/b/c/d/manifests/latest",
                "a/b/c/d",
                RepositoryResource::Manifest("latest".to_owned()),
            ),
            (
                "/v2/a/b/manifests/sha256%3Aab",
                "a/b",
                RepositoryResource::Manifest("sha256:ab".to_owned()),
            ),
            (
                "/v2/a/b/blobs/sha256:ab",
                "a/b",
                RepositoryResource::Blob("sha256:ab".to_owned()),
            ),
            ("/v2/a/b/blobs/uploads/", "a/b", RepositoryResource::Uploads),
            ("/v2/a/b/blobs/uploads", "a/b", RepositoryResource::Uploads),
            (
                "/v2/a/b/blobs/uploads/u-1",
                "a/b",
                RepositoryResource::Upload("u-1".to_owned()),
            ),
            (
                "/v2/a/b/referrers/sha256:ab",
                "a/b",
                RepositoryResource::Referrers("sha256:ab".to_owned()),
            ),
        ] {
            assert_eq!(named(path), (name.to_owned(), what), "{path}");
        }
    }

    #[test]
    fn base_token_unknown_and_invalid_paths_are_distinguished() {
        for path in ["/v2", "/v2/"] {
            assert!(
                matches!(RegistryPath::of(path), Some(Ok(RegistryPath::Base))),
                "{path}"
            );
        }
        assert!(matches!(
            RegistryPath::of("/jwt/auth"),
            Some(Ok(RegistryPath::Tokens))
        ));
        for path in [
            "/v2/_catalog",
            "/v2/a/b",
            "/v2/a/b/manifests/",
            "/v2/a/b/blobs/",
            "/v2//",
        ] {
            assert!(
                matches!(RegistryPath::of(path), Some(Ok(RegistryPath::Nothing))),
                "{path}"
            );
        }
        for path in [
            "/v2/A/b/tags/list",
            "/v2/a%2f/tags/list",
            "/v2/../tags/list",
            "/v2/a/%FF/tags/list",
        ] {
            assert!(matches!(RegistryPath::of(path), Some(Err(_))), "{path}");
        }
        for path in ["/", "/v2x", "/v1/", "/jwt", "/jwt/auth/x", "/api/v4/v2/"] {
            assert!(RegistryPath::of(path).is_none(), "{path}");
        }
    }

    #[test]
    fn blob_requests_are_long_running() {
        assert!(
            accepts_large_body("/v2/a/b/blobs/uploads/x") && accepts_large_body("/v2/a/b/blobs/sha256:x")
        );
        assert!(!accepts_large_body("/v2/a/b/manifests/x") && !accepts_large_body("/a/blobs/x"));
    }
}
