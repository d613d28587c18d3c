//! The one kind of path that the specification writes with a slash at its end (4.15): it may be there, or not.

use poem::http::Uri;
use poem::{Request, Result};

/// How such a path ends.
const ENDING: &str = "/metrics_dashboard/annotations/";

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
    let path = path.ends_with(ENDING).then(|| path.strip_suffix('/'))??;
    let mut parts = uri.clone().into_parts();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    parts.path_and_query = Some(format!("{path}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_annotations_lose_their_slash() {
        let after = |uri: &str| trimmed(&uri.parse().expect("a path")).map(|uri| uri.to_string());
        let path = "/api/v4/environments/1/metrics_dashboard/annotations";
        assert_eq!(after(&format!("{path}/")).as_deref(), Some(path));
        let expected = format!("{path}?a=%2F");
        assert_eq!(after(&format!("{path}/?a=%2F")), Some(expected));
        for other in [path, "/api/v4/projects/", "/", "/api/v4/projects/1/variables/"] {
            assert_eq!(after(other), None, "{other}");
        }
    }
}
