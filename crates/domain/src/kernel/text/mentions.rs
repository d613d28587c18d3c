//! Mentions in texts.

use std::sync::LazyLock;

use regex::Regex;
use storage::entities::fold;

use crate::kernel::text::code_blocks::without_code;

/// Maximum number of names in a text; further ones are ignored.
const MAX_MENTIONS: usize = 100;

/// A mention of a user, a group by its full path, or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The name, case-folded.
    pub name: String,
    /// Whether the text or one of its lines starts with it.
    pub addressed: bool,
}

/// Name that mentions all members.
pub const ALL_MEMBERS: &str = "all";

/// A name with `@`, not within a word, a path or an address.
static MENTION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:^|[^\w@/.`-])@(\w[\w.-]*(?:/\w[\w.-]*)*)").ok());

/// Returns the mentions of a text, each once, in order. Mentions in code and quotations are ignored.
#[must_use]
pub fn mentions(text: &str) -> Vec<Mention> {
    let Some(pattern) = MENTION.as_ref().filter(|_| text.contains('@')) else {
        return Vec::new();
    };
    let mut found: Vec<Mention> = Vec::new();
    for line in without_code(text).lines() {
        if line.trim_start().starts_with('>') {
            continue;
        }
        // End of the leading part of the line that consists only of mentions.
        let mut lead = Some(0);
        for name in pattern.captures_iter(line).filter_map(|found| found.get(1)) {
            let before = lead.and_then(|lead| line.get(lead..name.start() - 1));
            let addressed = match lead {
                Some(0) => before.is_some_and(|before| before.trim().is_empty()),
                _ => before.is_some_and(is_between),
            };
            // A trailing full stop ends the sentence and is not part of the name.
            let name_only = name.as_str().trim_end_matches(['.', '-']);
            lead = addressed.then_some(name.start() + name_only.len());
            let name_only = fold(name_only);
            if let Some(known) = found.iter_mut().find(|mention| mention.name == name_only) {
                known.addressed |= addressed;
                continue;
            }
            if found.len() == MAX_MENTIONS {
                return found;
            }
            found.push(Mention {
                name: name_only,
                addressed,
            });
        }
    }
    found
}

/// Returns whether a text consists only of separators between names.
fn is_between(text: &str) -> bool {
    text.split([' ', '\t', ','])
        .all(|word| word.is_empty() || word == "and")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, bool)> {
        let found = mentions(text).into_iter();
        found.map(|mention| (mention.name, mention.addressed)).collect()
    }

    #[test]
    fn mentions_are_found_outside_code_quotes_and_email_addresses() {
        for (text, names) in [
            ("see @ann, @Bob.", &["ann", "bob"][..]),
            ("(@ann) @a.b-c/d_e", &["ann", "a.b-c/d_e"]),
            ("mail@example.com and a/@b and @@ann", &[]),
            ("`@ann` and\n```\n@bob\n```\n@cid", &["cid"]),
            ("> @ann said\n@bob", &["bob"]),
            ("x @ann x @ANN x", &["ann"]),
            ("@ @/ @-a", &[]),
        ] {
            let found: Vec<String> = mentions(text).into_iter().map(|mention| mention.name).collect();
            assert_eq!(found, names, "{text}");
        }
    }

    #[test]
    fn mentions_at_start_of_line_are_addressed() {
        let named = |name: &str, addressed| (name.to_owned(), addressed);
        assert_eq!(
            all("@ann, @bob and @cid: ask @dan"),
            [
                named("ann", true),
                named("bob", true),
                named("cid", true),
                named("dan", false)
            ]
        );
        assert_eq!(all("ask @ann\n  @ann go"), [named("ann", true)]);
        assert_eq!(all("and @ann"), [named("ann", false)]);
        assert_eq!(all("@ann. @bob"), [named("ann", true), named("bob", false)]);
    }

    #[test]
    fn mentions_beyond_maximum_are_ignored() {
        let many: String = (0..10_000).map(|number| format!("@user{number} ")).collect();
        assert_eq!(mentions(&many).len(), MAX_MENTIONS);
    }
}
