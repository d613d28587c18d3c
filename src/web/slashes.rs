//! Paths that may have a slash at their end: those that the specification writes with one (4.15), and older ones to which
//! clients add one.

use poem::http::Uri;
use poem::{Request, Result};

/// How paths end that are written so.
const ENDING: &str = "/metrics_dashboard/annotations/";
/// How paths begin of lists to which clients add a slash.
const LISTS: &str = "/api/v4/templates/";

/// Takes the last slash from such a path. Others are told apart by theirs, as everywhere.
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
    let list = path.strip_prefix(LISTS).and_then(|rest| rest.strip_suffix('/'));
    let list = list.is_some_and(|name| !name.is_empty() && !name.contains('/'));
    let path = (list || path.ends_with(ENDING)).then(|| path.strip_suffix('/'))??;
    let mut parts = uri.clone().into_parts();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_annotations_and_lists_of_templates_lose_their_slash() {
        let after = |uri: &str| trimmed(&uri.parse().expect("a path")).map(|uri| uri.to_string());
        let path = "/api/v4/environments/1/metrics_dashboard/annotations";
        assert_eq!(after(&format!("{path}/")).as_deref(), Some(path));
        let expected = format!("{path}?a=%2F");
        assert_eq!(after(&format!("{path}/?a=%2F")), Some(expected));
        let list = "/api/v4/templates/dockerfiles";
        assert_eq!(after(&format!("{list}/?page=2")), Some(format!("{list}?page=2")));
        for other in [
            path,
            list,
            "/",
            "/api/v4/projects/",
            "/api/v4/projects/1/variables/",
            "/api/v4/projects/1/templates/dockerfiles/",
            "/api/v4/templates/",
            "/api/v4/templates//",
            "/api/v4/templates/dockerfiles/Rust/",
        ] {
            assert_eq!(after(other), None, "{other}");
        }
    }
}
