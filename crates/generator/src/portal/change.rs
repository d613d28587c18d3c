//! Differences between the facts of two documents, and which of them are breaking.
//!
//! A change is breaking if a client of the former document can fail. The direction decides: an operation must accept
//! all former values of a request, and must not return new kinds of values. So a type of a request can only be
//! extended, and a type of a response can only be narrowed: null or another type in a response is breaking. New
//! attributes of responses and new values of enumerations are not breaking, because APIs grow by them; the page of
//! changes requires clients to accept both.

use std::collections::{BTreeMap, BTreeSet};

use super::access;
use super::history::Facts;

/// Start of the keys of the statuses of operations.
const STATUSES: &str = "statuses ";
/// End of the values of required parameters and attributes.
const REQUIRED: &str = ", required";
/// End of the access rules of operations that need no credentials.
const ANONYMOUS: &str = ", anonymous";
/// Type of an attribute without a declared type.
const ANY: &str = "any value";
/// Plans in ascending order. An operation without a plan is available on all plans.
const PLANS: [&str; 4] = ["free", "starter", "premium", "ultimate"];

/// A difference between two documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key of the fact.
    pub key: String,
    /// The former value, if the fact existed.
    pub before: Option<String>,
    /// The new value, if the fact exists.
    pub after: Option<String>,
    usage: Usage,
}

/// Where a part of the document is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Usage {
    requests: bool,
    responses: bool,
}

/// Returns the differences between two documents. Parts of new and removed operations and schemas are no differences.
#[must_use]
pub fn compare(before: &Facts, after: &Facts) -> Vec<Change> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let (known, current) = (owners(before), owners(after));
    let requests = [before, after].map(in_requests);
    let responses = [before, after].map(in_responses);
    let changes = keys.into_iter().filter_map(|key| {
        let (old, new) = (before.get(key), after.get(key));
        let owner = owner(key);
        let is_whole = key.starts_with("operation ");
        let in_both = known.contains(owner) && current.contains(owner);
        let is_used = |sets: &[BTreeSet<&str>; 2]| sets.iter().any(|names| names.contains(owner));
        let usage = match kind(key) {
            "parameter" | "body" => Usage {
                requests: true,
                responses: false,
            },
            "attribute" if is_used(&requests) => Usage {
                requests: true,
                responses: is_used(&responses),
            },
            // Responses that are shared and webhooks are no facts, so all other schemas belong to them.
            _ => Usage {
                requests: false,
                responses: true,
            },
        };
        (old != new && (is_whole || in_both)).then(|| Change {
            key: key.clone(),
            before: old.cloned(),
            after: new.cloned(),
            usage,
        })
    });
    changes.collect()
}

/// Returns the first word of a key.
fn kind(key: &str) -> &str {
    key.split(' ').next().unwrap_or_default()
}

/// Returns the second word of a key: an operation ID or the name of a schema.
fn owner(key: &str) -> &str {
    key.split(' ').nth(1).unwrap_or_default()
}

fn owners(facts: &Facts) -> BTreeSet<&str> {
    facts.keys().map(|key| owner(key)).collect()
}

/// Returns the names of the schemas that are part of requests.
fn in_requests(facts: &Facts) -> BTreeSet<&str> {
    reachable(facts, |key| matches!(kind(key), "parameter" | "body"))
}

/// Returns the names of the schemas that are part of responses.
fn in_responses(facts: &Facts) -> BTreeSet<&str> {
    reachable(facts, |key| kind(key) == "response")
}

/// Returns the names of the schemas in the types of some facts, and in the attributes of these schemas.
fn reachable(facts: &Facts, is_start: impl Fn(&str) -> bool) -> BTreeSet<&str> {
    let mut attributes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut pending: Vec<&str> = Vec::new();
    for (key, value) in facts {
        if is_start(key) {
            pending.extend(schemas(value));
        } else if kind(key) == "attribute" {
            attributes.entry(owner(key)).or_default().extend(schemas(value));
        }
    }
    let mut found = BTreeSet::new();
    while let Some(name) = pending.pop() {
        if found.insert(name) {
            pending.extend(attributes.get(name).into_iter().flatten());
        }
    }
    found
}

/// Returns the names of schemas in a type.
fn schemas(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
}

impl Change {
    /// Returns the operation ID or the name of the schema.
    #[must_use]
    pub fn owner(&self) -> &str {
        owner(&self.key)
    }

    /// Returns the kind of the fact, such as `parameter`.
    #[must_use]
    pub fn kind(&self) -> &str {
        kind(&self.key)
    }

