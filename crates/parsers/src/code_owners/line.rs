//! Lines of files with code owners.

use super::limits::{CodeOwnersError, MAX_APPROVALS, MAX_OWNERS, MAX_PATTERN_BYTES};

/// An owner of paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// Username of a user, or full path of a group, without `@`.
    Name(String),
    /// Email address of a user.
    Email(String),
}

/// A line that is neither empty nor a comment.
pub(super) enum Line {
    /// Starts a section.
    Section(Header),
    /// A pattern with its owners.
    Entry(String, Vec<Owner>),
    /// A pattern of paths without owners.
    Exclusion(String),
}

/// Header of a section, such as `^[Docs][2] @writers`.
pub(super) struct Header {
    pub(super) name: String,
    pub(super) is_optional: bool,
    pub(super) approvals: u8,
    /// Owners of the lines without owners.
    pub(super) owners: Vec<Owner>,
}

/// Parses a line; `None` for an empty line or a comment.
pub(super) fn parse(line: &str) -> Result<Option<Line>, CodeOwnersError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if let Some(header) = header(line)? {
        return Ok(Some(Line::Section(header)));
    }
    let (text, is_exclusion) = match line.strip_prefix('!') {
        Some(rest) => (rest.trim_start(), true),
        None => (line, false),
    };
    let (pattern, rest) = pattern(text);
    check_length(&pattern)?;
    Ok(match (pattern.is_empty(), is_exclusion) {
        (true, _) => None,
        (false, true) => Some(Line::Exclusion(pattern)),
        (false, false) => Some(Line::Entry(pattern, owners(rest)?)),
    })
}

/// Parses a header. A line that only starts like a header is a pattern, such as `[ab].txt`.
fn header(line: &str) -> Result<Option<Header>, CodeOwnersError> {
    let (line, is_optional) = match line.strip_prefix('^') {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let Some((name, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return Ok(None);
    };
    let name = name.trim();
    let (approvals, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((digits, after)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => (digits, after),
        Some(_) => return Ok(None),
        None => ("", rest),
    };
    if name.is_empty() || !(rest.is_empty() || rest.starts_with(char::is_whitespace)) {
        return Ok(None);
    }
    check_length(name)?;
    let approvals = match approvals.is_empty() {
        true => 1,
        // More digits than fit are a number above the maximum.
        false => approvals.parse().unwrap_or(MAX_APPROVALS).clamp(1, MAX_APPROVALS),
    };
    Ok(Some(Header {
        name: name.to_owned(),
        is_optional,
        approvals,
        owners: owners(rest)?,
    }))
}

/// Returns the pattern, with its escaped whitespace replaced, and the rest of a line.
fn pattern(line: &str) -> (String, &str) {
    let line = match line.strip_prefix("\\#") {
        Some(_) => line.get(1..).unwrap_or_default(),
        None => line,
    };
    let mut pattern = String::new();
    let mut chars = line.char_indices();
    while let Some((index, c)) = chars.next() {
        if c.is_whitespace() {
            return (pattern, line.get(index..).unwrap_or_default());
        }
        if c != '\\' {
            pattern.push(c);
            continue;
        }
        match chars.next() {
            Some((_, escaped)) if escaped.is_whitespace() => pattern.push(' '),
            // Other escapes are part of the pattern.
            Some((_, escaped)) => pattern.extend(['\\', escaped]),
            None => pattern.push('\\'),
        }
    }
    (pattern, "")
}

/// Returns the owners up to a comment. Malformed owners are ignored.
fn owners(text: &str) -> Result<Vec<Owner>, CodeOwnersError> {
    let mut owners = Vec::new();
    let words = text.split_whitespace().take_while(|word| !word.starts_with('#'));
    for owner in words.filter_map(owner) {
        if owners.len() >= MAX_OWNERS {
            return Err(CodeOwnersError::TooManyOwners);
        }
        if !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    Ok(owners)
}

fn owner(word: &str) -> Option<Owner> {
    if let Some(name) = word.strip_prefix('@') {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
        let name = name.trim_end_matches(',');
        return (!name.is_empty() && name.chars().all(is_valid)).then(|| Owner::Name(name.to_owned()));
    }
    let (local, domain) = word.trim_end_matches(',').split_once('@')?;
    let is_email = !local.is_empty() && !domain.is_empty() && !domain.contains('@');
    is_email.then(|| Owner::Email(format!("{local}@{domain}")))
}

fn check_length(text: &str) -> Result<(), CodeOwnersError> {
    match text.len() <= MAX_PATTERN_BYTES {
        true => Ok(()),
        false => Err(CodeOwnersError::PatternTooLong),
    }
}
