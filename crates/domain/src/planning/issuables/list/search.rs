//! Text search in titles and descriptions, based on trigrams.

use std::collections::HashSet;

use sea_orm::sea_query::{BinOper, Expr, Func, Query};
use sea_orm::{Condition, DatabaseBackend, ExprTrait};
use storage::entities::fold;
use storage::entities::issuables::IssuableKind;
use storage::entities::selectivity::TARGET_ID;

use super::{ConditionSet, IndexedCondition, IssuableConditions, IssuableFilter};
use crate::kernel::Backend;
use crate::kernel::query::contains_in_any_case;

/// Minimum length of a word that is searched within texts, in characters.
const MIN_WORD_LENGTH: usize = 3;
/// Maximum number of words that are compared with the text of each row.
const MAX_COMPARED_WORDS: usize = 8;

/// Letters outside of ASCII that full-text queries of SQLite fold to ASCII, with their folded forms.
const FOLDED_TO_ASCII: [(&str, &str); 2] = [("\u{212a}", "k"), ("\u{17f}", "s")];

/// Maximum non-ASCII letters of a short text for which all spellings are searched.
const MAX_NON_ASCII_LETTERS: usize = 6;

/// The search: words within a text, or a whole text. Case is folded by the database, which may know different
/// letters.
#[derive(Debug, PartialEq, Eq)]
enum SearchTerms {
    Words(Vec<String>),
    Text(String),
}

pub(super) fn include(
    kind: IssuableKind,
    conditions: &IssuableConditions,
    backend: &Backend,
    set: &mut ConditionSet,
) {
    let fields = fields(conditions.fields.as_deref());
    if let Some(terms) = conditions.search.as_deref().and_then(parse_terms) {
        set.add(search_condition(
            kind,
            &terms,
            &fields,
            backend.database.read().get_database_backend(),
        ));
    }
}

pub(super) fn exclude(
    kind: IssuableKind,
    filter: &IssuableFilter,
    backend: &Backend,
    set: &mut ConditionSet,
) {
    let names = filter
        .exclude
        .fields
        .as_deref()
        .or(filter.include.fields.as_deref());
    let fields = fields(names);
    if let Some(terms) = filter.exclude.search.as_deref().and_then(parse_terms) {
        match (&terms, backend.database.read().get_database_backend()) {
            (SearchTerms::Words(words), DatabaseBackend::Sqlite) => {
                set.exclude(full_text(kind, words, &fields));
            }
            _ => set.add_test(like(kind, &terms, &fields, non_null).not()),
        }
    }
}

/// Returns an empty text for null, so that no condition on it is null.
fn non_null(column: Expr) -> Expr {
    Func::coalesce([column, Expr::val("")]).into()
}

/// Returns the columns to search; both if none or only unknown ones are named.
fn fields(names: Option<&[String]>) -> Vec<&'static str> {
    let names = names.unwrap_or_default();
    let known = names.iter().filter_map(|name| match name.trim() {
        "title" => Some("title"),
        "description" => Some("description"),
        _ => None,
    });
    let mut known: Vec<&str> = known.collect();
    if known.is_empty() {
        known = vec!["title", "description"];
    }
    known
}

/// Splits a search text into words. A quoted phrase is one word. Short words are ignored unless all of them
/// are short.
fn parse_terms(text: &str) -> Option<SearchTerms> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let mut words = Vec::new();
    for (index, part) in text.split('"').enumerate() {
        match index % 2 {
            1 => words.push(part.trim().to_owned()),
            _ => words.extend(part.split_whitespace().map(str::to_owned)),
        }
    }
    words.retain(|word| word.chars().count() >= MIN_WORD_LENGTH);
    // Each word is compared with each row, so repeated words would only cost time.
    let mut seen = HashSet::new();
    words.retain(|word| seen.insert(fold(word)));
    Some(match words.is_empty() {
        true => SearchTerms::Text(text.to_owned()),
        false => SearchTerms::Words(words),
    })
}