    /// Returns the added and the removed statuses of an operation, if the change is one of statuses.
    #[must_use]
    pub fn statuses(&self) -> Option<[BTreeSet<&str>; 2]> {
        if !self.key.starts_with(STATUSES) {
            return None;
        }
        let [before, after] = [&self.before, &self.after].map(|value| words(value.as_deref()));
        Some([
            after.difference(&before).copied().collect(),
            before.difference(&after).copied().collect(),
        ])
    }

    /// Returns whether clients of the former document can fail.
    #[must_use]
    pub fn is_breaking(&self) -> bool {
        let (before, after) = (self.before.as_deref(), self.after.as_deref());
        match (self.kind(), before, after) {
            ("deprecation" | "statuses", ..) => false,
            ("plan", ..) => plan(after) > plan(before),
            ("scopes", ..) => !has_former_scopes(before, after),
            (_, Some(_), None) => true,
            ("access", Some(before), Some(after)) => !has_former_callers(before, after),
            ("operation", Some(_), Some(_)) => true,
            ("parameter" | "attribute", None, Some(after)) => self.usage.requests && is_required(after),
            (_, Some(before), Some(after)) => {
                (self.usage.requests && !accepts(after, before))
                    || (self.usage.responses && !accepts(before, after))
            }
            _ => false,
        }
    }
}

fn is_required(value: &str) -> bool {
    value.ends_with(REQUIRED)
}

fn words(value: Option<&str>) -> BTreeSet<&str> {
    value.unwrap_or_default().split_whitespace().collect()
}

/// Returns whether all values of the type `given` also have the type `expected`. A value can be absent if it is not
/// required, and a required value cannot.
fn accepts(expected: &str, given: &str) -> bool {
    let (all, some) = (types(expected), types(given));
    (all.contains(ANY) || some.is_subset(&all)) && (is_required(given) || !is_required(expected))
}

fn types(value: &str) -> BTreeSet<&str> {
    let value = value.strip_suffix(REQUIRED).unwrap_or(value);
    value.split(" or ").collect()
}

fn plan(name: Option<&str>) -> Option<usize> {
    PLANS.iter().position(|plan| *plan == name.unwrap_or("free"))
}

/// Returns whether tokens with a former scope remain sufficient. An operation without scopes accepts `api`, and only
/// reads accept `read_api`.
fn has_former_scopes(before: Option<&str>, after: Option<&str>) -> bool {
    let before = words(before.or(Some("api read_api")));
    before.is_subset(&words(after.or(Some("api"))))
}

