use std::time::{Duration, Instant};

use chrono::TimeDelta;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SEED: u64 = 0x5eed_7a65;

fn delete_rules(delete: &str) -> CleanupRules {
    CleanupRules {
        delete: delete.to_owned(),
        keep: None,
        keep_n: None,
        before: None,
    }
}

fn is_match(expression: &str, name: &str) -> bool {
    AnchoredRegex::compile(expression)
        .unwrap_or_else(|error| panic!("{expression}: {error}"))
        .matches(name)
}

#[test]
fn regex_matches_whole_tag_name() {
    for (expression, name, matches) in [
        (".*", "v1", true),
        ("v", "v1", false),
        ("1", "v1", false),
        ("v.", "v1", true),
        ("a|ab", "ab", true),
        ("^v1$", "v1", true),
        (r"\Av1\z", "v1", true),
        ("(?i)V1", "v1", true),
        (r"\d{2}", "12", true),
        (r"\d{2}", "123", false),
        (r"\pL+", "abc", true),
        ("[[:alpha:]]+", "abc", true),
        ("(?P<x>a)b", "ab", true),
        (r"v\.1", "v.1", true),
        (r"v\.1", "vx1", false),
        ("(?m)^a$", "a", true),
        ("(?U)a+", "aaa", true),
        ("(?s).+", "a-b", true),
        ("(?:)", "v1", false),
        ("", "v1", false),
        ("(?:){1000}", "v1", false),
        (r"\Qv1.0\E|v2", "v1.0", true),
        (r"\Qv1.0\E|v2", "v1x0", false),
        (r"\Qv1.0\E|v2", "v2", true),
        (r"v\\\Q.", r"v\.", true),
        (r"\Q(((", "(((", true),
        (r"\1661", "v1", true),
        (r"v\x31", "v1", true),
        (r"\x{76}1", "v1", true),
        ("v1*?", "v111", true),
        (r"v\b.1", "v-1", true),
    ] {
        assert_eq!(is_match(expression, name), matches, "{expression} {name}");
    }
}

#[test]
fn invalid_regex_is_rejected_with_one_line_reason() {
    for (expression, why) in [
        ("(", "unclosed group"),
        ("*", "repetition operator missing expression"),
        ("[", "unclosed character class"),
        ("a)|(b", "unopened group"),
        ("a)(?:b", "unopened group"),
        ("(?<a)", "invalid capture group character"),
        (
            "(?=a)",
            "look-around, including look-ahead and look-behind, is not supported",
        ),
        (r"(a)\1", "backreferences are not supported"),
        (r"\C", "unrecognized escape sequence"),
        (r"\pX", "Unicode property not found"),
        ("a{2,1}", "invalid repetition count range"),
        ("\\", "incomplete escape sequence"),
        ("(a{1000}){1000}", "it is too large"),
        ("x{1000}{1000}{1000}{1000}{1000}", "it is too large"),
        (r"\pL{1000}", "it is too large"),
        (r"\<v1.0\>", r"`\<` is not a word boundary: use `<`"),
        (r"v2\b{end}", r"unknown escape `\b{end}`: use `\b`"),
        (r"\b{start-half}v2", r"unknown escape `\b{start-half}`: use `\b`"),
        ("v2**", "bad repetition operator: `*` follows another one"),
        ("v2{2}+", "bad repetition operator: `+` follows another one"),
        ("v{1001}", "bad repetition operator: `{1001}` exceeds 1000"),
        ("v{0,1001}", "bad repetition operator: `{0,1001}` exceeds 1000"),
        ("(?u)v2", "unknown flag: expected `i`, `m`, `s` or `U`"),
        ("(?x:v2)", "unknown flag: expected `i`, `m`, `s` or `U`"),
        (r"\u0076", r"unknown escape `\u0076`: use `\x{...}`"),
        (r"[a\u0076]", r"unknown escape `\u0076`: use `\x{...}`"),
        (r"[a-\U00000076]", r"unknown escape `\U00000076`: use `\x{...}`"),
        (r"\u{76}", r"unknown escape `\u{76}`: use `\x{...}`"),
        ("(?x)a #", "unknown flag: expected `i`, `m`, `s` or `U`"),
        // Literal text in RE2.
        ("v{,3}", "repetition quantifier expects a valid decimal"),
    ] {
        let error = AnchoredRegex::compile(expression)
            .expect_err(expression)
            .to_string();
        assert!(
            error.starts_with(why) && !error.contains('\n'),
            "{expression}: {error}"
        );
    }
    let deep = "(".repeat(500) + &")".repeat(500);
    assert!(AnchoredRegex::compile(&deep).is_err());
}

