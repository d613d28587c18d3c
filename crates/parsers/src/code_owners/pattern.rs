//! Patterns of paths, as `File.fnmatch` of Ruby compares them with the flags for paths and for names that start with a dot.
//!
//! `*` and `?` match no slash, and `**/` matches any number of directories. Patterns without a leading slash match in any
//! directory, and patterns with a trailing slash match all files below. Matching never backtracks over more than the last
//! wildcard, so its time is bounded by the product of both lengths.

/// The segments of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathSegments(Vec<Vec<char>>);

impl PathSegments {
    /// Splits a path at its slashes.
    #[must_use]
    pub fn new(path: &str) -> Self {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        Self(segments.map(|segment| segment.chars().collect()).collect())
    }
}

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Segment>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    /// Any number of directories.
    Directories,
    /// One directory or file.
    Name(Vec<Token>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Char(char),
    /// Any character.
    One,
    /// Any number of characters.
    Any,
    /// One character in these ranges, or outside of them.
    Set(Box<CharSet>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CharSet {
    is_negated: bool,
    ranges: Vec<(char, char)>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let mut segments = Vec::new();
        if !text.starts_with('/') {
            segments.push(Segment::Directories);
        }
        let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
        for (index, name) in names.iter().enumerate() {
            let is_last = index + 1 == names.len() && !text.ends_with('/');
            match *name == "**" && !is_last {
                true if segments.last() == Some(&Segment::Directories) => {}
                true => segments.push(Segment::Directories),
                false => segments.push(Segment::Name(tokens(name))),
            }
        }
        if text.ends_with('/') {
            if segments.last() != Some(&Segment::Directories) {
                segments.push(Segment::Directories);
            }
            segments.push(Segment::Name(vec![Token::Any]));
        }
        Self(segments)
    }

    /// Returns whether the pattern matches a path; `None` if the comparisons exceed the budget.
    pub(super) fn matches(&self, path: &PathSegments, budget: &mut u64) -> Option<bool> {
        matches_sequence(
            &self.0,
            &path.0,
            |segment| *segment == Segment::Directories,
            |segment, name, budget| match segment {
                Segment::Directories => Some(true),
                Segment::Name(tokens) => matches_sequence(
                    tokens,
                    name,
                    |token| *token == Token::Any,
                    |token, c, _| Some(token.matches(*c)),
                    budget,
                ),
            },
            budget,
        )
    }
}

/// Returns whether a pattern matches all items. A wildcard matches any number of items, and `matches` compares one item.
/// After a mismatch, only the last wildcard has to match more items, because the earlier ones matched as few as possible.
fn matches_sequence<P, T>(
    pattern: &[P],
    items: &[T],
    is_wildcard: impl Fn(&P) -> bool,
    matches: impl Fn(&P, &T, &mut u64) -> Option<bool>,
    budget: &mut u64,
) -> Option<bool> {
    let (mut place, mut item) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    while let Some(current) = items.get(item) {
        *budget = budget.checked_sub(1)?;
        let is_match = match pattern.get(place) {
            Some(wildcard) if is_wildcard(wildcard) => {
                place += 1;
                last = Some((place, item));
                continue;
            }
            Some(single) => matches(single, current, budget)?,
            None => false,
        };
        if is_match {
            place += 1;
            item += 1;
            continue;
        }
        let Some((after, start)) = last else {
            return Some(false);
        };
        (place, item) = (after, start + 1);
        last = Some((after, start + 1));
    }
    let rest = pattern.get(place..).unwrap_or_default();
    Some(rest.iter().all(is_wildcard))
}

impl Token {
    fn matches(&self, c: char) -> bool {
        match self {
            Self::Char(expected) => *expected == c,
            Self::One | Self::Any => true,
            Self::Set(set) => {
                let is_in = set
                    .ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&c));
                is_in != set.is_negated
            }
        }
    }
}

fn tokens(name: &str) -> Vec<Token> {
    let chars: Vec<char> = name.chars().collect();
    let mut tokens = Vec::new();
    let mut index = 0;
    while let Some(&c) = chars.get(index) {
        index += 1;
        match c {
            '*' if tokens.last() == Some(&Token::Any) => {}
            '*' => tokens.push(Token::Any),
            '?' => tokens.push(Token::One),
            '[' => match set(chars.get(index..).unwrap_or_default()) {
                Some((set, length)) => {
                    tokens.push(Token::Set(Box::new(set)));
                    index += length;
                }
                // Without an end, the bracket is an ordinary character.
                None => tokens.push(Token::Char('[')),
            },
            '\\' => {
                let escaped = chars.get(index).copied();
                index += 1;
                tokens.push(Token::Char(escaped.unwrap_or('\\')));
            }
            c => tokens.push(Token::Char(c)),
        }
    }
    tokens
}

/// Parses a set of characters after its opening bracket, and returns its length with the closing bracket.
fn set(chars: &[char]) -> Option<(CharSet, usize)> {
    let is_negated = matches!(chars.first(), Some('!' | '^'));
    let mut index = usize::from(is_negated);
    let mut ranges = Vec::new();
    loop {
        let first = match *chars.get(index)? {
            ']' => break,
            c => escaped(c, chars, &mut index)?,
        };
        let is_range = chars.get(index) == Some(&'-') && !matches!(chars.get(index + 1), None | Some(']'));
        let last = match is_range {
            true => {
                index += 1;
                escaped(*chars.get(index)?, chars, &mut index)?
            }
            false => first,
        };
        ranges.push((first, last));
    }
    (!ranges.is_empty()).then_some((CharSet { is_negated, ranges }, index + 1))
}

/// Returns the character at an index, or the one after a backslash, and moves the index behind it.
fn escaped(c: char, chars: &[char], index: &mut usize) -> Option<char> {
    *index += 1;
    if c != '\\' {
        return Some(c);
    }
    let escaped = *chars.get(*index)?;
    *index += 1;
    Some(escaped)
}
