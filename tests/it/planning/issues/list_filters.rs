//! Filters of issue lists against a reference implementation, on data that makes the server use each form of a filter.

use std::cmp::Reverse;

use sea_orm::{ConnectionTrait, DatabaseBackend};
use serde_json::json;

use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

/// Number of issues: more than the server reads in the order of a list before it looks up matches.
const ISSUES: usize = 6_000;
/// Number of the oldest issues, which have the label `old`: more than the server looks up one by one.
const OLD: usize = 1_500;
/// Issues per page.
const PER_PAGE: usize = 100;

/// Words of the texts. Some have letters that databases fold differently, or wildcards of `LIKE`.
const WORDS: [&str; 12] = [
    "Kelvin",
    "\u{212a}ELVIN",
    "silver lining",
    "\u{17f}ilver Lining",
    "SILVER",
    "größe",
    "GRÖSSE",
    "GRÖßE",
    "100%_done",
    "100 done",
    "it's",
    "plain words",
];

/// Search texts that match few, many and most issues.
const SEARCHES: [&str; 8] =
    ["kelvin", "silver", "Silver \"er lin\"", "größe", "grösse kelvin", "100%_", "the", "\u{212a}el"];

struct Issue {
    iid: usize,
    title: String,
    description: Option<String>,
    is_closed: bool,
    labels: Vec<&'static str>,
    /// Minute of the last update.
    updated: usize,
}

/// A deterministic generator of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("a small number")
    }
}

fn issues() -> Vec<Issue> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let text = |random: &mut Random| format!("The {} {}", WORDS[random.below(12)], WORDS[random.below(12)]);
    let issue = |iid| Issue {
        iid,
        title: text(&mut random),
        description: (random.below(3) > 0).then(|| text(&mut random)),
        is_closed: random.below(3) == 0,
        labels: [("bug", 2), ("ui", 5), ("rare", 200), ("old", 0)]
            .into_iter()
            .filter(|(_, share)| match share {
                0 => iid <= OLD,
                share => random.below(*share) == 0,
            })
            .map(|(title, _)| title)
            .collect(),
        updated: random.below(60),
    };
    (1..=ISSUES).map(issue).collect()
}

async fn insert(server: &TestServer, project_id: i64, label_ids: &[(&str, i64)], issues: &[Issue]) {
    let db = server.backend.database.write();
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    for some in issues.chunks(500) {
        let rows = some.iter().map(|issue| {
            let description = issue.description.as_deref().map_or("NULL".to_owned(), quoted);
            let (title, state) = (quoted(&issue.title), if issue.is_closed { "closed" } else { "opened" });
            format!(
                "({project_id}, {}, 1, {title}, {description}, '{state}', 0, 0, '2025-01-01T00:00:00+00:00', \
                 '2025-01-02T00:{:02}:00+00:00')",
                issue.iid, issue.updated
            )
        });
        let rows: Vec<String> = rows.collect();
        let statement = format!(
            "INSERT INTO issues (project_id, iid, author_id, title, description, state, tasks, completed_tasks, \
             created_at, updated_at) VALUES {}",
            rows.join(", ")
        );
        db.execute_unprepared(&statement).await.expect("issues");
    }
    for (title, label_id) in label_ids {
        let labeled = issues.iter().filter(|issue| issue.labels.contains(title));
        let iids: Vec<String> = labeled.map(|issue| issue.iid.to_string()).collect();
        let statement = format!(
            "INSERT INTO issue_labels (issue_id, label_id) SELECT id, {label_id} FROM issues \
             WHERE project_id = {project_id} AND iid IN ({})",
            iids.join(", ")
        );
        db.execute_unprepared(&statement).await.expect("labels");
    }
    db.execute_unprepared("ANALYZE").await.expect("statistics");
    server.backend.database.invalidate();
}

/// A filter: its parameters, and the same as a predicate.
struct Filter {
    query: String,
    accepts: Box<dyn Fn(&Issue) -> bool>,
}

