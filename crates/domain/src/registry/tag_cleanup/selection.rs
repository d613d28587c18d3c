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
const MAX_PROGRAM_BYTES: usize = 256 * 1024;

/// Maximum count of a repetition.
const MAX_REPETITIONS: u32 = 1_000;

/// Maximum nesting of an expression.
const MAX_NESTING: u32 = 100;

/// A [`CleanupRules`] with compiled expressions.
#[derive(Debug)]
pub struct CompiledRules {
    delete: AnchoredRegex,
    keep: Option<AnchoredRegex>,
    keep_n: Option<u64>,
    before: Option<DateTime<Utc>>,
}

/// A tag whose name matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagCandidate {
    /// The ID.
    pub id: i64,
    /// The creation time of its image, if known.
    pub created_at: Option<DateTime<Utc>>,
}

/// The reason why an expression is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRegex(String);

/// A regular expression that must match a whole text.
#[derive(Debug)]
pub struct AnchoredRegex(Regex);

impl AnchoredRegex {
    /// Compiles an expression, which takes noticeable time.
    ///
    /// # Errors
    /// Returns [`InvalidRegex`] with the reason.
    pub fn compile(expression: &str) -> Result<Self, InvalidRegex> {
        let expression = &*without_quotes(expression);
        // Compile it alone first, so that it cannot close the group that is added below and open another.
        let unicode = needs_unicode(expression)?;
        check_re2_compatible(expression)?;
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
fn without_quotes(expression: &str) -> Cow<'_, str> {
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
fn needs_unicode(expression: &str) -> Result<bool, InvalidRegex> {
    match build(expression, false) {
        Ok(_) => Ok(false),
        Err(regex::Error::Syntax(_)) => build(expression, true).map(|_| true).map_err(reason),
        Err(error) => Err(reason(error)),
    }
}

/// Refuses syntax with another meaning in RE2, which treats most characters of a class literally. Otherwise
/// tags that should be retained could be deleted.
fn check_re2_compatible(expression: &str) -> Result<(), InvalidRegex> {
    let parsed = ParserBuilder::new()
        .nest_limit(MAX_NESTING)
        .octal(true)
        .build()
        .parse(expression)
        .map_err(|error| InvalidRegex(error.kind().to_string()))?;
    ast::visit(&parsed, Re2Checker { expression })
}

/// Returns the fault of a repetition, by its operator.
fn repetition_fault(repetition: &Repetition, sign: &str) -> Option<String> {
    if matches!(*repetition.ast, Ast::Repetition(_)) {
        return Some(format!("bad repetition operator: `{sign}` follows another one"));
    }
    let most = match &repetition.op.kind {
        RepetitionKind::Range(RepetitionRange::Exactly(count) | RepetitionRange::AtLeast(count)) => *count,
        RepetitionKind::Range(RepetitionRange::Bounded(_, count)) => *count,
        _ => 0,
    };
    (most > MAX_REPETITIONS).then(|| format!("bad repetition operator: `{sign}` exceeds {MAX_REPETITIONS}"))
}

/// Returns a flag that RE2 does not support.
fn unsupported_flag(flags: &Flags) -> Option<String> {
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
fn literal_fault(literal: &Literal, text: &str) -> Option<String> {
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
struct Re2Checker<'e> {
    expression: &'e str,
}

impl Re2Checker<'_> {
    /// Returns the source text of a span.
    fn sent(&self, span: &Span) -> &str {
        let sent = self.expression.get(span.start.offset..span.end.offset);
        sent.unwrap_or_default()
    }

    fn check_literal(&self, literal: &Literal) -> Result<(), InvalidRegex> {
        literal_fault(literal, self.sent(&literal.span)).map_or(Ok(()), |text| Err(InvalidRegex(text)))
    }
}

impl ast::Visitor for Re2Checker<'_> {
    type Output = ();
    type Err = InvalidRegex;

    fn finish(self) -> Result<(), InvalidRegex> {
        Ok(())
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), InvalidRegex> {
        let sent = |span: &Span| self.sent(span);
        let rejected = match part {
            Ast::Repetition(repetition) => repetition_fault(repetition, sent(&repetition.op.span)),
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
            Ast::Flags(set) => unsupported_flag(&set.flags),
            Ast::Group(group) => group.flags().and_then(unsupported_flag),
            Ast::Literal(literal) => return self.check_literal(literal),
            _ => None,
        };
        rejected.map_or(Ok(()), |text| Err(InvalidRegex(text)))
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), InvalidRegex> {
        match item {
            ClassSetItem::Literal(literal) => self.check_literal(literal),
            ClassSetItem::Range(range) => self
                .check_literal(&range.start)
                .and_then(|()| self.check_literal(&range.end)),
            ClassSetItem::Bracketed(_) => Err(InvalidRegex(
                r"`[` must be escaped in a character class: use `\[`".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, operation: &ClassSetBinaryOp) -> Result<(), InvalidRegex> {
        let (sent, instead) = match operation.kind {
            ClassSetBinaryOpKind::Intersection => ("&&", r"\&\&"),
            ClassSetBinaryOpKind::Difference => ("--", r"\-\-"),
            ClassSetBinaryOpKind::SymmetricDifference => ("~~", r"\~\~"),
        };
        Err(InvalidRegex(format!(
            "`{sent}` must be escaped in a character class: use `{instead}`"
        )))
    }
}

fn build(expression: &str, unicode: bool) -> Result<Regex, regex::Error> {
    RegexBuilder::new(expression)
        .unicode(unicode)
        .octal(true)
        .size_limit(MAX_PROGRAM_BYTES)
        .dfa_size_limit(MAX_PROGRAM_BYTES * 4)
        .nest_limit(MAX_NESTING)
        .build()
}

/// Returns the reason of an error in one line.
fn reason(error: regex::Error) -> InvalidRegex {
    let text = match error {
        // The last line states the reason; the lines before it show the position.
        regex::Error::Syntax(text) => {
            let last = text.lines().last().unwrap_or_default().trim();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
        _ => "it is too large".to_owned(),
    };
    InvalidRegex(text)
}

impl CompiledRules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Returns [`InvalidRegex`] for the first invalid expression.
    pub fn compile(rules: &CleanupRules) -> Result<Self, InvalidRegex> {
        Ok(Self {
            delete: AnchoredRegex::compile(&rules.delete)?,
            keep: rules.keep.as_deref().map(AnchoredRegex::compile).transpose()?,
            keep_n: rules.keep_n,
            before: rules.before,
        })
    }

    /// Returns whether a tag with this name may be deleted.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let is_kept = |keep: &AnchoredRegex| keep.matches(name);
        name != LATEST && self.delete.matches(name) && !self.keep.as_ref().is_some_and(is_kept)
    }

    /// Returns the tags to delete, out of all whose names [match](Self::matches). Without the tags it
    /// returned before, it returns the remaining ones, so that an interrupted run can be resumed.
    #[must_use]
    pub fn select(&self, mut candidates: Vec<TagCandidate>) -> Vec<i64> {
        if let Some(keep_n) = self.keep_n {
            // Newest first, and unknown times before them. Ties are broken by the higher ID.
            candidates.sort_unstable_by_key(|tag| {
                Reverse((tag.created_at.unwrap_or(DateTime::<Utc>::MAX_UTC), tag.id))
            });
            let keep_count = usize::try_from(keep_n)
                .unwrap_or(usize::MAX)
                .min(candidates.len());
            candidates.drain(..keep_count);
        }
        if let Some(before) = self.before {
            candidates.retain(|tag| tag.created_at.is_some_and(|time| time < before));
        }
        candidates.into_iter().map(|tag| tag.id).collect()
    }
}

#[cfg(test)]
mod tests;
