//! Selection of tags for a bulk deletion. It is pure and deterministic.

use std::borrow::Cow;
use std::cmp::Reverse;

use chrono::{DateTime, Utc};
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassSetBinaryOp, ClassSetBinaryOpKind, ClassSetItem, Flag, Flags, FlagsItem,
    FlagsItemKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind, RepetitionRange, Span,
};

use crate::registry::jobs::delete_registry_tags::CleanupRules;

/// The tag that is never deleted.
const LATEST: &str = "latest";

/// Maximum size of a compiled expression, in bytes. The time of a match is proportional to it.
const LARGEST_PROGRAM: usize = 256 * 1024;

/// Maximum count of a repetition.
const MOST_REPEATED: u32 = 1_000;

/// Maximum nesting of an expression.
const DEEPEST: u32 = 100;

/// A [`CleanupRules`] with compiled expressions.
#[derive(Debug)]
pub struct Rules {
    delete: Whole,
    keep: Option<Whole>,
    keep_n: Option<u64>,
    before: Option<DateTime<Utc>>,
}

/// A tag whose name matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The ID.
    pub id: i64,
    /// The creation time of its image, if known.
    pub created_at: Option<DateTime<Utc>>,
}

/// The reason why an expression is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsound(String);

/// A regular expression that must match a whole text.
#[derive(Debug)]
pub struct Whole(Regex);

impl Whole {
    /// Compiles an expression, which takes noticeable time.
    ///
    /// # Errors
    /// Returns [`Unsound`] with the reason.
    pub fn compile(expression: &str) -> Result<Self, Unsound> {
        let expression = &*unquoted(expression);
        // Compile it alone first, so that it cannot close the group that is added below and open another.
        let unicode = compiled(expression)?;
        alike(expression)?;
        build(&format!(r"\A(?:{expression})\z"), unicode)
            .map(Self)
            .map_err(reason)
    }

    /// Returns whether the whole text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// Returns an expression with its quoted parts escaped, from `\Q` to `\E` or the end.
fn unquoted(expression: &str) -> Cow<'_, str> {
    if !expression.contains(r"\Q") {
        return Cow::Borrowed(expression);
    }
    let (mut plain, mut rest) = (String::new(), expression);
    while let Some(escape) = rest.find('\\') {
        let (before, escaped) = rest.split_at(escape);
        plain.push_str(before);
        rest = match escaped.strip_prefix(r"\Q") {
            Some(quoted) => {
                let (quoted, after) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                plain.push_str(&regex::escape(quoted));
                after
            }
            None => {
                let length = escaped.chars().take(2).map(char::len_utf8).sum();
                let (pair, after) = escaped.split_at(length);
                plain.push_str(pair);
                after
            }
        };
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns whether an expression needs Unicode. Tag names are ASCII. Without Unicode, `\w` and similar
/// classes match as in RE2, and the compiled size is a hundredth.
fn compiled(expression: &str) -> Result<bool, Unsound> {
    match build(expression, false) {
        Ok(_) => Ok(false),
        Err(regex::Error::Syntax(_)) => build(expression, true).map(|_| true).map_err(reason),
        Err(error) => Err(reason(error)),
    }
}

/// Refuses syntax with another meaning in RE2, which treats most characters of a class literally. Otherwise
/// tags that should be retained could be deleted.
fn alike(expression: &str) -> Result<(), Unsound> {
    let parsed = ParserBuilder::new()
        .nest_limit(DEEPEST)
        .octal(true)
        .build()
        .parse(expression)
        .map_err(|error| Unsound(error.kind().to_string()))?;
    ast::visit(&parsed, Alike { expression })
}

/// Returns the fault of a repetition, by its operator.
fn repeated(repetition: &Repetition, sign: &str) -> Option<String> {
    if matches!(*repetition.ast, Ast::Repetition(_)) {
        return Some(format!("bad repetition operator: `{sign}` follows another one"));
    }
    let most = match &repetition.op.kind {
        RepetitionKind::Range(RepetitionRange::Exactly(count) | RepetitionRange::AtLeast(count)) => *count,
        RepetitionKind::Range(RepetitionRange::Bounded(_, count)) => *count,
        _ => 0,
    };
    (most > MOST_REPEATED).then(|| format!("bad repetition operator: `{sign}` exceeds {MOST_REPEATED}"))
}

/// Returns a flag that RE2 does not support.
fn unknown(flags: &Flags) -> Option<String> {
    let known = |flag: &Flag| {
        matches!(
            flag,
            Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed
        )
    };
    let others = |item: &FlagsItem| matches!(&item.kind, FlagsItemKind::Flag(flag) if !known(flag));
    let others = flags.items.iter().any(others);
    others.then(|| "unknown flag: expected `i`, `m`, `s` or `U`".to_owned())
}

/// Returns the fault of how a character is written.
fn written(literal: &Literal, text: &str) -> Option<String> {
    match literal.kind {
        LiteralKind::HexFixed(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong)
        | LiteralKind::HexBrace(HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
            Some(format!("unknown escape `{text}`: use `\\x{{...}}`"))
        }
        // A single digit would be a backreference.
        LiteralKind::Octal if text.len() == 2 && text != r"\0" => {
            Some("backreferences are not supported".to_owned())
        }
        _ => None,
    }
}

/// Visitor that finds syntax with another meaning in RE2.
struct Alike<'e> {
    expression: &'e str,
}

impl Alike<'_> {
    /// Returns the source text of a span.
    fn sent(&self, span: &Span) -> &str {
        let sent = self.expression.get(span.start.offset..span.end.offset);
        sent.unwrap_or_default()
    }

