//! Paths of npm packages whose name has a scope: npm encodes the slash in `@scope/name` in most requests, but not in the URLs of
//! archives, and other clients never encode it.

use poem::http::Uri;
use poem::{Request, Result};

/// Prefix of the paths of the API.
const API: &str = "/api/v4/";
/// Path of the npm registry, below the path of its project or group.
const NPM: &str = "packages/npm/";
/// Path of the tags of packages, below the npm registry.
const TAGS: &str = "-/package/";

/// Encodes the slash of a scoped name, so that the name is one segment of the path.
///
/// # Errors
/// Never fails.
pub async fn encode_scope(mut request: Request) -> Result<Request> {
    if let Some(uri) = encoded(request.uri()) {
        *request.uri_mut() = uri;
    }
    Ok(request)
}

fn encoded(uri: &Uri) -> Option<Uri> {
    let path = uri.path();
    let name = name_start(path)?;
    let end = name + path.get(name..)?.find('/')?;
    let scope = path.get(name..end)?;
    let is_scope = scope.starts_with('@')
        || scope
            .get(..3)
            .is_some_and(|start| start.eq_ignore_ascii_case("%40"));
    // The name is one segment already.
    let has_slash = || scope.to_ascii_lowercase().contains("%2f");
    if !is_scope || has_slash() {
        return None;
    }
    let (head, rest) = (path.get(..end)?, path.get(end + 1..)?);
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{head}%2F{rest}{query}").parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Returns the position of the name of a package in a path of an npm registry.
fn name_start(path: &str) -> Option<usize> {
    let below = path.strip_prefix(API)?;
    let registry = match below.split_once('/')? {
        ("projects", rest) => rest.split_once('/')?.1,
        ("groups", rest) => rest.split_once('/')?.1.strip_prefix("-/")?,
        _ => below,
    };
    let name = registry.strip_prefix(NPM)?;
    let name = name.strip_prefix(TAGS).unwrap_or(name);
    Some(path.len() - name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(uri: &str) -> Option<String> {
        encoded(&uri.parse().expect("a path")).map(|uri| uri.to_string())
    }

    #[test]
    fn slash_of_scope_is_encoded() {
        for (sent, expected) in [
            (
                "/api/v4/projects/1/packages/npm/@a/b",
                "/api/v4/projects/1/packages/npm/@a%2Fb",
            ),
            (
                "/api/v4/projects/g%2Fp/packages/npm/%40a/b?write=true",
                "/api/v4/projects/g%2Fp/packages/npm/%40a%2Fb?write=true",
            ),
            (
                "/api/v4/groups/1/-/packages/npm/@a/b/-/@a/b-1.0.0.tgz",
                "/api/v4/groups/1/-/packages/npm/@a%2Fb/-/@a/b-1.0.0.tgz",
            ),
            ("/api/v4/packages/npm/@a/b", "/api/v4/packages/npm/@a%2Fb"),
            (
                "/api/v4/projects/1/packages/npm/-/package/@a/b/dist-tags/next",
                "/api/v4/projects/1/packages/npm/-/package/@a%2Fb/dist-tags/next",
            ),
        ] {
            assert_eq!(after(sent).as_deref(), Some(expected), "{sent}");
        }
    }

    #[test]
    fn other_paths_are_unchanged() {
        for path in [
            "/api/v4/projects/1/packages/npm/@a%2fb",
            "/api/v4/projects/1/packages/npm/@a%2Fb/-/@a/b-1.0.0.tgz",
            "/api/v4/projects/1/packages/npm/@a",
            "/api/v4/projects/1/packages/npm/a/-/a-1.0.0.tgz",
            "/api/v4/projects/1/packages/npm/-/npm/v1/security/audits/quick",
            "/api/v4/projects/1/releases/permalink/latest/packages/npm/@a/b",
            "/api/v4/groups/1/packages/npm/@a/b",
            "/api/v4/projects/packages/npm/@a/b",
            "/g/p/packages/npm/@a/b",
            "/",
        ] {
            assert_eq!(after(path), None, "{path}");
        }
    }
}
