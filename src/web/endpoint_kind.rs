//! Kinds of endpoints outside of the contract, for metrics and traces.

use parsers::registry;

use super::docs::is_document;
use super::git_http;

/// Returns the kind of an endpoint by its raw path: `git`, `registry`, `health`, `page`, or `unmatched` for the paths of
/// operations and all other paths.
pub(super) fn endpoint_kind(path: &str) -> &'static str {
    // The server accepts one more slash at the beginning.
    let path = path
        .strip_prefix('/')
        .filter(|rest| rest.starts_with('/'))
        .unwrap_or(path);
    let below = |root: &str| {
        let rest = path.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match path {
        "/" | "/-/session" => "page",
        _ if is_document(path) => "page",
        "/-/health" | "/-/liveness" | "/-/readiness" | "/-/metrics" => "health",
        _ if below("/api") => "unmatched",
        _ if ["/-/archive/", "/-/raw/", "/-/releases/"]
            .iter()
            .any(|page| path.contains(page)) =>
        {
            "page"
        }
        _ if path.ends_with(".keys") || path.ends_with(".gpg") => "page",
        _ if git_http::is_git_path(path) => "git",
        _ if registry::is_registry_path(path) => "registry",
        _ if below("/docs") || below("/users") || below("/oauth") || below("/.well-known") => "page",
        _ if path.contains("/uploads/") || below("/uploads") => "page",
        _ => "unmatched",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_of_few_kinds() {
        for (path, kind) in [
            ("/api/v4/projects", "unmatched"),
            ("/api/v4/openapi.json", "page"),
            ("/api/v4/openapi-3.1.yaml", "page"),
            ("/g/p.git/info/refs", "git"),
            ("//g/p.git/git-upload-pack", "git"),
            ("/v2/", "registry"),
            ("/-/metrics", "health"),
            ("//-/health", "health"),
            ("/docs/index.css", "page"),
            ("/oauth/token", "page"),
            ("/g/p/uploads/0/a.png", "page"),
            ("/g/p/-/archive/main/p.zip", "page"),
            ("/g/p/-/raw/main/a", "page"),
            ("/g/p/-/releases/v1/downloads/a", "page"),
            ("/ada.keys", "page"),
            ("/ada.gpg", "page"),
            ("/", "page"),
            ("/wp-login.php", "unmatched"),
        ] {
            assert_eq!(endpoint_kind(path), kind, "{path}");
        }
    }
}
