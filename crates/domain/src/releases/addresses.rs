//! URLs of releases and their assets. `project_url` is the URL of the page of the project.

use crate::kernel::urls::encode_segment;

/// Formats of the source archives of a release: those that the server creates.
pub const SOURCE_FORMATS: [&str; 4] = ["zip", "tar.gz", "tar.bz2", "tar"];

/// Returns the URL of a release.
#[must_use]
pub fn page(project_url: &str, tag: &str) -> String {
    format!("{project_url}/-/releases/{}", encode_segment(tag))
}

/// Returns the URL of a source archive. `project` is the path of the project in its namespace.
#[must_use]
pub fn source(project_url: &str, project: &str, tag: &str, format: &str) -> String {
    let name = format!("{project}-{}", tag.replace('/', "-"));
    let file = encode_segment(&name);
    format!("{project_url}/-/archive/{}/{file}.{format}", encode_segment(tag))
}

/// Returns the URL by which a linked asset is downloaded.
#[must_use]
pub fn asset(project_url: &str, tag: &str, url: &str, filepath: Option<&str>) -> String {
    match filepath {
        Some(path) => format!("{}/downloads{path}", page(project_url, tag)),
        None => url.to_owned(),
    }
}

/// Returns whether a linked asset is not below the page of the project.
#[must_use]
pub fn is_external(project_url: &str, url: &str) -> bool {
    let rest = url.strip_prefix(project_url);
    rest.is_none_or(|rest| !(rest.is_empty() || rest.starts_with(['/', '?', '#'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_url_has_tag_as_one_segment() {
        assert_eq!(
            source("https://h/a/b", "b", "v/1+2", "zip"),
            "https://h/a/b/-/archive/v%2F1%2B2/b-v-1%2B2.zip"
        );
    }

    #[test]
    fn asset_url_is_the_permanent_one_if_the_link_has_a_path() {
        let asset = |path| asset("https://h/a/b", "v1", "https://x/y", path);
        assert_eq!(asset(None), "https://x/y");
        assert_eq!(
            asset(Some("/bin/z")),
            "https://h/a/b/-/releases/v1/downloads/bin/z"
        );
    }

    #[test]
    fn urls_below_the_project_are_not_external() {
        assert!(!is_external("https://h/a/b", "https://h/a/b/-/x"));
        assert!(is_external("https://h/a/b", "https://h/a/bc"));
        assert!(is_external("https://h/a/b", "https://x/"));
    }
}
