//! URLs of pages and avatars.

pub use domain::kernel::urls::{avatar_url, user_avatar_url};

use domain::kernel::urls::encode_path;

/// Returns the URL of a branch; `project_url` is the URL of the project's page.
#[must_use]
pub fn branch(project_url: &str, name: &str) -> String {
    format!("{project_url}/-/tree/{}", encode_path(name))
}

/// Returns the URL of a file; `project_url` is the URL of the project's page.
#[must_use]
pub fn file(project_url: &str, branch: &str, path: &str) -> String {
    let (branch, path) = (encode_path(branch), encode_path(path));
    format!("{project_url}/-/blob/{branch}/{path}")
}

/// Returns the URL of a group.
#[must_use]
pub fn group(base: &str, full_path: &str) -> String {
    format!("{base}/groups/{full_path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_url_escapes_name_except_slashes() {
        assert_eq!(branch("http://h/a/b", "x/y-1.0"), "http://h/a/b/-/tree/x/y-1.0");
        assert_eq!(
            branch("http://h/a/b", "ä#?%"),
            "http://h/a/b/-/tree/%C3%A4%23%3F%25"
        );
    }
}
