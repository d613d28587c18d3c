//! Permanent addresses of the assets and the evidence of releases, below `/<namespace>/<project>/-/releases/`:
//!
//! - `<tag>/downloads/<path>` and `permalink/latest/downloads/<path>` redirect to a linked asset.
//! - `<tag>/evidences/<id>.json` returns an evidence.

use domain::identity::access::ProjectAccess;
use domain::kernel::Backend;
use domain::kernel::error::{Error, Result};
use domain::releases::{evidence, links, listing};
use percent_encoding::percent_decode_str;
use poem::Response;
use poem::http::header::LOCATION;
use poem::http::{HeaderValue, StatusCode};

/// Address of the latest release.
const LATEST: &str = "permalink/latest";

/// A part of a release.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReleasePart {
    /// A linked asset.
    Asset {
        /// The tag; the latest release by default.
        tag: Option<String>,
        /// The path without its leading slash.
        path: String,
    },
    /// An evidence.
    Evidence {
        /// The tag.
        tag: String,
        /// The ID.
        id: i64,
    },
}

impl ReleasePart {
    /// Parses the raw address below `releases/`; `None` for other addresses.
    pub(super) fn of(rest: &str) -> Option<Self> {
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8().ok()?;
            (!text.is_empty() && !text.contains('\0')).then(|| text.into_owned())
        };
        if let Some((tag, path)) = rest.split_once("/downloads/") {
            let tag = match tag {
                LATEST => None,
                tag => Some(decoded(tag)?),
            };
            let path = decoded(path)?;
            return Some(Self::Asset { tag, path });
        }
        let (tag, file) = rest.split_once("/evidences/")?;
        let id = file.strip_suffix(".json")?;
        let id = id
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| id.parse().ok())??;
        let tag = decoded(tag)?;
        Some(Self::Evidence { tag, id })
    }
}

/// Returns the response for a part of a release. The address does not exist for callers without access to releases.
pub(super) async fn answer(backend: &Backend, access: &ProjectAccess, part: ReleasePart) -> Result<Response> {
    if !access.can_use_releases() {
        return Err(Error::not_found("Project"));
    }
    match part {
        ReleasePart::Asset { tag, path } => {
            let tag = match tag {
                Some(tag) => tag,
                None => listing::latest_tag(backend, access).await?,
            };
            let url = links::download_url(backend, access, &tag, &path).await?;
            let location = HeaderValue::try_from(url).map_err(Error::internal)?;
            Ok(Response::builder()
                .status(StatusCode::FOUND)
                .header(LOCATION, location)
                .finish())
        }
        ReleasePart::Evidence { tag, id } => {
            let text = evidence::open(backend, access, &tag, id).await?;
            Ok(Response::builder().content_type("application/json").body(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asset(tag: Option<&str>, path: &str) -> Option<ReleasePart> {
        let (tag, path) = (tag.map(str::to_owned), path.to_owned());
        Some(ReleasePart::Asset { tag, path })
    }

    #[test]
    fn address_has_tag_and_path() {
        assert_eq!(ReleasePart::of("v1/downloads/bin/a"), asset(Some("v1"), "bin/a"));
        assert_eq!(ReleasePart::of("a%2Fb/downloads/c"), asset(Some("a/b"), "c"));
        assert_eq!(ReleasePart::of("a/b/downloads/c"), asset(Some("a/b"), "c"));
        assert_eq!(ReleasePart::of("permalink/latest/downloads/c"), asset(None, "c"));
        let tag = "v1".to_owned();
        assert_eq!(
            ReleasePart::of("v1/evidences/7.json"),
            Some(ReleasePart::Evidence { tag, id: 7 })
        );
    }

    #[test]
    fn other_addresses_are_no_parts() {
        for address in [
            "v1",
            "v1/edit",
            "v1/downloads/",
            "/downloads/a",
            "v1/downloads/%00",
            "v1/downloads/%ff",
            "v1/evidences/x.json",
            "v1/evidences/+1.json",
            "v1/evidences/7",
            "v1/evidences/99999999999999999999.json",
            "/evidences/7.json",
        ] {
            assert_eq!(ReleasePart::of(address), None, "{address}");
        }
    }
}
