//! Checks of the parser of paths in a Maven repository.

use std::str;

use crate::maven::MavenPath;

/// Parses a path. An accepted path is restored from its parts, which contain no characters with a meaning in paths or XML.
pub fn maven_path(input: &[u8]) {
    let Ok(path) = str::from_utf8(input) else {
        return;
    };
    let Ok(parsed) = MavenPath::parse(path) else {
        return;
    };
    assert_eq!(parsed.to_string(), path);
    let version = parsed.version().unwrap_or("1");
    let parts = parsed.name().split('/').chain([version, parsed.file_name()]);
    for part in parts {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        assert!(
            !part.is_empty() && !part.starts_with('.') && !part.contains("..") && part.chars().all(is_plain),
            "{part:?}"
        );
    }
}
