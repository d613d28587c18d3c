//! How the databases go about statements.

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, Statement, TransactionTrait};

use super::{Client, TestServer};

/// The statements that a read takes.
pub async fn statements(server: &TestServer, client: &Client, path: &str) -> Vec<String> {
    let before = server.statements();
    client.get(path).await.expect(200);
    server.statement_texts(before)
}

/// The statement with these parts, of those that a list takes.
pub async fn statement_with(server: &TestServer, client: &Client, path: &str, parts: &[&str]) -> String {
    let texts = statements(server, client, path).await;
    let wanted = |text: &&String| parts.iter().all(|part| text.contains(part));
    texts.iter().find(wanted).expect("the statement").clone()
}

/// The lines of the plan for a statement. In PostgreSQL every value but the limit is `value`, or unknown.
pub async fn plan(server: &TestServer, sql: &str, value: Option<&str>) -> Vec<String> {
    let db = server.backend.database.read();
    if db.get_database_backend() == DbBackend::Postgres {
        return plan_of_postgresql(db, sql, value).await;
    }
    let explain = Statement::from_string(DbBackend::Sqlite, format!("EXPLAIN QUERY PLAN {sql}"));
    let rows = db.query_all_raw(explain).await.expect("a plan");
    rows.iter().map(|row| row.try_get::<String>("", "detail").expect("a line")).collect()
}

async fn plan_of_postgresql(db: &DatabaseConnection, sql: &str, value: Option<&str>) -> Vec<String> {
    // How many rows are wanted is said, so that the order counts. What is tried row by row has limits of its own, before that.
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
    // A table so small is read as a whole whatever indexes there are, so without values that is forbidden where it can
    // be avoided.
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

/// The most statements that a page of a list may take.
const MOST: usize = 15;

/// Reads the first page of these lists with each of these questions, by each client, and answers what statements on a
/// table read the whole of it, whatever the order, with their plans. A count goes no further than the limit of what is
/// counted, and is left out. A question with a scope is asked of the bare path.
pub async fn whole_reads(
    server: &TestServer,
    clients: &[&Client],
    lists: &[String],
    questions: &[&str],
    table: &str,
) -> Vec<String> {
    let mut whole = Vec::new();
    for list in lists {
        for client in clients {
            for question in questions {
                let path = match question.contains("scope=") {
                    true => format!("{}?{question}", list.split('?').next().expect("a path")),
                    false => format!("{list}&{question}"),
                };
                let all = statements(server, client, &path).await;
                assert!(all.len() <= MOST, "{path}: {} statements", all.len());
                let concerns =
                    |sql: &&String| sql.contains(&format!("\"{table}\"")) && !sql.starts_with("SELECT COUNT(*)");
                for sql in all.iter().filter(concerns) {
                    let plan = plan(server, sql, None).await;
                    if reads_all(&plan, table, sql.contains("\"few\"")) {
                        whole.push(format!("{path}: {sql} {plan:#?}"));
                    }
                }
            }
        }
    }
    whole
}

/// Whether a plan reads all of a table, whatever the order. What asks whether a condition finds `few` is to look these up: it
/// has no order whose index it could read until there are enough, and does not try each entry of another.
fn reads_all(plan: &[String], table: &str, few: bool) -> bool {
    plan.iter().enumerate().any(|(at, line)| {
        let line = line.trim();
        let next = plan.get(at + 1).map_or("", |line| line.trim());
        let whole = line == format!("SCAN {table}") || line.contains(&format!("Seq Scan on {table}"));
        let unsought = line.starts_with(&format!("SCAN {table} "))
            || line.contains("Scan using") && named(line, table) && next.starts_with("Filter");
        whole || few && unsought
    })
}

/// Whether a line of a plan of PostgreSQL is about a table.
fn named(line: &str, table: &str) -> bool {
    line.split_once(" on ").is_some_and(|(_, rest)| rest.split(' ').next() == Some(table))
}
