//! Comparison of the router with the contract: operations, IDs and success statuses.

use std::collections::BTreeSet;

use contract::operation::Operation;
use contract::table;

use crate::support::contract::DOCUMENT;

/// Returns `method path id status` of every operation in a document.
fn operations(document: &serde_json::Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("an item").iter().filter(|(_, value)| value.is_object()) {
            let responses = operation["responses"].as_object().expect("responses");
            let success =
                responses.keys().find(|status| status.starts_with('2') || *status == "302").expect("a success");
            let id = operation["operationId"].as_str().expect("an id");
            found.insert(format!("{method} {path} {id} {success}"));
        }
    }
    found
}

fn lines<'a>(operations: impl Iterator<Item = &'a Operation>) -> BTreeSet<String> {
    operations.map(|o| format!("{} {} {} {}", o.method.to_lowercase(), o.path, o.id, o.success)).collect()
}

fn operation_table_matches_openapi_document() {
    assert_eq!(lines(table::operations().iter()), operations(&DOCUMENT));
}

fn router_has_exactly_the_documented_operations() {
    assert_eq!(lines(holdfast::app::routes().operations()), operations(&DOCUMENT));
}

harness::tests![operation_table_matches_openapi_document, router_has_exactly_the_documented_operations];
