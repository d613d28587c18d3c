//! Versions of Python packages (PEP 440).

/// Maximum length of a version, in bytes.
const MAX_BYTES: usize = 255;

/// Labels of pre-releases; a label comes before its own prefixes.
const PRE_RELEASES: [&str; 8] = ["alpha", "a", "beta", "b", "preview", "pre", "c", "rc"];
/// Labels of post-releases.
const POST_RELEASES: [&str; 3] = ["post", "rev", "r"];

/// Returns whether a text is a valid version, such as `1.0`, `1.0rc1` or `1!2.0.post1+local`.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    text.len() <= MAX_BYTES && parse(&lower).is_some_and(|rest| rest.is_empty())
}

/// Parses a lowercase version. Returns the rest of the text.
fn parse(text: &str) -> Option<&str> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut rest = match number(text)?.strip_prefix('!') {
        Some(release) => number(release)?,
        None => number(text)?,
    };
    while let Some(next) = rest.strip_prefix('.').and_then(number) {
        rest = next;
    }
    rest = labeled(rest, &PRE_RELEASES).unwrap_or(rest);
    // A post-release can also be a dash and a number.
    let implicit = || rest.strip_prefix('-').and_then(number);
    rest = labeled(rest, &POST_RELEASES).or_else(implicit).unwrap_or(rest);
    rest = labeled(rest, &["dev"]).unwrap_or(rest);
    match rest.strip_prefix('+') {
        Some(local) => is_local(local).then_some(""),
        None => Some(rest),
    }
}

/// Skips digits; `None` if there are none.
fn number(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest)
}

/// Skips one of the labels with separators and an optional number.
fn labeled<'a>(text: &'a str, labels: &[&str]) -> Option<&'a str> {
    let rest = without_separator(text);
    let rest = labels.iter().find_map(|label| rest.strip_prefix(label))?;
    Some(number(without_separator(rest)).unwrap_or(rest))
}

fn without_separator(text: &str) -> &str {
    text.strip_prefix(['.', '_', '-']).unwrap_or(text)
}

/// Returns whether a text is a local version: segments of letters and digits.
fn is_local(text: &str) -> bool {
    let is_segment =
        |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.split(['.', '_', '-']).all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_version_follows_pep_440() {
        for good in [
            "0",
            "1.0",
            "2026.11.27",
            "1.0a1",
            "1.0-alpha.2",
            "1.0B2",
            "1.0rc1",
            "1.0c",
            "1.0preview3",
            "1.0.post1",
            "1.0-1",
            "1.0-r4",
            "1.0.dev3",
            "1.0dev",
            "1.0a1.post2.dev3",
            "1!2.0",
            "v1.0",
            "1.0+ubuntu.1",
            "1.0+abc-def_1",
        ] {
            assert!(is_version(good), "{good}");
        }
        let long = "1".repeat(256);
        for bad in [
            "",
            "v",
            "a",
            ".1",
            "1.",
            "1..0",
            "1.0x",
            "1.0-",
            "1.0a1a2",
            "1!",
            "!1",
            "1!2!3",
            "1.0+",
            "1.0+a..b",
            "1.0+a+b",
            "1 0",
            " 1.0",
            "1.0/../2",
            "1.0\0",
            "1.٣",
            long.as_str(),
        ] {
            assert!(!is_version(bad), "{bad}");
        }
    }
}
