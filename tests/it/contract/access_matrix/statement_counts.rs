//! Number of statements of every read operation on PostgreSQL, compared with `tests/it/contract/statements.tsv`.

use std::fmt::Write as _;

use contract::operation::Operation;
use contract::table::operations;
use holdfast::config::ConfigOptions;

use super::{Caller, Fixture};
use crate::support::{DatabaseKind, TestServer};

/// The table.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/contract/statements.tsv");
/// If this environment variable is set, the test writes the table.
const UPDATE: &str = "HOLDFAST_UPDATE_STATEMENTS";
const HEADER: &str = "operation\twithout caches\twith caches\n";
/// Number of requests whose minimum is the number of statements with caches. Other tests write to the same server,
/// which invalidates the caches.
const REQUESTS: usize = 3;
/// Number of requests after which more statements than in the table are an error.
const MAX_REQUESTS: usize = 100;

/// Maximum number of statements of a list and of another resource, with caches.
const MAX_OF_LIST: usize = 4;
const MAX_OF_RESOURCE: usize = 2;
const DOCUMENTS_OF_VERSIONS: &str = "the memory of the versions is reserved before their documents are read";
/// Operations that run more statements, and why.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("download_group_export", "the response is a file, which is not cached"),
    ("get_npm_package", DOCUMENTS_OF_VERSIONS),
    ("get_group_npm_package", DOCUMENTS_OF_VERSIONS),
    ("get_instance_npm_package", "the scope of the name is the path of a namespace, and the documents as above"),
    ("get_issue_link", "a link has two issues, of which the second can belong to another project"),
    ("get_feature_flag", "a flag has strategies, and each strategy has scopes"),
];

impl Fixture<'_> {
    /// Returns the number of statements of an administrator's request, first without and then with cached tokens,
    /// settings, projects and groups. Responses are not cached.
    async fn statements(&self, server: &TestServer, operation: &Operation, expected: Option<usize>) -> (usize, usize) {
        let space = &self.spaces[0];
        let key = self.key_of(operation, space);
        let send = async || self.call(operation, Caller::Admin, space, key).await;
        // Commits are cached by ID, independent of the database.
        send().await;
        let first = server.statements();
        let count = async || {
            let before = server.statement_texts(first).len();
            send().await;
            server.statement_texts(first).len() - before
        };
        let without_caches = count().await;
        let mut with_caches = without_caches;
        for number in 0..MAX_REQUESTS {
            let is_enough = expected.is_none_or(|expected| with_caches <= expected);
            if number >= REQUESTS && is_enough {
                break;
            }
            with_caches = with_caches.min(count().await);
        }
        (without_caches, with_caches)
    }
}

fn number_in(table: &str, operation: &Operation) -> Option<usize> {
    let row = table.lines().find_map(|line| line.strip_prefix(operation.id)?.strip_prefix('\t'))?;
    row.split('\t').nth(1)?.parse().ok()
}

/// The committed table is the result of the test below, so this test needs no database.
async fn read_operations_in_the_table_run_few_statements() {
    let table = std::fs::read_to_string(TABLE).expect("the table");
    let mut errors = Vec::new();
    for operation in operations().iter().filter(|operation| operation.is_read()) {
        let taken = number_in(&table, operation).unwrap_or_else(|| panic!("{} is not in the table", operation.id));
        let max = match operation.id.starts_with("list_") {
            true => MAX_OF_LIST,
            false => MAX_OF_RESOURCE,
        };
        let is_exception = EXCEPTIONS.iter().any(|(id, _)| *id == operation.id);
        if (taken > max) != is_exception {
            errors.push(format!("{}: {taken} statements (maximum is {max})", operation.id));
        }
    }
    assert!(errors.is_empty(), "operations with other numbers than expected:\n{}", errors.join("\n"));
}

async fn read_operations_run_the_statements_of_the_table() {
    let options = ConfigOptions { response_cache_bytes: Some(0), ..ConfigOptions::default() };
    let server = TestServer::start_with(DatabaseKind::postgresql(), options).await;
    let fixture = Fixture::build(&server).await;
    let must_update = std::env::var_os(UPDATE).is_some();
    let table = match must_update {
        true => String::new(),
        false => std::fs::read_to_string(TABLE).expect("the table"),
    };
    let mut counted = HEADER.to_owned();
    for operation in operations().iter().filter(|operation| operation.is_read()) {
        let expected = number_in(&table, operation);
        let (without_caches, with_caches) = fixture.statements(&server, operation, expected).await;
        writeln!(counted, "{}\t{without_caches}\t{with_caches}", operation.id).expect("a row");
    }
    if must_update {
        std::fs::write(TABLE, counted).expect("the table");
    } else {
        let differs = counted.lines().filter(|line| !table.lines().any(|row| row == *line));
        let differs: Vec<_> = differs.collect();
        assert!(
            counted == table,
            "other numbers than in statements.tsv; set {UPDATE}=1 to update the table:\n{}",
            differs.join("\n")
        );
    }
    drop(fixture);
    server.stop().await;
}

harness::tests![read_operations_in_the_table_run_few_statements];
harness::tests![requires harness::postgresql::missing; read_operations_run_the_statements_of_the_table];
