//! Requests of package managers: uploads, which take longer than other requests, and paths with the names of packages.

pub(super) mod paths;

use poem::http::Method;

/// Returns whether the body of a request can contain a package, which can take longer to arrive than the time limit of a
/// request. The body must arrive at a minimum rate, like all bodies.
pub(super) fn accepts_large_body(method: &Method, path: &str) -> bool {
    // The server accepts one more slash at the beginning.
    let path = path
        .strip_prefix('/')
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(path);
    let rest = path.strip_prefix("/api/v4/projects/");
    let below = rest.and_then(|rest| rest.split_once('/')).map(|(_, below)| below);
    matches!(*method, Method::PUT | Method::POST) && below.is_some_and(|below| below.starts_with("packages/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uploads_of_packages_have_no_time_limit() {
        let generic = "/api/v4/projects/1/packages/generic/a/1/f";
        assert!(accepts_large_body(&Method::PUT, generic));
        assert!(accepts_large_body(&Method::PUT, &format!("/{generic}")));
        assert!(accepts_large_body(
            &Method::POST,
            "/api/v4/projects/g%2Fp/packages/pypi"
        ));
        assert!(!accepts_large_body(&Method::GET, generic));
        for path in [
            "/api/v4/projects/1/packages",
            "/api/v4/projects/packages/1",
            "/api/v4/groups/1/packages/x",
            "/api/v4/projects/1/issues/packages/",
        ] {
            assert!(!accepts_large_body(&Method::PUT, path), "{path}");
        }
    }
}
