//! Texts without what is code in them: nobody is meant by what stands there.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

/// A text as Markdown reads it, with a space in place of each code span and nothing in place of fenced code blocks. A block
/// that is not closed goes on to the end; marks of a span that is not closed in its paragraph are only marks.
#[must_use]
pub fn prose(text: &str) -> Cow<'_, str> {
    if !text.contains('`') && !text.contains("~~~") {
        return Cow::Borrowed(text);
    }
    let mut prose = String::with_capacity(text.len());
    let mut paragraph = String::new();
    let mut fence: Option<Fence> = None;
    for line in text.split_inclusive('\n') {
        match (&fence, Fence::of(line)) {
            (Some(open), Some(found)) if found.closes(open) => fence = None,
            (Some(_), _) => {}
            (None, Some(found)) if found.opens() => {
                without_spans(&std::mem::take(&mut paragraph), &mut prose);
                fence = Some(found);
            }
            (None, _) => {
                paragraph.push_str(line);
                if line.trim().is_empty() {
                    without_spans(&std::mem::take(&mut paragraph), &mut prose);
                }
            }
        }
    }
    without_spans(&paragraph, &mut prose);
    Cow::Owned(prose)
}

/// A line that begins or ends a fenced code block.
struct Fence {
    mark: char,
    length: usize,
    /// What stands behind the marks.
    has_words: bool,
    /// Whether these contain the mark.
    has_marks: bool,
}

impl Fence {
    /// The fence that a line is, at most three spaces from its beginning.
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

    /// Whether a block begins here: three marks with marks behind them are a span.
    fn opens(&self) -> bool {
        self.mark == '~' || !self.has_marks
    }

    fn closes(&self, open: &Self) -> bool {
        self.mark == open.mark && self.length >= open.length && !self.has_words
    }
}

/// Adds a paragraph without its code spans: what stands between two runs of as many marks.
fn without_spans(paragraph: &str, prose: &mut String) {
    // All runs by their lengths, so that no run is looked for twice.
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
        // Within a span, marks of other lengths are code.
        if at < from {
            continue;
        }
        if let Some(end) = same.front() {
            prose.push_str(paragraph.get(from..at).unwrap_or_default());
            prose.push(' ');
            from = end + length;
        }
    }
    prose.push_str(paragraph.get(from..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn code_is_left_out() {
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
            assert_eq!(prose(text), rest, "{text:?}");
        }
    }

    #[test]
    fn hostile_marks_take_no_longer_than_others() {
        // Runs of all lengths, none of which closes another.
        let text: String = (1..2_000).map(|length| "`".repeat(length) + " ").collect();
        assert_eq!(prose(&text), text);
    }
}
