//! Detects the language of a file: by its name if that is sufficient, otherwise by the start of its content.
//!
//! The rules are those of the linguist data: file names, extensions, interpreters, modelines, and patterns
//! that distinguish languages with the same extension. Only programming and markup languages count, and a
//! variant counts as the language it belongs to.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use linguist::{DetectedLanguage, definitions::LANGUAGES};
use linguist_types::LanguageType;

/// Revision of the detection rules. Increase it when the result for existing files changes.
pub const REVISION: i32 = 1;

/// Number of bytes at the start of a file that are inspected.
pub const INSPECTED_BYTES: usize = 16 << 10;

/// Result of [`by_path`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LanguageGuess {
    /// The language.
    Language(&'static str),
    /// Not certain: the content decides.
    Content,
    /// The file does not count.
    Nothing,
}

/// Guesses the language of a file by its path.
#[must_use]
pub fn by_path(path: &str) -> LanguageGuess {
    let candidates = candidates(path, None);
    match candidates.as_slice() {
        [] if has_extension(path) => LanguageGuess::Nothing,
        [only] => language_name(only).map_or(LanguageGuess::Nothing, LanguageGuess::Language),
        several if !several.is_empty() && several.iter().all(|one| language_name(one).is_none()) => {
            LanguageGuess::Nothing
        }
        _ => LanguageGuess::Content,
    }
}

/// Returns the language of a file that its path does not determine; `start` is the beginning of its content.
#[must_use]
pub fn by_content(path: &str, start: &[u8]) -> Option<&'static str> {
    // Binary files have no language.
    if start.contains(&0) {
        return None;
    }
    let start = String::from_utf8_lossy(start);
    if !has_extension(path)
        && let Some(language) = by_interpreter(&start)
    {
        return Some(language);
    }
    first(path, &candidates(path, Some(&start)))
}

/// Returns the most likely language of a file whose path matches several, without its content.
#[must_use]
pub fn most_likely(path: &str) -> Option<&'static str> {
    first(path, &candidates(path, None))
}

/// Returns whether a file is third-party code.
#[must_use]
pub fn is_vendored(path: &str) -> bool {
    linguist::is_vendored(path).unwrap_or(false)
}

fn candidates(path: &str, content: Option<&str>) -> Vec<DetectedLanguage> {
    let detect = |path: &str| linguist::detect_language(path, content).unwrap_or_default();
    let found = detect(path);
    // Extensions ignore case, except for the few that are listed in several cases.
    if found.is_empty() {
        detect(&path.to_lowercase())
    } else {
        found
    }
}

/// Returns the candidate that lists the extension as its primary one. Among several, prefers one that editors
/// know, then the first by name.
fn first(path: &str, candidates: &[DetectedLanguage]) -> Option<&'static str> {
    let path = path.to_lowercase();
    let owns = |language: &&DetectedLanguage| {
        let extensions = language.definition.extensions.as_deref().unwrap_or_default();
        extensions
            .first()
            .is_some_and(|extension| path.ends_with(extension.as_str()))
    };
    let mut counting: Vec<&DetectedLanguage> = candidates
        .iter()
        .filter(|one| language_name(one).is_some())
        .collect();
    counting.sort_unstable_by_key(|one| (one.definition.ace_mode == "text", one.name));
    let own = counting.iter().copied().find(owns);
    own.or_else(|| counting.first().copied()).and_then(language_name)
}

/// Returns the name that a language counts under, or `None` if it does not count.
fn language_name(language: &DetectedLanguage) -> Option<&'static str> {
    let kind = &language.definition.language_type;
    if !matches!(kind, LanguageType::Programming | LanguageType::Markup) {
        return None;
    }
    let group = language.definition.group.as_deref();
    let group = group.and_then(|group| LANGUAGES.get_key_value(group));
    Some(group.map_or(language.name, |(name, _)| name.as_str()))
}

fn has_extension(path: &str) -> bool {
    Path::new(path).extension().is_some()
}

/// Returns the language of a script whose first line names its interpreter.
fn by_interpreter(start: &str) -> Option<&'static str> {
    let line = start.lines().next()?.strip_prefix("#!")?;
    let mut words = line.split_whitespace();
    let program = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut name = program(words.next()?);
    if name == "env" {
        // Options and variable assignments precede the program.
        name = program(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
    }
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let found = INTERPRETERS
        .get(name.as_str())
        .or_else(|| INTERPRETERS.get(plain));
    found.copied()
}

/// Languages by interpreter. Among several for one interpreter, the one of the same name is used, then the
/// first by name.
static INTERPRETERS: LazyLock<HashMap<&'static str, &'static str>> = LazyLock::new(|| {
    let mut named: Vec<_> = LANGUAGES.iter().collect();
    named.sort_unstable_by_key(|(name, _)| name.as_str());
    let mut found: HashMap<&str, &str> = HashMap::new();
    for (name, definition) in named {
        let language = DetectedLanguage {
            name: name.as_str(),
            definition,
        };
        let Some(shown) = language_name(&language) else {
            continue;
        };
        for interpreter in definition.interpreters.iter().flatten() {
            if name.eq_ignore_ascii_case(interpreter) {
                found.insert(interpreter, shown);
            } else {
                found.entry(interpreter).or_insert(shown);
            }
        }
    }
    found
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unambiguous_path_determines_language() {
        assert_eq!(by_path("src/main.py"), LanguageGuess::Language("Python"));
        assert_eq!(by_path("SRC/MAIN.PY"), LanguageGuess::Language("Python"));
        assert_eq!(by_path("Makefile"), LanguageGuess::Language("Makefile"));
        assert_eq!(by_path("guide.rst"), LanguageGuess::Nothing, "prose");
        assert_eq!(by_path("data.json"), LanguageGuess::Nothing, "data");
        assert_eq!(by_path("picture.unheard-of"), LanguageGuess::Nothing);
        assert_eq!(by_path("src/lib.rs"), LanguageGuess::Content);
        assert_eq!(by_path("bin/run"), LanguageGuess::Content);
    }

    #[test]
    fn content_determines_language_of_ambiguous_path() {
        assert_eq!(
            by_content("src/lib.rs", b"use std::io;\nfn main() {}\n"),
            Some("Rust")
        );
        assert_eq!(
            by_content("a.h", b"#include <iostream>\nclass A {};\n"),
            Some("C++")
        );
        assert_eq!(
            by_content("bin/run", b"#!/usr/bin/env -S FOO=1 python3\n"),
            Some("Python")
        );
        assert_eq!(by_content("bin/run", b"#!/bin/sh\n"), Some("Shell"));
        assert_eq!(by_content("README.md", b"# Title\n"), None, "prose");
        // A variant counts as its language.
        let tsx = b"import React from \"react\";\nexport const A = () => <b/>;\n";
        assert_eq!(by_content("app.tsx", tsx), Some("TypeScript"));
        assert_eq!(
            by_content("bin/run", b"#!/usr/local/bin/python3.12 -u\n"),
            Some("Python")
        );
        for nothing in ["", "#!", "#!/usr/bin/env\n", "text", "a\0b"] {
            assert_eq!(by_content("bin/run", nothing.as_bytes()), None, "{nothing:?}");
        }
    }

    #[test]
    fn unread_file_gets_most_likely_language_of_extension() {
        assert_eq!(most_likely("src/lib.rs"), Some("Rust"));
    }

    #[test]
    fn vendored_paths_are_detected() {
        assert!(is_vendored("node_modules/a/b.js") && !is_vendored("src/b.js"));
    }
}
