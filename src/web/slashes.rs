//! The paths that are written with a slash too many: those of annotations by the specification (4.15), those of feature gates and
//! the older lists of templates by a client that many use. The slash may be there, or not.

use poem::http::Uri;
use poem::{Request, Result};

/// How the paths of annotations end.
const ANNOTATIONS: &str = "/metrics_dashboard/annotations/";
/// How the paths of feature gates begin.
const GATES: &str = "/api/v4/features/";
/// How the paths of the older lists of templates begin.
const TEMPLATES: &str = "/api/v4/templates/";

/// Takes the slash too many from such a path. Others are told apart by theirs, as everywhere.
///
/// # Errors
/// Never.
pub async fn trim(mut request: Request) -> Result<Request> {
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

/// The path that is meant, where it is another.
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
    fn a_slash_too_many_is_taken_away() {
        let annotations = "/api/v4/environments/1/metrics_dashboard/annotations";
        let list = "/api/v4/templates/dockerfiles";
        for (sent, meant) in [
            (format!("{annotations}/"), annotations.to_owned()),
            (format!("{annotations}/?a=%2F"), format!("{annotations}?a=%2F")),
            (format!("{list}/?page=2"), format!("{list}?page=2")),
            ("/api/v4/features/".to_owned(), "/api/v4/features".to_owned()),
            (
                "/api/v4/features//walk?value=1".to_owned(),
                "/api/v4/features/walk?value=1".to_owned(),
            ),
        ] {
            assert_eq!(after(&sent), Some(meant), "{sent}");
        }
    }

    #[test]
    fn others_keep_theirs() {
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
