//! Paths with an extra slash: annotations end with one in the API, and a common client adds one to feature
//! gates and the older template lists. The slash is optional in all of them.

use poem::http::Uri;
use poem::{Request, Result};

/// Suffix of annotation paths.
const ANNOTATIONS: &str = "/metrics_dashboard/annotations/";
/// Prefix of feature gate paths.
const GATES: &str = "/api/v4/features/";
/// Prefix of the older template list paths.
const TEMPLATES: &str = "/api/v4/templates/";

/// Removes the extra slash from such a path. In all other paths slashes are significant.
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
    let path = path_of(uri.path())?;
    let mut parts = uri.clone().into_parts();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the path without the extra slash, if it has one.
fn path_of(path: &str) -> Option<String> {
    if let Some(gate) = path.strip_prefix(GATES).and_then(|rest| rest.strip_prefix('/')) {
        return Some(format!("{GATES}{gate}"));
    }
    let list = path
        .strip_prefix(TEMPLATES)
        .and_then(|rest| rest.strip_suffix('/'));
    let list = list.is_some_and(|name| !name.is_empty() && !name.contains('/'));
    let at_end = list || path == GATES || path.ends_with(ANNOTATIONS);
    path.strip_suffix('/').filter(|_| at_end).map(str::to_owned)
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
        let list = "/api/v4/templates/dockerfiles";
        for (sent, expected) in [
            (format!("{annotations}/"), annotations.to_owned()),
            (format!("{annotations}/?a=%2F"), format!("{annotations}?a=%2F")),
            (format!("{list}/?page=2"), format!("{list}?page=2")),
            ("/api/v4/features/".to_owned(), "/api/v4/features".to_owned()),
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
            "/api/v4/templates/dockerfiles",
            "/api/v4/templates/dockerfiles/Rust/",
            "/api/v4/templates/",
            "/api/v4/templates//",
            "/api/v4/features",
            "/api/v4/features/walk",
            "/api/v4/features/walk/",
            "/api/v4/projects/",
            "/api/v4/projects/1/variables/",
            "/api/v4/projects/1/templates/dockerfiles/",
            "/",
        ] {
            assert_eq!(after(path), None, "{path}");
        }
    }
}