#[test]
fn character_classes_match_like_re2_or_are_rejected() {
    for (expression, name, matches) in [
        (r"[a\-\-b]", "-", true),
        (r"[a\&\&b]", "b", true),
        (r"[a\[b]", "[", true),
        ("[a-c-]", "-", true),
        ("[-a]", "-", true),
        ("[a&~b]", "b", true),
        ("[]a]", "]", true),
        ("[^]a]", "a", false),
        ("[[:digit:]a]", "7", true),
        ("[^[:^digit:]]", "7", true),
        (r"[\d&]", "7", true),
        ("a--b", "a--b", true),
        (r"\[[a]", "[a", true),
    ] {
        assert_eq!(is_match(expression, name), matches, "{expression} {name}");
    }
    for (expression, instead) in [
        ("[a--b]", r"use `\-\-`"),
        ("v[0-9--5]", r"use `\-\-`"),
        ("(x|[a-z&&b])", r"use `\&\&`"),
        ("[a~~b]+", r"use `\~\~`"),
        ("[[a]b]", r"use `\[`"),
        ("[a[^b]]", r"use `\[`"),
        ("[[:nonsense:]]", r"use `\[`"),
        (r"[\pL--a]", r"use `\-\-`"),
    ] {
        let error = AnchoredRegex::compile(expression)
            .expect_err(expression)
            .to_string();
        assert!(error.ends_with(instead), "{expression}: {error}");
    }
}

#[test]
fn hostile_regexes_match_in_linear_time() {
    let name = format!("{}b", "a".repeat(127));
    for expression in [
        "(a+)+",
        "(a|aa)+$",
        "(.*a){20}",
        "(a*)*b?c",
        "(?:a?){100}a{100}",
        "(x+x+)+y",
        ".*.*.*.*.*.*.*.*c",
        "([a-z0-9]+[-_.]?)+c",
        "(?:a{0,40}){0,40}c",
        "[ab]*a[ab]{300}",
    ] {
        let rules = CompiledRules::compile(&delete_rules(expression)).expect(expression);
        let begun = Instant::now();
        for _ in 0..100 {
            assert!(!rules.matches(&name), "{expression}");
        }
        // A backtracking engine would take astronomical time.
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{expression}: {:?}",
            begun.elapsed()
        );
    }
}

fn day(number: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(number * 86_400, 0)
}

fn tags(days: &[Option<i64>]) -> Vec<TagCandidate> {
    let numbered = (1..).zip(days);
    numbered
        .map(|(id, number)| TagCandidate {
            id,
            created_at: number.and_then(day),
        })
        .collect()
}

fn chosen(rules: &CleanupRules, days: &[Option<i64>]) -> Vec<i64> {
    let mut ids = CompiledRules::compile(rules).expect("rules").select(tags(days));
    ids.sort_unstable();
    ids
}

#[test]
fn latest_tag_is_never_deleted() {
    let rules = CompiledRules::compile(&delete_rules(".*")).expect("rules");
    assert!(!rules.matches("latest") && rules.matches("Latest") && rules.matches("latest-1"));
    assert!(
        !CompiledRules::compile(&delete_rules("latest"))
            .expect("rules")
            .matches("latest")
    );
}

#[test]
fn keep_regex_overrides_delete_regex() {
    let cleanup_rules = CleanupRules {
        keep: Some("v1.*".to_owned()),
        ..delete_rules("v.*")
    };
    let rules = CompiledRules::compile(&cleanup_rules).expect("rules");
    assert!(rules.matches("v2") && rules.matches("v") && !rules.matches("v1") && !rules.matches("v10"));
    assert!(rules.matches("vv1"), "it matches whole names as well");
    let nothing = CleanupRules {
        keep: Some(".*".to_owned()),
        ..delete_rules(".*")
    };
    assert!(!CompiledRules::compile(&nothing).expect("rules").matches("v2"));
    let empty = CleanupRules {
        keep: Some(String::new()),
        ..delete_rules(".*")
    };
    assert!(CompiledRules::compile(&empty).expect("rules").matches("v2"));
}

#[test]
fn keep_n_retains_newest_tags_and_treats_undated_tags_as_newest() {
    let keep_newest = |keep_n| CleanupRules {
        keep_n: Some(keep_n),
        ..delete_rules(".*")
    };
    let days = [Some(3), None, Some(1), Some(2), None];
    assert_eq!(chosen(&keep_newest(0), &days), [1, 2, 3, 4, 5]);
    assert_eq!(chosen(&keep_newest(1), &days), [1, 2, 3, 4]);
    assert_eq!(chosen(&keep_newest(2), &days), [1, 3, 4]);
    assert_eq!(chosen(&keep_newest(3), &days), [3, 4]);
    assert_eq!(chosen(&keep_newest(u64::MAX), &days), [0_i64; 0]);
    assert_eq!(
        chosen(&keep_newest(1), &[Some(1), Some(1), Some(1)]),
        [1, 2],
        "the last of one age stays"
    );
}

