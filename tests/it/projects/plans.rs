//! How the databases go about lists of projects: by the indexes that are there for them.

use sea_orm::{ConnectionTrait, DbBackend, Statement, TransactionTrait};
use serde_json::json;

use crate::support::places::{group, join, project};
use crate::support::{Client, TestServer, scenario};

/// The statement that finds the projects of a page.
async fn statement(server: &TestServer, client: &Client, path: &str) -> String {
    let before = server.statements();
    client.get(path).await.expect(200);
    let texts = server.statement_texts(before);
    let page = |text: &&String| text.contains("FROM \"projects\" LEFT JOIN \"namespaces\"") && text.contains("ORDER BY");
    texts.iter().find(page).expect("a page of projects").clone()
}

/// The lines of the plan for a statement, whose values do not matter.
async fn plan(server: &TestServer, sql: &str) -> Vec<String> {
    let db = server.backend.database.read();
    let lines = match db.get_database_backend() {
        DbBackend::Postgres => {
            // A table so small is read as a whole whatever indexes there are, so that is forbidden where it can be
            // avoided; and how many rows are wanted is said, so that the order counts.
            let (head, _) = sql.split_once(" LIMIT ").expect("a limit");
            let tail = sql.split_once(") ORDER BY").expect("a subquery").1;
            let sql = format!("{head} LIMIT 21) ORDER BY{tail}");
            let values = (1..).take_while(|number| sql.contains(&format!("${number}")));
            let nulls = values.map(|_| "NULL").collect::<Vec<_>>().join(", ");
            let execute = if nulls.is_empty() { String::new() } else { format!("({nulls})") };
            let transaction = db.begin().await.expect("a transaction");
            for setting in ["enable_seqscan = off", "plan_cache_mode = force_generic_plan"] {
                transaction.execute_unprepared(&format!("SET LOCAL {setting}")).await.expect("a setting");
            }
            transaction.execute_unprepared(&format!("PREPARE page AS {sql}")).await.expect("a statement");
            let explain = Statement::from_string(DbBackend::Postgres, format!("EXPLAIN EXECUTE page{execute}"));
            let rows = transaction.query_all_raw(explain).await.expect("a plan");
            transaction.execute_unprepared("DEALLOCATE page").await.expect("an end");
            transaction.rollback().await.expect("an end");
            rows.iter().map(|row| row.try_get_by_index::<String>(0).expect("a line")).collect::<Vec<_>>()
        }
        backend => {
            let explain = Statement::from_string(backend, format!("EXPLAIN QUERY PLAN {sql}"));
            let rows = db.query_all_raw(explain).await.expect("a plan");
            rows.iter().map(|row| row.try_get::<String>("", "detail").expect("a line")).collect()
        }
    };
    lines
}

/// Whether a line reads the whole table of projects, or puts what it reads together from several indexes.
fn is_costly(line: &str) -> bool {
    let line = line.trim();
    line == "SCAN projects" || line.contains("Seq Scan on projects") || line.contains("MULTI-INDEX OR")
}

scenario! {
    async fn pages_are_read_in_the_index_of_their_order(server) {
        let root = server.root();
        let ada = server.person("ada").await;
        let engines = group(&root, "engines", json!({"visibility": "public"})).await;
        join(&root, &format!("/groups/{engines}"), ada.id, 30).await;
        project(&root, "one", json!({"namespace_id": engines, "visibility": "public"})).await;
        for client in [&root, &ada.client, &server.anonymous()] {
            for (query, index) in [
                ("", "ix_projects_created_at_id_visibility_namespace_id"),
                ("order_by=updated_at", "ix_projects_updated_at_id_visibility_namespace_id"),
                ("order_by=last_activity_at", "ix_projects_last_activity_at_id_visibility_namespace_id"),
                ("order_by=name&sort=asc", "ix_projects_name_id_visibility_namespace_id"),
                ("order_by=path", "ix_projects_path_id_visibility_namespace_id"),
                ("order_by=id", "ix_projects_id_visibility_namespace_id"),
                ("order_by=id&pagination=keyset&id_before=9", "ix_projects_id_visibility_namespace_id"),
                ("page=400&per_page=100", "ix_projects_created_at_id_visibility_namespace_id"),
            ] {
                let sql = statement(&server, client, &format!("/projects?{query}")).await;
                let plan = plan(&server, &sql).await;
                assert!(plan.iter().any(|line| line.contains(index)), "{query}: {plan:#?}");
                assert!(!plan.iter().any(|line| is_costly(line)), "{query}: {plan:#?}");
            }
        }
    }
}