    fn spelled(&self, literal: &Literal) -> Result<(), Unsound> {
        written(literal, self.sent(&literal.span)).map_or(Ok(()), |text| Err(Unsound(text)))
    }
}

impl ast::Visitor for Alike<'_> {
    type Output = ();
    type Err = Unsound;

    fn finish(self) -> Result<(), Unsound> {
        Ok(())
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), Unsound> {
        let sent = |span: &Span| self.sent(span);
        let refused = match part {
            Ast::Repetition(repetition) => repeated(repetition, sent(&repetition.op.span)),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::WordBoundaryStartAngle | AssertionKind::WordBoundaryEndAngle => Some(format!(
                    "`{0}` is not a word boundary: use `{1}`",
                    sent(&assertion.span),
                    sent(&assertion.span).trim_start_matches('\\')
                )),
                AssertionKind::WordBoundaryStart
                | AssertionKind::WordBoundaryEnd
                | AssertionKind::WordBoundaryStartHalf
                | AssertionKind::WordBoundaryEndHalf => {
                    Some(format!("unknown escape `{}`: use `\\b`", sent(&assertion.span)))
                }
                _ => None,
            },
            Ast::Flags(set) => unknown(&set.flags),
            Ast::Group(group) => group.flags().and_then(unknown),
            Ast::Literal(literal) => return self.spelled(literal),
            _ => None,
        };
        refused.map_or(Ok(()), |text| Err(Unsound(text)))
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Unsound> {
        match item {
            ClassSetItem::Literal(literal) => self.spelled(literal),
            ClassSetItem::Range(range) => self.spelled(&range.start).and_then(|()| self.spelled(&range.end)),
            ClassSetItem::Bracketed(_) => Err(Unsound(
                r"`[` must be escaped in a character class: use `\[`".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ClassSetBinaryOp) -> Result<(), Unsound> {
        let (sent, instead) = match operation.kind {
            ClassSetBinaryOpKind::Intersection => ("&&", r"\&\&"),
            ClassSetBinaryOpKind::Difference => ("--", r"\-\-"),
            ClassSetBinaryOpKind::SymmetricDifference => ("~~", r"\~\~"),
        };
        Err(Unsound(format!(
            "`{sent}` must be escaped in a character class: use `{instead}`"
        )))
    }
}

fn build(expression: &str, unicode: bool) -> Result<Regex, regex::Error> {
    RegexBuilder::new(expression)
        .unicode(unicode)
        .octal(true)
        .size_limit(LARGEST_PROGRAM)
        .dfa_size_limit(LARGEST_PROGRAM * 4)
        .nest_limit(DEEPEST)
        .build()
}

/// Returns the reason of an error in one line.
fn reason(error: regex::Error) -> Unsound {
    let text = match error {
        // The last line states the reason; the lines before it show the position.
        regex::Error::Syntax(text) => {
            let last = text.lines().last().unwrap_or_default().trim();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
        _ => "it is too large".to_owned(),
    };
    Unsound(text)
}

impl Rules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Returns [`Unsound`] for the first invalid expression.
    pub fn compile(wish: &CleanupRules) -> Result<Self, Unsound> {
        Ok(Self {
            delete: Whole::compile(&wish.delete)?,
            keep: wish.keep.as_deref().map(Whole::compile).transpose()?,
            keep_n: wish.keep_n,
            before: wish.before,
        })
    }

    /// Returns whether a tag with this name may be deleted.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let kept = |keep: &Whole| keep.matches(name);
        name != LATEST && self.delete.matches(name) && !self.keep.as_ref().is_some_and(kept)
    }

    /// Returns the tags to delete, out of all whose names [match](Self::matches). Without the tags it
    /// returned before, it returns the remaining ones, so that an interrupted run can be resumed.
    #[must_use]
    pub fn choose(&self, mut candidates: Vec<Candidate>) -> Vec<i64> {
        if let Some(keep_n) = self.keep_n {
            // Newest first, and unknown times before them. Ties are broken by the higher ID.
            candidates.sort_unstable_by_key(|tag| {
                Reverse((tag.created_at.unwrap_or(DateTime::<Utc>::MAX_UTC), tag.id))
            });
            let kept = usize::try_from(keep_n)
                .unwrap_or(usize::MAX)
                .min(candidates.len());
            candidates.drain(..kept);
        }
        if let Some(before) = self.before {
            candidates.retain(|tag| tag.created_at.is_some_and(|time| time < before));
        }
        candidates.into_iter().map(|tag| tag.id).collect()
    }
}

#[cfg(test)]
mod tests;
