//! URLs in API responses and webhooks, and validation of URLs in requests.

use std::collections::{BTreeSet, HashMap};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::{namespaces, projects};
use url::Url;

use crate::kernel::error::{Error, Result};

/// Characters that are encoded in a segment of a URL path: all except the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Characters that are encoded in a URL path of several segments.
const PATH: &AsciiSet = &SEGMENT.remove(b'/');

/// Encodes a text as one segment of a URL path.
#[must_use]
pub fn encode_segment(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, SEGMENT)
}

/// Encodes a text as a part of a URL path. Slashes separate segments.
#[must_use]
pub fn encode_path(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, PATH)
}

/// Returns the URL of an avatar, if there is one. `kind` is `group` or `project`.
#[must_use]
pub fn avatar_url(base: &str, kind: &str, id: i64, file: Option<&str>) -> Option<String> {
    file.map(|file| avatar_file_url(base, kind, id, file))
}

/// File name of the image that is generated for a user without an avatar. No uploaded avatar is an SVG.
pub const IDENTICON: &str = "identicon.svg";

/// Returns the URL of the avatar of a user, or of the image that is generated for a user without one.
#[must_use]
pub fn user_avatar_url(base: &str, id: i64, file: Option<&str>) -> String {
    avatar_file_url(base, "user", id, file.unwrap_or(IDENTICON))
}

fn avatar_file_url(base: &str, kind: &str, id: i64, file: &str) -> String {
    format!("{base}/uploads/-/system/{kind}/avatar/{id}/{file}")
}

/// Returns the full path of a project.
#[must_use]
pub fn project_path(namespace: &namespaces::Model, project: &projects::Model) -> String {
    format!("{}/{}", namespace.full_path, project.path)
}

/// Returns the full paths of projects by their IDs.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn project_paths(
    db: &impl ConnectionTrait,
    project_ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, String>> {
    let project_ids: BTreeSet<i64> = project_ids.into_iter().collect();
    if project_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = projects::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(projects::Column::Id.is_in(project_ids))
        .all(db)
        .await?;
    let paths = found.into_iter().filter_map(|(project, namespace)| {
        let path = project_path(&namespace?, &project);
        Some((project.id, path))
    });
    Ok(paths.collect())
}

/// Returns the path of an image in the registry. Container tools require lowercase.
#[must_use]
pub fn image_path(project_path: &str, name: &str) -> String {
    let path = match name {
        "" => project_path.to_owned(),
        name => format!("{project_path}/{name}"),
    };
    path.to_lowercase()
}

/// Returns the registry host for container tools: the host of the server, with its port.
#[must_use]
pub fn registry_host(base: &str) -> &str {
    let host = base.split_once("://").map_or(base, |(_, rest)| rest);
    host.split('/').next().unwrap_or_default()
}

/// Validates an HTTP URL, which may contain placeholders after its host.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the scheme is not http or https, the host is missing, or the URL
/// contains whitespace or control characters.
pub fn check_http_url(attribute: &'static str, url: &str) -> Result<()> {
    let plain = !url
        .chars()
        .any(|char| char.is_whitespace() || char.is_control() || "<>\"\\".contains(char));
    let web = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if plain && web {
        Ok(())
    } else {
        Err(Error::attribute(
            attribute,
            "is blocked: Only allowed schemes are http, https",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_encode_slashes() {
        assert_eq!(encode_segment("a/b-1.0+c").to_string(), "a%2Fb-1.0%2Bc");
        assert_eq!(encode_path("a/b-1.0+c").to_string(), "a/b-1.0%2Bc");
    }

    #[test]
    fn image_name_has_registry_host_and_path() {
        assert_eq!(image_path("Engines/Difference", ""), "engines/difference");
        assert_eq!(image_path("Engines/Difference", "a/b"), "engines/difference/a/b");
        for (base, host) in [
            ("https://git.example.com", "git.example.com"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("https://git.example.com:8443/below", "git.example.com:8443"),
        ] {
            assert_eq!(registry_host(base), host);
        }
    }

    #[test]
    fn web_url_requires_http_and_host() {
        for good in [
            "https://h/%{project_path}?a=%{commit_sha}",
            "http://h:8080",
            "https://[::1]/x",
        ] {
            assert!(check_http_url("link_url", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "h/x",
            "//h/x",
            "javascript:alert(1)",
            "data:text/html,x",
            "ftp://h/x",
            "https://",
            "https:///",
            "http://h/ x",
            "https://h/\"><script>",
            "https://h\n/x",
            "https://%{project_path}/x",
            "file:///etc/passwd",
        ] {
            assert!(check_http_url("link_url", bad).is_err(), "{bad}");
        }
    }
}