fn search_condition(
    kind: IssuableKind,
    terms: &SearchTerms,
    fields: &[&'static str],
    database: DatabaseBackend,
) -> IndexedCondition {
    match (terms, database) {
        (SearchTerms::Words(words), DatabaseBackend::Sqlite) => full_text(kind, words, fields),
        _ => {
            let condition = like(kind, terms, fields, |column| column);
            IndexedCondition::on_row(kind, condition.clone(), condition)
        }
    }
}

/// Matches texts that contain all words in the same column.
fn like(
    kind: IssuableKind,
    terms: &SearchTerms,
    fields: &[&'static str],
    text: impl Fn(Expr) -> Expr,
) -> Condition {
    fields.iter().fold(Condition::any(), |any, field| {
        let column = Expr::expr(Func::lower(text(kind.column(field))));
        any.add(match terms {
            SearchTerms::Text(text) => {
                let spelled = spellings(&fold(text)).into_iter().map(Expr::val);
                let as_sent = Expr::from(Func::lower(Expr::val(text.as_str())));
                Condition::all().add(column.is_in(spelled.chain([as_sent])))
            }
            SearchTerms::Words(words) => words.iter().fold(Condition::all(), |all, word| {
                all.add(contains_in_any_case(column.clone(), word))
            }),
        })
    })
}

/// Returns the spellings of a folded text, for a database that only folds ASCII letters: with each other
/// letter in either case. With more than six such letters, all of them have the same case.
fn spellings(folded: &str) -> Vec<String> {
    let others = folded.chars().filter(|letter| !letter.is_ascii());
    if others.count() > MAX_NON_ASCII_LETTERS {
        return vec![folded.to_owned(), folded.to_uppercase().to_ascii_lowercase()];
    }
    let mut all = vec![String::new()];
    for letter in folded.chars() {
        let capital: String = letter.to_uppercase().collect();
        let cases = match !letter.is_ascii() && capital.chars().count() == 1 && fold(&capital) != capital {
            true => vec![letter.to_string(), capital],
            false => vec![letter.to_string()],
        };
        all = all
            .iter()
            .flat_map(|start| cases.iter().map(move |case| format!("{start}{case}")))
            .collect();
    }
    all
}

/// Matches texts that contain all words in the same column, by a comparison with the text of the row. Finds the same
/// texts as a full-text query of SQLite, whose words consist of ASCII characters.
fn in_row(kind: IssuableKind, words: &[String], fields: &[&'static str]) -> Condition {
    fields.iter().fold(Condition::any(), |any, field| {
        let mut text = Expr::from(Func::lower(non_null(kind.column(field))));
        for (letter, folded) in FOLDED_TO_ASCII {
            text = Func::cust("replace")
                .args([text, Expr::val(letter), Expr::val(folded)])
                .into();
        }
        any.add(words.iter().fold(Condition::all(), |all, word| {
            let word = Expr::val(word.to_ascii_lowercase());
            all.add(Expr::from(Func::cust("instr").args([text.clone(), word])).gt(0))
        }))
    })
}

/// Words as a full-text query, which is case-insensitive by itself.
fn full_text(kind: IssuableKind, words: &[String], fields: &[&'static str]) -> IndexedCondition {
    let texts = kind.texts();
    let phrases: Vec<String> = words
        .iter()
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
        .collect();
    let all = phrases.join(" AND ");
    let columns: Vec<String> = fields.iter().map(|field| format!("{field} : ({all})")).collect();
    let query = columns.join(" OR ");
    let ids = Query::select()
        .expr_as(Expr::col((texts, "rowid")), TARGET_ID)
        .from(texts)
        .and_where(Expr::col(texts).binary(BinOper::Custom("MATCH"), query))
        .take();
    // A full-text query takes almost a millisecond even for a single row, so it never runs once for each row. The sum
    // prevents a lookup of each match in the table.
    let in_matches = Condition::all().add(kind.column("id").add(0).in_subquery(ids.clone()));
    IndexedCondition {
        ids,
        // Each comparison with a row copies its text.
        test: match words.len() <= MAX_COMPARED_WORDS && words.iter().all(|word| word.is_ascii()) {
            true => in_row(kind, words, fields),
            // Only the full-text table folds other letters, and reads many words at once.
            false => in_matches.clone(),
        },
        own: None,
        in_matches: Some(in_matches),
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::sea_query::SqliteQueryBuilder;

    use super::*;

    fn words(all: &[&str]) -> Option<SearchTerms> {
        Some(SearchTerms::Words(all.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn quoted_words_are_one_term_and_short_words_are_ignored() {
        assert_eq!(
            parse_terms("Fix the \"Broken Build\" of CI"),
            words(&["Fix", "the", "Broken Build"])
        );
        assert_eq!(parse_terms("ÄRGER an"), words(&["ÄRGER"]));
        assert_eq!(parse_terms("\"open quote"), words(&["open quote"]));
        assert_eq!(parse_terms("Broken the broken the"), words(&["Broken", "the"]));
    }

    #[test]
    fn text_of_only_short_words_is_one_term() {
        assert_eq!(parse_terms(" Go "), Some(SearchTerms::Text("Go".to_owned())));
        assert_eq!(parse_terms("a b"), Some(SearchTerms::Text("a b".to_owned())));
        assert_eq!(parse_terms("  "), None);
    }

    #[test]
    fn many_words_are_not_compared_with_each_row() {
        let test = |count: usize| {
            let words: Vec<String> = (0..count).map(|number| format!("word{number}")).collect();
            let rows = Query::select()
                .expr(Expr::val(1))
                .cond_where(full_text(IssuableKind::Issue, &words, &["title"]).test)
                .take();
            rows.to_string(SqliteQueryBuilder)
        };
        assert_eq!(
            test(MAX_COMPARED_WORDS).matches("instr(").count(),
            MAX_COMPARED_WORDS
        );
        let many = test(MAX_COMPARED_WORDS + 1);
        assert!(!many.contains("instr(") && many.contains(" MATCH "), "{many}");
        // Repeated words count once.
        let repeated = "again ".repeat(100);
        assert_eq!(parse_terms(&repeated), words(&["again"]));
    }

    #[test]
    fn short_text_is_searched_in_both_cases() {
        assert_eq!(spellings("go"), ["go"]);
        assert_eq!(spellings("öl"), ["öl", "Öl"]);
        assert_eq!(spellings("中 é"), ["中 é", "中 É"]);
        // A sharp s has no single-letter uppercase form.
        assert_eq!(spellings("äöü ßé").len(), 16);
        assert_eq!(spellings("äö üä öü ä").len(), 2);
    }

    #[test]
    fn unknown_search_fields_are_ignored() {
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            fields(Some(&names)).len()
        };
        assert_eq!(
            (named(&["title"]), named(&["title", "x"]), named(&["x"])),
            (1, 1, 2)
        );
    }
}
