//! Lint of the wording of summaries and descriptions (`docs/STYLE.md`).

use serde_json::Value;

use super::Linter;
use crate::load::escape;

/// Words that `docs/STYLE.md` excludes from the contract, in lower case.
const AVOIDED: [&str; 24] = [
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
    "whatever",
    "whichever",
    "licence",
    "licences",
    "colour",
    "cancelled",
    "authorise",
    "synchronise",
    "organise",
    "lies",
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
                            self.words(&below, text)
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
        let words = text.split(|c: char| !c.is_alphanumeric());
        let avoided = words
            .map(str::to_lowercase)
            .find(|word| AVOIDED.contains(&word.as_str()));
        if let Some(word) = avoided {
            self.fault(
                pointer,
                "wording",
                format!("`{word}` is not plain English; see docs/STYLE.md"),
            );
        }
    }
}