/// Returns whether a text contains all words of a search, with the letters that the database folds.
fn contains(database: DatabaseBackend, text: &str, search: &str) -> bool {
    let fold = |text: &str| match database {
        DatabaseBackend::Sqlite => text.to_lowercase().replace('\u{17f}', "s"),
        _ => text.to_lowercase(),
    };
    let words: Vec<&str> = match search.split_once('"') {
        Some((word, phrase)) => vec![word.trim(), phrase.trim_end_matches('"')],
        None => search.split(' ').collect(),
    };
    words.iter().all(|word| fold(text).contains(&fold(word)))
}

fn searches(database: DatabaseBackend) -> Vec<Filter> {
    let mut filters = Vec::new();
    for (number, search) in SEARCHES.into_iter().enumerate() {
        let field = ["title,description", "title", "description"][number % 3];
        let encoded = percent_encoding::utf8_percent_encode(search, percent_encoding::NON_ALPHANUMERIC).to_string();
        let found = move |issue: &Issue| {
            let description = issue.description.as_deref().unwrap_or_default();
            field.contains("title") && contains(database, &issue.title, search)
                || field.contains("description") && contains(database, description, search)
        };
        filters.push(Filter { query: format!("in={field}&search={encoded}"), accepts: Box::new(found) });
        filters.push(Filter {
            query: format!("in={field}&not[search]={encoded}"),
            accepts: Box::new(move |issue| !found(issue)),
        });
    }
    filters
}

/// Returns filters with which each search is combined.
fn others() -> Vec<Filter> {
    let filter =
        |query: &str, accepts: fn(&Issue) -> bool| Filter { query: query.to_owned(), accepts: Box::new(accepts) };
    vec![
        filter("", |_| true),
        filter("labels=old", |issue| issue.labels.contains(&"old")),
        filter("labels=rare", |issue| issue.labels.contains(&"rare")),
        filter("labels=old,ui&not[labels]=bug", |issue| {
            issue.labels.contains(&"old") && issue.labels.contains(&"ui") && !issue.labels.contains(&"bug")
        }),
        filter("not[labels]=old,ui", |issue| !issue.labels.contains(&"old") && !issue.labels.contains(&"ui")),
        filter("state=closed&labels=old", |issue| issue.is_closed && issue.labels.contains(&"old")),
        filter("state=closed", |issue| issue.is_closed),
    ]
}

async fn lists_contain_the_issues_that_match_each_filter(server: TestServer) {
    let root = server.root();
    let id = project(&root, "one", json!({"visibility": "public"})).await;
    let mut label_ids = Vec::new();
    for title in ["bug", "ui", "rare", "old"] {
        label_ids.push((title, crate::planning::labels::label(&root, &format!("/projects/{id}"), title).await));
    }
    let issues = issues();
    insert(&server, id, &label_ids, &issues).await;
    let database = server.backend.database.read().get_database_backend();
    let others = others();
    let orders = ["created_at", "updated_at", "due_date"];
    let mut lengths = Vec::new();
    let paths = [format!("/projects/{id}/issues?"), "/issues?scope=all&".to_owned()];
    for (number, search) in searches(database).iter().enumerate() {
        for (other_number, other) in others.iter().enumerate() {
            let (order, path) = (orders[(number + other_number) % 3], &paths[(number + other_number / 2) % 2]);
            let matching = issues.iter().filter(|issue| (search.accepts)(issue) && (other.accepts)(issue));
            let mut expected: Vec<&Issue> = matching.collect();
            // Issues with the same value are sorted by descending ID.
            expected.sort_by_key(|issue| Reverse((if order == "updated_at" { issue.updated } else { 0 }, issue.iid)));
            let page = [1, 3][number % 2];
            let list =
                format!("{path}per_page={PER_PAGE}&page={page}&order_by={order}&{}&{}", search.query, other.query);
            let found = root.get(&list).await.expect(200);
            let rows = expected.iter().skip((page - 1) * PER_PAGE).take(PER_PAGE);
            let rows: Vec<_> = rows.map(|issue| json!(issue.iid)).collect();
            assert_eq!(found.pluck("iid"), rows, "{list}");
            assert_eq!(found.header("X-Total"), expected.len().to_string(), "{list}");
            lengths.push(expected.len());
        }
    }
    for range in [0..1, 1..500, 500..2_000, 2_000..ISSUES] {
        assert!(lengths.iter().any(|length| range.contains(length)), "no list has {range:?} issues");
    }
}

on_every_database![lists_contain_the_issues_that_match_each_filter];
