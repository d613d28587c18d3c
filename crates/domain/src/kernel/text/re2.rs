//! Regular expressions with the syntax and the meaning of RE2.
//!
//! The `regex` crate descends from RE2, and takes linear time too. It differs in a few forms, which are refused, and in the
//! classes `\d`, `\s`, `\w` and `\b`, which contain only ASCII in RE2.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerl, ClassPerlKind, ClassSetBinaryOp, ClassSetBinaryOpKind, ClassSetItem,
    Flag, Flags, FlagsItem, FlagsItemKind, HexLiteralKind, Literal, LiteralKind, Repetition, RepetitionKind,
    RepetitionRange, Span,
};

/// Maximum size of a compiled expression, in bytes. The time of a match is proportional to it.
const MAX_PROGRAM_BYTES: usize = 512 * 1024;

/// Maximum count of a repetition.
const MAX_REPETITIONS: u32 = 1_000;

/// Maximum nesting of an expression.
pub const MAX_NESTING: u32 = 100;

/// The reason why an expression is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRegex(String);

/// A regular expression that is searched for in a text.
#[derive(Debug, Clone)]
pub struct SearchRegex(Regex);

impl SearchRegex {
    /// Compiles an expression, which takes noticeable time. If `multi_line` is true, `^` and `$` match at the start and end of
    /// each line.
    ///
    /// # Errors
    /// Returns [`InvalidRegex`] with the reason.
    pub fn compile(expression: &str, multi_line: bool) -> Result<Self, InvalidRegex> {
        Self::compile_within(expression, multi_line, MAX_PROGRAM_BYTES)
    }

    /// Compiles an expression like [`Self::compile`], to at most a number of bytes. The time of the compilation is
    /// proportional to it.
    ///
    /// # Errors
    /// Returns [`InvalidRegex`] with the reason.
    pub fn compile_within(
        expression: &str,
        multi_line: bool,
        max_bytes: usize,
    ) -> Result<Self, InvalidRegex> {
        let plain = without_quotes(expression);
        check_compatible(&plain)?;
        RegexBuilder::new(&with_ascii_classes(&plain)?)
            .octal(true)
            .multi_line(multi_line)
            .size_limit(max_bytes)
            .dfa_size_limit(max_bytes * 4)
            .nest_limit(MAX_NESTING)
            .build()
            .map(Self)
            .map_err(reason)
    }

    /// Returns whether a part of the text matches.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Returns an expression whose classes contain only ASCII.
fn with_ascii_classes(expression: &str) -> Result<String, InvalidRegex> {
    let classes = ast::visit(&parse(expression)?, ClassFinder::default())?;
    let (mut replaced, mut end) = (String::with_capacity(expression.len()), 0);
    for (span, class) in classes {
        replaced.push_str(expression.get(end..span.start.offset).unwrap_or_default());
        replaced.push_str(class);
        end = span.end.offset;
    }
    replaced.push_str(expression.get(end..).unwrap_or_default());
    Ok(replaced)
}

/// Visitor that finds the classes that are Unicode by default, with their replacements.
#[derive(Default)]
struct ClassFinder(Vec<(Span, &'static str)>);

impl ClassFinder {
    fn add(&mut self, class: &ClassPerl) {
        let ascii = match (&class.kind, class.negated) {
            (ClassPerlKind::Digit, false) => "[0-9]",
            (ClassPerlKind::Digit, true) => "[^0-9]",
            (ClassPerlKind::Space, false) => r"[\t\n\f\r ]",
            (ClassPerlKind::Space, true) => r"[^\t\n\f\r ]",
            (ClassPerlKind::Word, false) => "[0-9A-Za-z_]",
            (ClassPerlKind::Word, true) => "[^0-9A-Za-z_]",
        };
        self.0.push((class.span, ascii));
    }
}

impl ast::Visitor for ClassFinder {
    type Output = Vec<(Span, &'static str)>;
    type Err = InvalidRegex;

    fn finish(self) -> Result<Self::Output, InvalidRegex> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, part: &Ast) -> Result<(), InvalidRegex> {
        match part {
            Ast::ClassPerl(class) => self.add(class),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::WordBoundary => self.0.push((assertion.span, r"(?-u:\b)")),
                AssertionKind::NotWordBoundary => self.0.push((assertion.span, r"(?-u:\B)")),
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), InvalidRegex> {
        if let ClassSetItem::Perl(class) = item {
            self.add(class);
        }
        Ok(())
    }
}

/// Returns an expression with its quoted parts escaped, from `\Q` to `\E` or the end.
#[must_use]
pub fn without_quotes(expression: &str) -> Cow<'_, str> {
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

/// Refuses syntax with another meaning in RE2, which treats most characters of a class literally. Otherwise, an expression
/// could match other texts than its author expects.
///
/// # Errors
/// Returns [`InvalidRegex`] with the reason.
pub fn check_compatible(expression: &str) -> Result<(), InvalidRegex> {
    ast::visit(&parse(expression)?, Re2Checker { expression })
}

fn parse(expression: &str) -> Result<Ast, InvalidRegex> {
    let mut parser = ParserBuilder::new().nest_limit(MAX_NESTING).octal(true).build();
    let parsed = parser.parse(expression);
    parsed.map_err(|error| InvalidRegex(error.kind().to_string()))
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

/// Returns the reason of an error in one line.
#[must_use]
pub fn reason(error: regex::Error) -> InvalidRegex {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(expression: &str, text: &str) -> bool {
        SearchRegex::compile(expression, true).unwrap().is_in(text)
    }

    #[test]
    fn expression_is_searched_for_as_in_re2() {
        for (expression, text, found) in [
            ("b", "abc", true),
            ("^b", "abc", false),
            ("^b$", "a\nb\nc", true),
            (r"^\d+$", "123", true),
            (r"\d", "\u{661}", false),
            (r"^\w+$", "\u{e4}", false),
            (r"^[\w-]+$", "a-b_9", true),
            (r"[^\D]", "a", false),
            (r"^\S+$", "\u{a0}", true),
            (r"\bcd\b", "ab cd", true),
            (r"x\by", "xy", false),
            (r"^.{3}$", "\u{e4}\u{f6}\u{fc}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            ("(?i)JIRA-[0-9]+", "jira-7", true),
            ("", "", true),
        ] {
            assert_eq!(is_in(expression, text), found, "{expression} in {text}");
        }
    }

    #[test]
    fn invalid_and_expensive_expressions_are_refused() {
        for expression in [
            "(",
            "[",
            "a**",
            r"\1",
            "(?=a)",
            "(?<!a)",
            "a{1001}",
            "((a{1000}){1000}){1000}",
            r"[a&&b]",
            "(?x)a",
            r"\<a",
        ] {
            assert!(SearchRegex::compile(expression, false).is_err(), "{expression}");
        }
        let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        assert!(SearchRegex::compile(&nested, false).is_err());
    }

    #[test]
    fn hostile_expression_takes_linear_time() {
        let text = "a".repeat(64 << 10);
        let started = std::time::Instant::now();
        assert!(!is_in("(a*)*(a|aa)*(a?){50}b$", &text));
        assert!(started.elapsed().as_secs() < 20);
    }
}
