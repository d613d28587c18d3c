//! Lints of the wording (`docs/STYLE.md`) and the Markdown of summaries and descriptions.

use serde_json::Value;

use super::Linter;
use crate::load::escape;

/// Words and phrases that the style guide excludes, in lower case.
pub const EXCLUDED_WORDS: &[&str] = &[
    "anew",
    "tell",
    "tells",
    "told",
    "say",
    "says",
    "said",
    "whoever",
    "whomever",
    "whom",
    "nobody",
    "somebody",
    "everybody",
    "beside",
    "lies",
    "comes to",
    "came to",
    "goes on",
    "take back",
    "takes back",
    "whatever",
    "whichever",
    "what gets",
    "no good",
    "licence",
    "licences",
    "colour",
    "colours",
    "cancelled",
    "behaviour",
    "favour",
    "organise",
    "organisation",
    "authorise",
    "authorisation",
    "recognise",
    "synchronise",
    "serialise",
    "initialise",
    "optimise",
];

impl Linter<'_> {
    /// Checks every summary and description below a value. Examples, defaults and property names are not prose.
    pub(super) fn wording(&mut self, pointer: &str, value: &Value) {
        match value {
            Value::Object(entries) => {
                let names = pointer.ends_with("/properties");
                for (name, entry) in entries {
                    let below = format!("{pointer}/{}", escape(name));
                    match (name.as_str(), entry) {
                        ("summary" | "description", Value::String(text)) if !names => {
                            self.words(&below, text);
                            self.markdown(&below, text);
                        }
                        ("example" | "default" | "enum", _) if !names => {}
                        _ => self.wording(&below, entry),
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.wording(&format!("{pointer}/{index}"), item);
                }
            }
            _ => {}
        }
    }

    fn words(&mut self, pointer: &str, text: &str) {
        let lower = text.to_lowercase();
        let words: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let sentence = format!(" {} ", words.join(" "));
        let excluded = EXCLUDED_WORDS
            .iter()
            .find(|word| sentence.contains(&format!(" {word} ")));
        if let Some(word) = excluded {
            self.fault(
                pointer,
                "wording",
                format!("`{word}` is not plain English; see docs/STYLE.md"),
            );
        }
    }

    /// Checks that a text contains only the Markdown that the documentation renders (`portal::prose`).
    fn markdown(&mut self, pointer: &str, text: &str) {
        for paragraph in text.split("\n\n") {
            let parts: Vec<&str> = paragraph.split('`').collect();
            self.require(
                parts.len() % 2 == 1,
                pointer,
                "markdown",
                "a backtick is missing: code starts and ends with one",
            );
            let is_tag = |part: &&str| {
                part.match_indices('<')
                    .any(|(at, _)| part[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/'))
            };
            self.require(
                !parts.iter().step_by(2).any(is_tag),
                pointer,
                "markdown",
                "HTML is not rendered: put `<` into code",
            );
            let unknown = paragraph.lines().any(|line| {
                ["# ", "#### ", "> ", "* ", "+ "]
                    .iter()
                    .any(|mark| line.starts_with(mark))
            });
            self.require(
                !unknown,
                pointer,
                "markdown",
                "use only paragraphs, headings (`##`, `###`), lists (`-`), tables, code and links",
            );
        }
    }
}
