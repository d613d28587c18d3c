//! Query plans of the databases.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, DbBackend, Statement};
use storage::database::Database;

use super::{Client, TestServer};

/// Returns the statements that a GET request executes.
pub async fn statements(server: &TestServer, client: &Client, path: &str) -> Vec<String> {
    let before = server.statements();
    client.get(path).await.expect(200);
    server.statement_texts(before)
}

/// Returns the statement of a list request that contains all these parts.
pub async fn statement_with(server: &TestServer, client: &Client, path: &str, parts: &[&str]) -> String {
    let texts = statements(server, client, path).await;
    let has_parts = |text: &&String| parts.iter().all(|part| text.contains(part));
    texts.iter().find(has_parts).expect("the statement").clone()
}

/// Returns the lines of the plan of a statement. In PostgreSQL each parameter except the limit is `value`, or unknown.
pub async fn plan(server: &TestServer, sql: &str, value: Option<&str>) -> Vec<String> {
    let db = server.backend.database.read();
    if db.get_database_backend() == DbBackend::Postgres {
        return plan_of_postgresql(&server.backend.database, sql, value).await;
    }
    let explain = Statement::from_string(DbBackend::Sqlite, format!("EXPLAIN QUERY PLAN {sql}"));
    let rows = db.query_all_raw(explain).await.expect("a plan");
    rows.iter().map(|row| row.try_get::<String>("", "detail").expect("a line")).collect()
}

async fn plan_of_postgresql(db: &Database, sql: &str, value: Option<&str>) -> Vec<String> {
    // The limit is given as a number so that the planner considers the order. Conditions evaluated per row have their
    // own, earlier limits.
    let limited = sql.rsplit_once(" LIMIT ").map(|(head, limit)| {
        let tail = limit.find(')').map_or("", |end| &limit[end..]);
        (head, tail)
    });
    let sql = match limited.filter(|(_, tail)| !tail.contains('$')) {
        None => sql.to_owned(),
        Some((head, tail)) => format!("{head} LIMIT 21{tail}"),
    };
    let values = (1..).take_while(|number| sql.contains(&format!("${number}")));
    let value_text = value.map_or("NULL".to_owned(), |value| format!("'{value}'"));
    let values: Vec<String> = values.map(|_| value_text.clone()).collect();
    let execute = match values.as_slice() {
        [] => "page".to_owned(),
        values => format!("page({})", values.join(", ")),
    };
    // Small tables are always scanned, so sequential scans are disabled where the values are unknown.
    let settings = match value {
        None => "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan;",
        Some(_) => "SET LOCAL plan_cache_mode = force_custom_plan;",
    };
    let transaction = db.begin().await.expect("a transaction");
    let prepare = format!("{settings} PREPARE page AS {sql}");
    transaction.execute_unprepared(&prepare).await.expect("a statement");
    let explain = Statement::from_string(DbBackend::Postgres, format!("EXPLAIN EXECUTE {execute}"));
    let rows = transaction.query_all_raw(explain).await.expect("a plan");
    transaction.execute_unprepared("DEALLOCATE page").await.expect("an end");
    transaction.rollback().await.expect("an end");
    rows.iter().map(|row| row.try_get_by_index::<String>(0).expect("a line")).collect()
}

/// Maximum number of statements for a page of a list.
const MAX_STATEMENTS: usize = 15;

/// Statements of list requests that read a table, each with the path of a request that executes it.
pub type ListStatements = BTreeMap<String, String>;

/// Requests the first page of each list with each query and client, and returns the statements that read the table. A
/// query with a scope is sent to the bare path. Counts are skipped, because they stop at their limit.
pub async fn list_statements(
    server: &TestServer,
    clients: &[&Client],
    lists: &[String],
    queries: &[&str],
    table: &str,
) -> ListStatements {
    let mut found = ListStatements::new();
    for list in lists {
        for client in clients {
            for query in queries {
                let path = match query.contains("scope=") {
                    true => format!("{}?{query}", list.split('?').next().expect("a path")),
                    false => format!("{list}&{query}"),
                };
                let all = statements(server, client, &path).await;
                assert!(all.len() <= MAX_STATEMENTS, "{path}: {} statements", all.len());
                let of_table =
                    |sql: &String| sql.contains(&format!("\"{table}\"")) && !sql.starts_with("SELECT COUNT(*)");
                for sql in all.into_iter().filter(of_table) {
                    found.entry(sql).or_insert_with(|| path.clone());
                }
            }
        }
    }
    found
}

/// Returns the statements, with their plans, that scan the whole table without using an order.
pub async fn full_scans(server: &TestServer, statements: &ListStatements, table: &str) -> Vec<String> {
    assert!(!statements.is_empty());
    let mut full_scans = Vec::new();
    for (sql, path) in statements {
        let plan = plan(server, sql, None).await;
        if reads_all(&plan, table, sql.contains("\"few\"")) {
            full_scans.push(format!("{path}: {sql} {plan:#?}"));
        }
    }
    full_scans
}

/// Returns whether a plan scans a whole table without using an order. If `few` is set, the rows of the condition must
/// be looked up: no other index may be scanned.
fn reads_all(plan: &[String], table: &str, few: bool) -> bool {
    plan.iter().enumerate().any(|(at, line)| {
        let line = line.trim();
        let next = plan.get(at + 1).map_or("", |line| line.trim());
        let full_scan = line == format!("SCAN {table}") || line.contains(&format!("Seq Scan on {table}"));
        let other_index = line.starts_with(&format!("SCAN {table} "))
            || line.contains("Scan using") && refers_to(line, table) && next.starts_with("Filter");
        full_scan || few && other_index
    })
}

/// Returns whether a line of a PostgreSQL plan refers to a table.
fn refers_to(line: &str, table: &str) -> bool {
    line.split_once(" on ").is_some_and(|(_, rest)| rest.split(' ').next() == Some(table))
}
