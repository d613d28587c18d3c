//! Paths of the API with an extra slash: a trailing slash, which some clients append to every path, and the second slash
//! that a common client sends before the name of a feature gate.

use poem::http::Uri;
use poem::{Request, Result};

/// Prefix of the paths of the API.
const API: &str = "/api/";
/// Prefix of feature gate paths.
const GATES: &str = "/api/v4/features/";

/// Removes the extra slash from such a path. The request is not redirected, because clients do not repeat the body of
/// a write after a redirect. In all other paths slashes are significant.
///
/// # Errors
/// Never fails.
pub async fn remove_extra_slash(mut request: Request) -> Result<Request> {
    if let Some(uri) = trimmed(request.uri()) {
        *request.uri_mut() = uri;
    }
    Ok(request)
}

fn trimmed(uri: &Uri) -> Option<Uri> {
    let path = without_extra_slash(uri.path())?;
    let mut parts = uri.clone().into_parts();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the path without the extra slash, if it has one.
pub(super) fn without_extra_slash(path: &str) -> Option<String> {
    if let Some(gate) = path.strip_prefix(GATES).and_then(|rest| rest.strip_prefix('/')) {
        return Some(format!("{GATES}{}", gate.strip_suffix('/').unwrap_or(gate)));
    }
    let shorter = path.strip_suffix('/')?;
    // Two slashes at the end are an empty name, which is not the resource above it.
    (shorter.starts_with(API) && !shorter.ends_with('/')).then(|| shorter.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(uri: &str) -> Option<String> {
        trimmed(&uri.parse().expect("a path")).map(|uri| uri.to_string())
    }

    #[test]
    fn extra_slash_is_removed() {
        let annotations = "/api/v4/environments/1/metrics_dashboard/annotations";
        for (sent, expected) in [
            (format!("{annotations}/"), annotations.to_owned()),
            (format!("{annotations}/?a=%2F"), format!("{annotations}?a=%2F")),
            (
                "/api/v4/projects/?page=2".to_owned(),
                "/api/v4/projects?page=2".to_owned(),
            ),
            (
                "/api/v4/projects/a%2Fb/".to_owned(),
                "/api/v4/projects/a%2Fb".to_owned(),
            ),
            (
                "/api/scim/v2/groups/a/Users/".to_owned(),
                "/api/scim/v2/groups/a/Users".to_owned(),
            ),
            ("/api/v4/features/".to_owned(), "/api/v4/features".to_owned()),
            (
                "/api/v4/features/walk/".to_owned(),
                "/api/v4/features/walk".to_owned(),
            ),
            (
                "/api/v4/features//walk?value=1".to_owned(),
                "/api/v4/features/walk?value=1".to_owned(),
            ),
        ] {
            assert_eq!(after(&sent), Some(expected), "{sent}");
        }
    }

    #[test]
    fn slashes_of_other_paths_are_unchanged() {
        for path in [
            "/api/v4/environments/1/metrics_dashboard/annotations",
            "/api/v4/templates//",
            "/api/v4/features",
            "/api/v4/features/walk",
            "/api/v4/projects//",
            "/api/",
            "/docs/",
            "/v2/",
            "/",
        ] {
            assert_eq!(after(path), None, "{path}");
        }
    }
}
