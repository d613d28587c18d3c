//! Text search in titles and descriptions, based on trigrams.

use sea_orm::sea_query::{BinOper, Expr, Func, Query};
use sea_orm::{Condition, DatabaseBackend, ExprTrait};
use storage::entities::fold;
use storage::entities::issuables::IssuableKind;
use storage::entities::selectivity::TARGET_ID;

use super::{Conditions, Filter, Sieve, Sieves};
use crate::kernel::Backend;
use crate::kernel::query::contains_in_any_case;

/// Minimum length of a word that is searched within texts, in characters.
const SHORTEST: usize = 3;

/// Maximum non-ASCII letters of a short text for which all spellings are searched.
const MOST_LETTERS: usize = 6;

/// The search: words within a text, or a whole text. Case is folded by the database, which may know different
/// letters.
#[derive(Debug, PartialEq, Eq)]
enum Sought {
    Words(Vec<String>),
    Whole(String),
}

pub(super) fn wanted(kind: IssuableKind, conditions: &Conditions, backend: &Backend, sieves: &mut Sieves) {
    let fields = fields(conditions.fields.as_deref());
    if let Some(sought) = conditions.search.as_deref().and_then(sought) {
        sieves.add(sieve(
            kind,
            &sought,
            &fields,
            backend.database.read().get_database_backend(),
        ));
    }
}

pub(super) fn unwanted(kind: IssuableKind, filter: &Filter, backend: &Backend, sieves: &mut Sieves) {
    let inside = filter
        .unwanted
        .fields
        .as_deref()
        .or(filter.wanted.fields.as_deref());
    let fields = fields(inside);
    if let Some(sought) = filter.unwanted.search.as_deref().and_then(sought) {
        let found = match (&sought, backend.database.read().get_database_backend()) {
            (Sought::Words(words), DatabaseBackend::Sqlite) => matching(kind, words, &fields).test,
            // Null counts as an empty description, so that the condition is never null.
            _ => like(kind, &sought, &fields, |column| {
                Func::coalesce([column, Expr::val("")]).into()
            }),
        };
        sieves.test(found.not());
    }
}

/// Returns the columns to search; both if none or only unknown ones are named.
fn fields(named: Option<&[String]>) -> Vec<&'static str> {
    let named = named.unwrap_or_default();
    let known = named.iter().filter_map(|name| match name.trim() {
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
fn sought(text: &str) -> Option<Sought> {
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
    words.retain(|word| word.chars().count() >= SHORTEST);
    Some(match words.is_empty() {
        true => Sought::Whole(text.to_owned()),
        false => Sought::Words(words),
    })
}

fn sieve(kind: IssuableKind, sought: &Sought, fields: &[&'static str], database: DatabaseBackend) -> Sieve {
    match (sought, database) {
        (Sought::Words(words), DatabaseBackend::Sqlite) => matching(kind, words, fields),
        _ => {
            let condition = like(kind, sought, fields, |column| column);
            Sieve::of_things(kind, condition.clone(), condition)
        }
    }
}

/// Matches texts that contain all words in the same column.
fn like(
    kind: IssuableKind,
    sought: &Sought,
    fields: &[&'static str],
    text: impl Fn(Expr) -> Expr,
) -> Condition {
    fields.iter().fold(Condition::any(), |any, field| {
        let column = Expr::expr(Func::lower(text(kind.column(field))));
        any.add(match sought {
            Sought::Whole(text) => {
                let spelled = spellings(&fold(text)).into_iter().map(Expr::val);
                let as_sent = Expr::from(Func::lower(Expr::val(text.as_str())));
                Condition::all().add(column.is_in(spelled.chain([as_sent])))
            }
            Sought::Words(words) => words.iter().fold(Condition::all(), |all, word| {
                all.add(contains_in_any_case(column.clone(), word))
            }),
        })
    })
}

/// Returns the spellings of a folded text, for a database that only folds ASCII letters: with each other
/// letter in either case. With more than six such letters, all of them have the same case.
fn spellings(folded: &str) -> Vec<String> {
    let others = folded.chars().filter(|letter| !letter.is_ascii());
    if others.count() > MOST_LETTERS {
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

/// The same as a full-text query, which is case-insensitive by itself.
fn matching(kind: IssuableKind, words: &[String], fields: &[&'static str]) -> Sieve {
    let texts = kind.texts();
    let phrases: Vec<String> = words
        .iter()
        .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
        .collect();
    let all = phrases.join(" AND ");
    let columns: Vec<String> = fields.iter().map(|field| format!("{field} : ({all})")).collect();
    let question = columns.join(" OR ");
    let found = |question: String| Expr::col(texts).binary(BinOper::Custom("MATCH"), question);
    let ids = Query::select()
        .expr_as(Expr::col((texts, "rowid")), TARGET_ID)
        .from(texts)
        .and_where(found(question.clone()))
        .take();
    let row = Query::select()
        .expr(Expr::val(1))
        .from(texts)
        .and_where(found(question))
        .and_where(Expr::col((texts, "rowid")).eq(kind.column("id")))
        .take();
    Sieve {
        ids,
        test: Condition::all().add(Expr::exists(row)),
        own: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[&str]) -> Option<Sought> {
        Some(Sought::Words(all.iter().map(ToString::to_string).collect()))
    }

    #[test]
    fn quoted_words_are_one_term_and_short_words_are_ignored() {
        assert_eq!(
            sought("Fix the \"Broken Build\" of CI"),
            words(&["Fix", "the", "Broken Build"])
        );
        assert_eq!(sought("ÄRGER an"), words(&["ÄRGER"]));
        assert_eq!(sought("\"open quote"), words(&["open quote"]));
    }

    #[test]
    fn text_of_only_short_words_is_one_term() {
        assert_eq!(sought(" Go "), Some(Sought::Whole("Go".to_owned())));
        assert_eq!(sought("a b"), Some(Sought::Whole("a b".to_owned())));
        assert_eq!(sought("  "), None);
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
