//! The paths that are written with a slash too many: those of annotations, by the specification (4.15), and those of feature
//! gates, by a client that many use. The slash may be there, or not.

use poem::http::Uri;
use poem::{Request, Result};

/// How the path of annotations ends.
const ANNOTATIONS: &str = "/metrics_dashboard/annotations/";

/// How the paths of feature gates begin.
const GATES: &str = "/api/v4/features/";

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
    let path = uri.path();
    let path = match path.strip_prefix(GATES) {
        // The list, and a gate behind two slashes.
        Some("") => path.strip_suffix('/')?.to_owned(),
        Some(rest) => format!("{GATES}{}", rest.strip_prefix('/')?),
        None => path
            .strip_suffix('/')
            .filter(|_| path.ends_with(ANNOTATIONS))?
            .to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(uri: &str) -> Option<String> {
        trimmed(&uri.parse().expect("a path")).map(|uri| uri.to_string())
    }

    #[test]
    fn annotations_lose_the_slash_at_the_end() {
        let path = "/api/v4/environments/1/metrics_dashboard/annotations";
        assert_eq!(after(&format!("{path}/")).as_deref(), Some(path));
        let expected = format!("{path}?a=%2F");
        assert_eq!(after(&format!("{path}/?a=%2F")), Some(expected));
    }

    #[test]
    fn feature_gates_lose_the_slash_before_their_names() {
        for (sent, meant) in [
            ("/api/v4/features/", "/api/v4/features"),
            ("/api/v4/features/?page=2", "/api/v4/features?page=2"),
            ("/api/v4/features//walk", "/api/v4/features/walk"),
            ("/api/v4/features//walk?value=1", "/api/v4/features/walk?value=1"),
        ] {
            assert_eq!(after(sent).as_deref(), Some(meant), "{sent}");
        }
    }

    #[test]
    fn others_keep_theirs() {
        for path in [
            "/api/v4/environments/1/metrics_dashboard/annotations",
            "/api/v4/features",
            "/api/v4/features/walk",
            "/api/v4/features/walk/",
            "/api/v4/projects/",
            "/",
            "/api/v4/projects/1/variables/",
        ] {
            assert_eq!(after(path), None, "{path}");
        }
    }
}
