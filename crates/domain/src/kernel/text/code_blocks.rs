//! Removes code from texts, since mentions and references in code do not count.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

/// A part of a Markdown text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextPart<'a> {
    /// Text that is not code.
    Prose(&'a str),
    /// A code span with its backticks.
    Span(&'a str),
    /// A fenced code block with its fences.
    Block(&'a str),
}

/// Returns a Markdown text with each code span replaced by a space and without fenced code blocks. An
/// unclosed block extends to the end. The backticks of a span that is not closed within its paragraph are
/// literal.
#[must_use]
pub fn without_code(text: &str) -> Cow<'_, str> {
    if !text.contains('`') && !text.contains("~~~") {
        return Cow::Borrowed(text);
    }
    let mut prose = String::with_capacity(text.len());
    for part in parts(text) {
        match part {
            TextPart::Prose(part) => prose.push_str(part),
            TextPart::Span(_) => prose.push(' '),
            TextPart::Block(_) => {}
        }
    }
    Cow::Owned(prose)
}

/// Splits a Markdown text into prose and code, by the rules of [`without_code`]. Together, the parts are the text.
#[must_use]
pub fn parts(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = Vec::new();
    let mut fence: Option<Fence> = None;
    // The start of the current paragraph or block, and of the current line.
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match (&fence, Fence::of(line)) {
            (Some(open), Some(found)) if found.closes(open) => {
                parts.push(TextPart::Block(text.get(start..end).unwrap_or_default()));
                start = end;
                fence = None;
            }
            (Some(_), _) => {}
            (None, Some(found)) if found.opens() => {
                split_paragraph(text.get(start..at).unwrap_or_default(), &mut parts);
                start = at;
                fence = Some(found);
            }
            (None, _) => {
                if line.trim().is_empty() {
                    split_paragraph(text.get(start..end).unwrap_or_default(), &mut parts);
                    start = end;
                }
            }
        }
        at = end;
    }
    let rest = text.get(start..).unwrap_or_default();
    match fence {
        Some(_) => parts.push(TextPart::Block(rest)),
        None => split_paragraph(rest, &mut parts),
    }
    parts
}

/// A line that opens or closes a fenced code block.
struct Fence {
    mark: char,
    length: usize,
    /// Whether text follows the fence marks.
    has_words: bool,
    /// Whether that text contains the mark.
    has_marks: bool,
}

impl Fence {
    /// Parses a line as a fence, which is indented by at most three spaces.
    fn of(line: &str) -> Option<Self> {
        let bare = line.trim_start_matches(' ');
        let mark = bare.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
        let rest = bare.trim_start_matches(mark);
        let length = bare.len() - rest.len();
        (line.len() - bare.len() < 4 && length >= 3).then(|| Self {
            mark,
            length,
            has_words: !rest.trim().is_empty(),
            has_marks: rest.contains(mark),
        })
    }

    /// Returns whether a block starts here: three backticks followed by text with backticks are a code span.
    fn opens(&self) -> bool {
        self.mark == '~' || !self.has_marks
    }

    fn closes(&self, open: &Self) -> bool {
        self.mark == open.mark && self.length >= open.length && !self.has_words
    }
}

/// Appends the parts of a paragraph. A code span is between two backtick runs of equal length.
fn split_paragraph<'a>(paragraph: &'a str, parts: &mut Vec<TextPart<'a>>) {
    // Indexed by length, so that no run is searched twice.
    let mut runs: HashMap<usize, VecDeque<usize>> = HashMap::new();
    let mut all = Vec::new();
    let mut last = None;
    for (at, _) in paragraph.match_indices('`') {
        match all.last_mut() {
            Some((_, length)) if last.is_some_and(|last| last + 1 == at) => *length += 1,
            _ => all.push((at, 1)),
        }
        last = Some(at);
    }
    for (at, length) in &all {
        runs.entry(*length).or_default().push_back(*at);
    }
    let mut from = 0;
    for (at, length) in all {
        let Some(same) = runs.get_mut(&length) else {
            continue;
        };
        while same.front().is_some_and(|other| *other <= at) {
            same.pop_front();
        }
        // Within a span, runs of other lengths are code.
        if at < from {
            continue;
        }
        if let Some(end) = same.front() {
            let to = end + length;
            parts.push(TextPart::Prose(paragraph.get(from..at).unwrap_or_default()));
            parts.push(TextPart::Span(paragraph.get(at..to).unwrap_or_default()));
            from = to;
        }
    }
    parts.push(TextPart::Prose(paragraph.get(from..).unwrap_or_default()));
}

#[cfg(test)]
mod tests {
    use super::{TextPart, parts, without_code};

    #[test]
    fn parts_are_the_whole_text() {
        let text = "a `#1` b\n\nc `d\n```\n#2\n```\ne ``f`` g\n~~~\n#3";
        let all = parts(text);
        let joined: String = all
            .iter()
            .map(|part| match part {
                TextPart::Prose(part) | TextPart::Span(part) | TextPart::Block(part) => *part,
            })
            .collect();
        assert_eq!(joined, text);
        let code: Vec<TextPart<'_>> = all
            .into_iter()
            .filter(|part| !matches!(part, TextPart::Prose(_)))
            .collect();
        assert_eq!(
            code,
            [
                TextPart::Span("`#1`"),
                TextPart::Block("```\n#2\n```\n"),
                TextPart::Span("``f``"),
                TextPart::Block("~~~\n#3")
            ]
        );
    }

    #[test]
    fn code_is_removed_from_text() {
        for (text, rest) in [
            ("none", "none"),
            ("a `b` c", "a   c"),
            ("a ``b ` c`` d", "a   d"),
            ("a `b", "a `b"),
            ("a `b\n\nc` d", "a `b\n\nc` d"),
            ("a `b\nc` d", "a   d"),
            ("`` a ` b", "`` a ` b"),
            ("a\n```\nb\n```\nc", "a\nc"),
            ("a\n```rust\nb `\n```\n`c` d", "a\n  d"),
            ("a\n~~~~\nb\n~~~\nc\n~~~~\nd", "a\nd"),
            ("a\n```\nb", "a\n"),
            ("   ```\nb\n  ```\nc", "c"),
            ("    ```\nb", "    ```\nb"),
            ("```a``` b", "  b"),
            ("```\nb\n``` c\nd", ""),
            ("é `ü` à", "é   à"),
        ] {
            assert_eq!(without_code(text), rest, "{text:?}");
        }
    }

    #[test]
    fn hostile_backtick_runs_take_linear_time() {
        // Runs of all lengths, none of which closes another.
        let text: String = (1..2_000).map(|length| "`".repeat(length) + " ").collect();
        assert_eq!(without_code(&text), text);
    }
}