#[test]
fn older_than_retains_newer_and_undated_tags() {
    let old = CleanupRules {
        before: day(3),
        ..delete_rules(".*")
    };
    assert_eq!(chosen(&old, &[Some(1), Some(2), Some(3), Some(4), None]), [1, 2]);
    let both = CleanupRules {
        keep_n: Some(1),
        ..old
    };
    // The newest of all matching tags is retained, not the newest of the old ones.
    assert_eq!(chosen(&both, &[Some(1), Some(2), Some(3)]), [1, 2]);
    assert_eq!(chosen(&both, &[Some(1), Some(2)]), [1]);
}

/// Reference implementation of the same rules: each rule filters the result of the one before.
fn model(
    rules: &CleanupRules,
    tags: &[(i64, String, Option<DateTime<Utc>>)],
    expressions: [fn(&str) -> bool; 2],
) -> Vec<i64> {
    let mut remaining: Vec<_> = tags.iter().filter(|tag| tag.1 != "latest").collect();
    remaining.retain(|tag| expressions[0](&tag.1));
    if rules.keep.is_some() {
        remaining.retain(|tag| !expressions[1](&tag.1));
    }
    for _ in 0..rules.keep_n.unwrap_or(0) {
        let age = |tag: &&(i64, String, Option<DateTime<Utc>>)| (tag.2.is_none(), tag.2, tag.0);
        let Some(newest) = remaining.iter().max_by_key(|tag| age(tag)).map(|tag| tag.0) else {
            break;
        };
        remaining.retain(|tag| tag.0 != newest);
    }
    if let Some(before) = rules.before {
        remaining.retain(|tag| tag.2.is_some_and(|time| time < before));
    }
    remaining.iter().map(|tag| tag.0).collect()
}

/// Predicate on names.
type Meaning = fn(&str) -> bool;

/// Expressions with equivalent predicates.
const MEANINGS: [(&str, Meaning); 6] = [
    (".*", |_| true),
    ("v.*", |name| name.starts_with('v')),
    ("v[0-4]+", |name| {
        name.len() > 1 && name.starts_with('v') && name[1..].chars().all(|char| ('0'..='4').contains(&char))
    }),
    ("latest|.*9", |name| name == "latest" || name.ends_with('9')),
    ("", |_| false),
    ("(?i)V1|x", |name| name == "v1" || name == "x"),
];

#[test]
fn random_selections_match_reference_and_resume() {
    let mut random = StdRng::seed_from_u64(SEED);
    for round in 0..2_000 {
        let tags: Vec<_> = (0..random.random_range(0..40))
            .map(|id| {
                let name = match random.random_range(0..10) {
                    0 => "latest".to_owned(),
                    1 => "x".to_owned(),
                    _ => format!("v{}", random.random_range(0..60)),
                };
                let time = (random.random_range(0..4) > 0)
                    .then(|| day(random.random_range(0..20)))
                    .flatten();
                (id, name, time)
            })
            .collect();
        let delete = MEANINGS[random.random_range(0..MEANINGS.len())];
        let keep = MEANINGS[random.random_range(0..MEANINGS.len())];
        let cleanup_rules = CleanupRules {
            delete: delete.0.to_owned(),
            keep: (random.random_range(0..2) == 0).then(|| keep.0.to_owned()),
            keep_n: (random.random_range(0..2) == 0).then(|| random.random_range(0..15)),
            before: (random.random_range(0..2) == 0)
                .then(|| day(random.random_range(0..20)).map(|day| day + TimeDelta::hours(1)))
                .flatten(),
        };
        let rules = CompiledRules::compile(&cleanup_rules).expect("rules");
        let choose = |deleted: &[i64]| {
            let existing = tags.iter().filter(|tag| !deleted.contains(&tag.0));
            let matching = existing.filter(|tag| rules.matches(&tag.1));
            let mut ids = rules.select(
                matching
                    .map(|(id, _, created_at)| TagCandidate {
                        id: *id,
                        created_at: *created_at,
                    })
                    .collect(),
            );
            ids.sort_unstable();
            ids
        };
        let mut expected = model(&cleanup_rules, &tags, [delete.1, keep.1]);
        expected.sort_unstable();
        let all = choose(&[]);
        assert_eq!(all, expected, "round {round}: {cleanup_rules:?} {tags:?}");
        // After an interruption, the remaining tags are selected and no others.
        let (deleted, rest) = all.split_at(random.random_range(0..=all.len()));
        assert_eq!(choose(deleted), rest, "round {round}: {cleanup_rules:?} {tags:?}");
    }
}
