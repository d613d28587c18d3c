//! Python packages: names, versions and file names as uploaded by `twine`.

mod version;

pub use version::is_version;

/// Maximum length of a name, in bytes.
const MAX_BYTES: usize = 255;
/// Maximum length of a file name, in bytes.
const MAX_FILE_NAME_BYTES: usize = 255;
/// Extensions of distributions, in lowercase.
const EXTENSIONS: [&str; 6] = [".whl", ".tar.gz", ".zip", ".tar.bz2", ".tar.xz", ".egg"];

/// Returns whether a text is a valid name: letters and digits, with `.`, `_` and `-` between them (core metadata, `Name`).
#[must_use]
pub fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= MAX_BYTES
        && is_end(bytes.first())
        && is_end(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || is_separator(*byte))
}

/// Returns the form in which names are compared: lowercase, with `-` for each run of `.`, `_` and `-` (PEP 503).
#[must_use]
pub fn normalize(name: &str) -> String {
    let mut normalized = String::with_capacity(name.len());
    for c in name.chars() {
        match matches!(c, '-' | '_' | '.') {
            true if normalized.ends_with('-') => {}
            true => normalized.push('-'),
            false => normalized.push(c.to_ascii_lowercase()),
        }
    }
    normalized
}

/// Returns whether a text is a valid name of a distribution of a package: a wheel or a source archive whose name starts with
/// the name of the package.
#[must_use]
pub fn is_file_name(text: &str, package_name: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || is_separator(byte) || matches!(byte, b'+' | b'!');
    let lower = text.to_ascii_lowercase();
    let package_name = normalize(package_name);
    let is_package = |end: usize| {
        text.get(..end)
            .is_some_and(|start| normalize(start) == package_name)
    };
    text.len() <= MAX_FILE_NAME_BYTES
        && text.bytes().all(is_allowed)
        && EXTENSIONS.iter().any(|extension| lower.ends_with(extension))
        && text.match_indices('-').any(|(end, _)| is_package(end))
}

/// Returns whether a text is a hexadecimal digest with this number of digits.
#[must_use]
pub fn is_digest(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'.' | b'_' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_names_are_normalized() {
        for (name, normalized) in [
            ("Django", "django"),
            ("zope.interface", "zope-interface"),
            ("a-_.B__c", "a-b-c"),
            ("x", "x"),
        ] {
            assert!(is_name(name), "{name}");
            assert_eq!(normalize(name), normalized);
            assert_eq!(normalize(normalized), normalized);
        }
        let long = "a".repeat(256);
        for bad in [
            "",
            "-a",
            "a-",
            ".a",
            "a.",
            "_",
            "a b",
            "a/b",
            "..",
            "ä",
            "a\0",
            "a+b",
            long.as_str(),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(is_name(&long[1..]));
    }

    #[test]
    fn file_name_starts_with_package_name() {
        for good in [
            "my.pkg-1.0.tar.gz",
            "my_pkg-1.0-py3-none-any.whl",
            "My_Pkg-1.0+local.1-cp312-cp312-manylinux_2_17_x86_64.whl",
            "my-pkg-1!2.0.zip",
        ] {
            assert!(is_file_name(good, "My.Pkg"), "{good}");
        }
        let long = format!("my_pkg-{}.whl", "1".repeat(250));
        for bad in [
            "",
            "my_pkg.whl",
            "my_pkgs-1.0.tar.gz",
            "other-1.0.tar.gz",
            "my_pkg-1.0.exe",
            "my_pkg-1.0",
            "my_pkg-/../x.whl",
            "my_pkg-1.0\".whl",
            "my_pkg-<b>.whl",
            "my_pkg-1.0\0.whl",
            "my_pkg-1.0%2f.whl",
            long.as_str(),
        ] {
            assert!(!is_file_name(bad, "My.Pkg"), "{bad}");
        }
    }

    #[test]
    fn digest_has_fixed_number_of_hex_digits() {
        assert!(is_digest(&"aF0".repeat(10)[..], 30));
        for bad in ["", "abc", "abcdefgh", "abcdé"] {
            assert!(!is_digest(bad, 6), "{bad}");
        }
    }
}