/// Returns whether all callers of the former document can still call an operation.
fn has_former_callers(before: &str, after: &str) -> bool {
    let [(old_on, old_role), (on, role)] = [before, after].map(|value| {
        let value = value.strip_suffix(ANONYMOUS).unwrap_or(value);
        value.split_once(' ').unwrap_or((value, ""))
    });
    let is_open = after.ends_with(ANONYMOUS) || !before.ends_with(ANONYMOUS);
    is_open && on == old_on && access::rank(role) <= access::rank(old_role)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::history::facts;
    use super::*;

    fn document(parameters: &Value, values: &Value) -> Facts {
        facts(&json!({
            "paths": { "/keys": { "get": {
                "operationId": "list_keys", "tags": ["Keys"], "parameters": parameters,
                "x-access": { "on": "project", "min": "guest" }, "responses": { "200": {} },
            } } },
            "components": { "schemas": { "KeyKind": { "type": "string", "enum": values } } },
        }))
    }

    fn state(required: bool) -> Value {
        json!([{ "name": "state", "in": "query", "required": required, "schema": { "type": "string" } }])
    }

    fn found(before: &Facts, after: &Facts) -> Vec<(String, bool)> {
        let changes = compare(before, after);
        changes
            .iter()
            .map(|change| (change.key.clone(), change.is_breaking()))
            .collect()
    }

    #[test]
    fn removed_and_newly_required_parts_are_breaking() {
        let (none, one, both) = (json!([]), json!(["a"]), json!(["a", "b"]));
        let change = |key: &str, breaking| vec![(key.to_owned(), breaking)];
        let parameter = "parameter list_keys query state";
        for (before, after, expected) in [
            (
                document(&none, &one),
                document(&state(false), &one),
                change(parameter, false),
            ),
            (
                document(&none, &one),
                document(&state(true), &one),
                change(parameter, true),
            ),
            (
                document(&state(false), &one),
                document(&state(true), &one),
                change(parameter, true),
            ),
            (
                document(&state(true), &one),
                document(&state(false), &one),
                change(parameter, false),
            ),
            (
                document(&state(false), &one),
                document(&none, &one),
                change(parameter, true),
            ),
            (
                document(&none, &one),
                document(&none, &both),
                change("value KeyKind b", false),
            ),
            (
                document(&none, &both),
                document(&none, &one),
                change("value KeyKind b", true),
            ),
            (document(&none, &both), document(&none, &both), Vec::new()),
        ] {
            assert_eq!(found(&before, &after), expected);
        }
    }

    #[test]
    fn parts_of_new_operations_are_no_changes() {
        let document = document(&state(true), &json!(["a"]));
        assert_eq!(
            found(&Facts::new(), &document),
            [("operation list_keys".to_owned(), false)]
        );
        assert_eq!(
            found(&document, &Facts::new()),
            [("operation list_keys".to_owned(), true)]
        );
    }
    /// Returns the facts of an operation with other values of some facts.
    fn changed(values: &[(&str, &str)]) -> Facts {
        let mut facts = document(&state(false), &json!(["a"]));
        for (key, value) in values {
            facts.insert((*key).to_owned(), (*value).to_owned());
        }
        facts
    }

    /// Returns whether a changed value of a fact is breaking, in both directions.
    fn directions(key: &str, narrow: &str, wide: &str, others: &[(&str, &str)]) -> [bool; 2] {
        [(narrow, wide), (wide, narrow)].map(|(before, after)| {
            let [before, after] = [before, after].map(|value| changed(&[&[(key, value)], others].concat()));
            let found = found(&before, &after);
            assert_eq!(found.len(), 1, "{key}");
            found[0].1
        })
    }

    #[test]
    fn types_of_requests_are_only_extended() {
        let body = [("body list_keys application/json", "KeyCreate")];
        for key in ["parameter list_keys query state", "attribute KeyCreate title"] {
            for (narrow, wide) in [
                ("string", "string or null"),
                ("integer, required", "string or integer, required"),
                ("string, required", "string"),
                ("string", "any value"),
            ] {
                assert_eq!(
                    directions(key, narrow, wide, &body),
                    [false, true],
                    "{key}: {narrow}, {wide}"
                );
            }
            assert_eq!(directions(key, "string", "integer", &body), [true, true], "{key}");
        }
    }

    #[test]
    fn types_of_responses_are_only_narrowed() {
        let response = [("response list_keys 200 application/json", "list of Key")];
        let nested = [response[0], ("attribute Key owner", "KeyOwner or null")];
        for (key, others) in [
            ("attribute Key title", &response[..]),
            ("attribute KeyOwner name", &nested),
        ] {
            assert_eq!(
                directions(key, "string", "string or null", others),
                [true, false],
                "{key}"
            );
            assert_eq!(
                directions(key, "string, required", "string", others),
                [true, false],
                "{key}"
            );
            assert_eq!(
                directions(key, "string", "any value", others),
                [true, false],
                "{key}"
            );
        }
        let key = "response list_keys 200 application/json";
        assert_eq!(directions(key, "Key", "Key or null", &[]), [true, false]);
        assert_eq!(directions(key, "Key", "list of Key", &[]), [true, true]);
    }

    #[test]
    fn types_of_requests_and_responses_cannot_change() {
        let others = [
            ("body list_keys application/json", "Key"),
            ("response list_keys 200 application/json", "Key"),
        ];
        let key = "attribute Key title";
        assert_eq!(directions(key, "string", "string or null", &others), [true, true]);
        let before = changed(&[&others[..], &[("attribute Key kind", "string")]].concat());
        let added =
            |value| changed(&[&others[..], &[("attribute Key kind", "string"), (key, value)]].concat());
        assert_eq!(found(&before, &added("string")), [(key.to_owned(), false)]);
        assert_eq!(
            found(&before, &added("string, required")),
            [(key.to_owned(), true)]
        );
    }

    #[test]
    fn only_the_loss_of_access_is_breaking() {
        for (key, narrow, wide) in [
            ("access list_keys", "project maintainer", "project developer"),
            ("access list_keys", "project guest", "project guest, anonymous"),
            ("access list_keys", "instance admin", "instance none"),
            ("plan list_keys", "ultimate", "premium"),
            ("plan list_keys", "starter", "free"),
            ("scopes list_keys", "api", "api read_api"),
        ] {
            assert_eq!(
                directions(key, narrow, wide, &[]),
                [false, true],
                "{key}: {narrow}, {wide}"
            );
        }
        let key = "access list_keys";
        assert_eq!(directions(key, "project guest", "group guest", &[]), [true, true]);
        let none = changed(&[]);
        let change = |key: &str, breaking| [(key.to_owned(), breaking)];
        let premium = changed(&[("plan list_keys", "premium")]);
        assert_eq!(found(&none, &premium), change("plan list_keys", true));
        assert_eq!(found(&premium, &none), change("plan list_keys", false));
        let scopes = changed(&[("scopes list_keys", "api read_api read_repository")]);
        assert_eq!(found(&none, &scopes), change("scopes list_keys", false));
        assert_eq!(found(&scopes, &none), change("scopes list_keys", true));
    }
}
