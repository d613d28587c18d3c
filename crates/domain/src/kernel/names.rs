//! Rules for the names of users, groups and projects, and for the last part of a path, which is the user name
//! for users.

use std::sync::LazyLock;

use regex::Regex;

/// Error text of an invalid project name.
const PROJECT_NAME: &str = "can contain only letters, digits, emojis, '_', '.', dash, space. \
                            It must start with letter, digit, emoji or '_'.";
/// Error text of an invalid group name.
const GROUP_NAME: &str = "can contain only letters, digits, emojis, '_', '.', dash, space, parenthesis. \
                          It must start with letter, digit, emoji or '_'.";
/// Error text of an invalid path.
const PATH: &str = "can contain only letters, digits, '_', '-' and '.'. \
                    Cannot start with '-' or end in '.', '.git' or '.atom'";
/// Error text of a word that routes reserve.
const RESERVED: &str = "is a reserved name";
/// Error text of a text with more than [`MAX_LENGTH`] characters.
const TOO_LONG: &str = "is too long (maximum is 255 characters)";
/// Maximum length of a name, a path and an address, in characters.
const MAX_LENGTH: usize = 255;

/// First path segments that addresses of this server or of the reference service use.
const TOP_LEVEL_WORDS: [&str; 56] = [
    "-",
    ".well-known",
    "404.html",
    "422.html",
    "500.html",
    "502.html",
    "503.html",
    "abuse_reports",
    "admin",
    "api",
    "apple-touch-icon.png",
    "assets",
    "autocomplete",
    "dashboard",
    "deploy.html",
    "docs",
    "explore",
    "favicon.ico",
    "favicon.png",
    "files",
    "groups",
    "health_check",
    "help",
    "import",
    "internal",
    "invites",
    "jwt",
    "login",
    "metrics",
    "new",
    "notes",
    "notification_settings",
    "oauth",
    "openapi.json",
    "openapi.yaml",
    "profile",
    "profiles",
    "projects",
    "public",
    "robots.txt",
    "s",
    "search",
    "sent_notifications",
    "sitemap",
    "sitemap.xml",
    "slash-command-logo.png",
    "snippets",
    "system",
    "teams",
    "unicorn_test",
    "unsubscribes",
    "uploads",
    "users",
    "v2",
    "version",
    "whats_new",
];

/// Later path segments that pages of a project use.
const INNER_WORDS: [&str; 18] = [
    "-",
    "badges",
    "blame",
    "blob",
    "builds",
    "commits",
    "create",
    "create_dir",
    "edit",
    "files",
    "find_file",
    "new",
    "preview",
    "raw",
    "refs",
    "tree",
    "update",
    "wikis",
];

/// Emoji with their joiners and modifiers.
const EMOJI: &str = r"\p{Extended_Pictographic}\p{Emoji_Modifier}\x{1F1E6}-\x{1F1FF}\x{200D}\x{FE0F}";

/// Returns the pattern of names, extended by further characters.
fn pattern(further: &str) -> Option<Regex> {
    Regex::new(&format!(
        r"\A[\p{{L}}\p{{N}}_{EMOJI}][\p{{L}}\p{{M}}\p{{N}}_.\- {further}{EMOJI}]*\z"
    ))
    .ok()
}

static PROJECT_NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(""));
static GROUP_NAMES: LazyLock<Option<Regex>> = LazyLock::new(|| pattern("()"));

/// Returns the fault of a project name, if any.
#[must_use]
pub fn project_name_fault(name: &str) -> Option<&'static str> {
    name_fault(name, PROJECT_NAMES.as_ref(), PROJECT_NAME)
}

/// Returns the fault of a group name, if any.
#[must_use]
pub fn group_name_fault(name: &str) -> Option<&'static str> {
    name_fault(name, GROUP_NAMES.as_ref(), GROUP_NAME)
}

fn name_fault(name: &str, pattern: Option<&Regex>, text: &'static str) -> Option<&'static str> {
    let fits = pattern.is_some_and(|pattern| pattern.is_match(name));
    length_fault(name).or((!fits).then_some(text))
}

/// Returns the fault of the last part of a path, if any; `top` means that it has no parent.
#[must_use]
pub fn path_fault(path: &str, top: bool) -> Option<&'static str> {
    if let Some(fault) = length_fault(path) {
        return Some(fault);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let folded = path.to_ascii_lowercase();
    let invalid = path.is_empty()
        || !path.bytes().all(allowed)
        || folded.starts_with('-')
        || [".", ".git", ".atom"].iter().any(|end| folded.ends_with(end));
    if invalid {
        return Some(PATH);
    }
    let words: &[&str] = if top { &TOP_LEVEL_WORDS } else { &INNER_WORDS };
    words.contains(&folded.as_str()).then_some(RESERVED)
}

/// Returns a fault if a text exceeds the maximum length of names, paths and addresses.
#[must_use]
pub fn length_fault(text: &str) -> Option<&'static str> {
    (text.chars().count() > MAX_LENGTH).then_some(TOO_LONG)
}

/// Returns the path derived from a project name: `Foo Project` becomes `foo-project`.
#[must_use]
pub fn slug(name: &str) -> String {
    let mut path = String::with_capacity(name.len());
    for character in name.chars().flat_map(char::to_lowercase) {
        if character.is_ascii_alphanumeric() || "_.".contains(character) {
            path.push(character);
        } else if !path.ends_with('-') {
            path.push('-');
        }
    }
    path.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_accepts_letters_of_all_scripts_and_emoji() {
        for name in [
            "Engine",
            "Ünïcode Näme",
            "日本語",
            "🚀 rocket",
            "_x",
            "a.b-c d",
            "1",
        ] {
            assert_eq!(project_name_fault(name), None, "{name}");
            assert_eq!(group_name_fault(name), None, "{name}");
        }
        assert_eq!(group_name_fault("Engines (old)"), None);
        assert_eq!(project_name_fault("Engines (old)"), Some(PROJECT_NAME));
    }

    #[test]
    fn name_rejects_markup_line_breaks_and_leading_punctuation() {
        for name in ["", "-x", " x", ".x", "<script>", "a\nb", "a/b", "a\u{202e}b"] {
            assert_eq!(project_name_fault(name), Some(PROJECT_NAME), "{name:?}");
        }
        assert_eq!(project_name_fault(&"x".repeat(256)), Some(TOO_LONG));
        assert_eq!(project_name_fault(&"ä".repeat(255)), None);
    }

    #[test]
    fn path_rejects_reserved_suffixes_and_unsafe_characters() {
        for path in [
            "", ".", "..", "-a", "a.", "a.git", "a.ATOM", "a/b", "ä", "a b", "a%2Fb", "a\0",
        ] {
            assert_eq!(path_fault(path, false), Some(PATH), "{path:?}");
        }
        for path in ["a", ".a", "_", "a-b.c", "A9"] {
            assert_eq!(path_fault(path, false), None, "{path:?}");
        }
    }

    #[test]
    fn reserved_paths_depend_on_namespace_level() {
        assert_eq!(path_fault("Admin", true), Some(RESERVED));
        assert_eq!(path_fault("SiteMap.xml", true), Some(RESERVED));
        assert_eq!(path_fault("admin", false), None);
        assert_eq!(path_fault("blob", false), Some(RESERVED));
        assert_eq!(path_fault("blob", true), None);
    }

    #[test]
    fn slug_is_lowercase_with_hyphens() {
        assert_eq!(slug("Foo Project"), "foo-project");
        assert_eq!(slug("🚀 Big -- Rocket!"), "big-rocket");
        assert_eq!(slug("日本"), "");
    }
}
