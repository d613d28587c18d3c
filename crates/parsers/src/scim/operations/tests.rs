//! Tests of operations in the forms of identity providers.

use serde_json::json;

use super::*;

fn merge(operations: Value) -> Result<ScimUserUpdate> {
    let operations = operations
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| UserOperation {
            op: one["op"].as_str().expect("a text").to_owned(),
            path: one["path"].as_str().map(str::to_owned),
            value: one.get("value").cloned(),
        });
    merge_operations(operations.collect())
}

fn active(value: Value) -> Result<Option<bool>> {
    Ok(merge(json!([{ "op": "replace", "path": "active", "value": value }]))?.active)
}

#[test]
fn patch_accepts_entra_format() {
    let changes = merge(json!([
        { "op": "Replace", "path": "userName", "value": "ada@example.com" },
        { "op": "Add", "path": "emails[type eq \"work\"].value", "value": "ada@example.com" },
        { "op": "Replace", "path": "displayName", "value": "Ada L" },
        { "op": "Replace", "path": "externalId", "value": [{ "$ref": null, "value": "0b1f" }] },
        { "op": "Replace", "path": "active", "value": "True" },
        { "op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department",
          "value": "x" },
        { "op": "Remove", "path": "phoneNumbers[type eq \"mobile\"].value" },
    ]));
    let changes = changes.expect("changes");
    assert_eq!(changes.name().as_deref(), Some("Ada L"));
    let expected = ScimUserUpdate {
        uid: Some("0b1f".to_owned()),
        username: Some("ada@example.com".to_owned()),
        email: Some("ada@example.com".to_owned()),
        active: Some(true),
        formatted: Some("Ada L".to_owned()),
        ..ScimUserUpdate::default()
    };
    assert_eq!(changes, expected);
    let together = json!([{ "op": "Replace", "value": {
        "emails[type eq \"work\"].value": "b@example.com", "name.formatted": "B", "active": "False",
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": { "department": "x" },
    } }]);
    let changes = merge(together).expect("changes");
    assert_eq!(changes.email.as_deref(), Some("b@example.com"));
    assert_eq!(
        (changes.name().as_deref(), changes.active),
        (Some("B"), Some(false))
    );
}

#[test]
fn patch_accepts_okta_and_onelogin_formats() {
    let okta = json!([{ "op": "replace", "value": { "active": false } }]);
    assert_eq!(merge(okta).expect("changes").active, Some(false));
    let onelogin = json!([
        { "op": "replace", "path": "active", "value": true },
        { "op": "replace", "path": "name", "value": { "givenName": "Ada", "familyName": "Lovelace" } },
        { "op": "replace", "path": "emails", "value": [
            { "type": "home", "value": "h@example.com" }, { "type": "Work", "value": "w@example.com" },
        ] },
    ]);
    let changes = merge(onelogin).expect("changes");
    assert_eq!(changes.name().as_deref(), Some("Ada Lovelace"));
    assert_eq!(changes.email.as_deref(), Some("w@example.com"));
    let parts = json!([
        { "op": "replace", "path": "name.givenName", "value": "Ada" },
        { "op": "replace", "path": "name.familyName", "value": "King" },
    ]);
    assert_eq!(merge(parts).expect("changes").name().as_deref(), Some("Ada King"));
    let half = json!([{ "op": "replace", "path": "name.givenName", "value": "Ada" }]);
    assert_eq!(merge(half).expect("changes").name(), None);
}

#[test]
fn last_change_of_attribute_applies_and_null_is_ignored() {
    let changes = merge(json!([
        { "op": "add", "path": "USERNAME", "value": "a" },
        { "op": "REPLACE", "path": "userName", "value": 7 },
        { "op": "replace", "path": "externalId", "value": null },
        { "op": "replace", "path": "title", "value": { "any": ["thing"] } },
        { "op": "replace", "value": { "schemas": [USER_SCHEMA], "meta": { "resourceType": "User" } } },
    ]));
    let expected = ScimUserUpdate {
        username: Some("7".to_owned()),
        ..ScimUserUpdate::default()
    };
    assert_eq!(changes.expect("changes"), expected);
    assert_eq!(merge(json!([])).expect("changes"), ScimUserUpdate::default());
}

#[test]
fn active_accepts_booleans_as_text() {
    for (value, flag) in [
        (json!(true), true),
        (json!("TRUE"), true),
        (json!("\"False\""), false),
        (json!([{ "value": false }]), false),
    ] {
        assert_eq!(active(value).ok(), Some(Some(flag)));
    }
    for value in [json!(1), json!("yes"), json!({}), json!([]), json!([true, false])] {
        assert!(active(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn invalid_operation_is_rejected_with_scim_type() {
    for (operation, kind) in [
        (
            json!({ "op": "move", "path": "userName", "value": "a" }),
            ScimErrorType::Syntax,
        ),
        (
            json!({ "op": "remove", "path": "userName" }),
            ScimErrorType::Mutability,
        ),
        (
            json!({ "op": "remove", "path": "emails[type eq \"work\"]" }),
            ScimErrorType::Mutability,
        ),
        (
            json!({ "op": "replace", "path": "meta.created", "value": "a" }),
            ScimErrorType::Mutability,
        ),
        (
            json!({ "op": "add", "path": format!("{USER_SCHEMA}:schemas"), "value": [] }),
            ScimErrorType::Mutability,
        ),
        (json!({ "op": "remove" }), ScimErrorType::Target),
        (
            json!({ "op": "replace", "path": "externalId", "value": ".search" }),
            ScimErrorType::Value,
        ),
        (json!({ "op": "replace", "value": "a" }), ScimErrorType::Syntax),
        (json!({ "op": "replace" }), ScimErrorType::Syntax),
        (
            json!({ "op": "replace", "path": "emails[", "value": "a" }),
            ScimErrorType::Path,
        ),
        (
            json!({ "op": "replace", "path": "a b", "value": "a" }),
            ScimErrorType::Path,
        ),
        (
            json!({ "op": "replace", "path": "emails[value sw \"a\"].value", "value": "a@x" }),
            ScimErrorType::Filter,
        ),
        (
            json!({ "op": "add", "path": "emails[type eq \"work\" or primary eq true]", "value": "a@x" }),
            ScimErrorType::Filter,
        ),
        (
            json!({ "op": "remove", "path": "emails[display pr]" }),
            ScimErrorType::Filter,
        ),
        (
            json!({ "op": "replace", "path": "userName", "value": " " }),
            ScimErrorType::Value,
        ),
        (
            json!({ "op": "replace", "path": "userName", "value": {} }),
            ScimErrorType::Value,
        ),
        (
            json!({ "op": "replace", "path": "userName", "value": ["a", "b"] }),
            ScimErrorType::Value,
        ),
        (
            json!({ "op": "replace", "path": "externalId", "value": "a\u{0}" }),
            ScimErrorType::Value,
        ),
        (
            json!({ "op": "replace", "path": "name", "value": "Ada" }),
            ScimErrorType::Value,
        ),
        (
            json!({ "op": "replace", "path": "displayName", "value": "a".repeat(256) }),
            ScimErrorType::Value,
        ),
    ] {
        let error = merge(json!([operation])).expect_err("a refusal");
        assert_eq!(error.fault, kind, "{operation}: {error}");
    }
}

#[test]
fn email_path_accepts_only_work_and_primary_filters() {
    for (path, selected_email) in [
        ("emails[type eq \"work\"].value", true),
        ("emails[type eq \"WORK\"].value", true),
        ("emails[primary eq true].value", true),
        ("emails[type eq \"work\"]", true),
        ("emails.value", true),
        ("emails[type eq \"work\" and primary eq true].value", true),
        (
            "urn:ietf:params:scim:schemas:core:2.0:User:emails[type eq \"work\"].value",
            true,
        ),
        ("emails[type eq \"work\"].display", false),
        ("addresses[type eq \"work\"].value", false),
    ] {
        let operation = json!([{ "op": "replace", "path": path, "value": "a@example.com" }]);
        let email = merge(operation).expect("changes").email;
        assert_eq!(email.is_some(), selected_email, "{path}");
    }
}

#[test]
fn only_replacement_of_other_email_has_no_target() {
    for path in [
        "emails[type eq \"home\"].value",
        "emails[type eq \"home\"]",
        "emails[primary eq false].value",
        "emails[type eq \"home\" and primary eq true].value",
    ] {
        let operation = |op: &str| json!([{ "op": op, "path": path, "value": "a@example.com" }]);
        let error = merge(operation("Replace")).expect_err(path);
        assert_eq!(error.fault, ScimErrorType::Target, "{path}");
        for op in ["add", "remove"] {
            assert_eq!(merge(operation(op)), Ok(ScimUserUpdate::default()), "{op} {path}");
        }
    }
    // Without a path, a provider sends all addresses that it knows.
    let operation =
        json!([{ "op": "replace", "value": { "emails[type eq \"home\"].value": "a@example.com" } }]);
    assert_eq!(merge(operation), Ok(ScimUserUpdate::default()));
}

#[test]
fn work_email_is_preferred_to_primary_email() {
    let selected_email = |emails: Value| {
        let operation = json!([{ "op": "replace", "path": "emails", "value": emails }]);
        merge(operation).expect("changes").email
    };
    let (home, work) = (
        json!({ "type": "home", "primary": true, "value": "home@x" }),
        json!({ "type": "Work", "value": "work@x" }),
    );
    let other = json!({ "value": "other@x" });
    assert_eq!(
        selected_email(json!([other, home, work])).as_deref(),
        Some("work@x")
    );
    assert_eq!(selected_email(json!([other, home])).as_deref(), Some("home@x"));
    assert_eq!(selected_email(json!([other])).as_deref(), Some("other@x"));
}

#[test]
fn deactivation_is_applied_or_rejected_but_never_ignored() {
    for operation in [
        json!({ "op": "replace", "path": USER_SCHEMA, "value": { "active": false } }),
        json!({ "op": "replace", "value": { USER_SCHEMA: { "active": "False" } } }),
        json!({ "op": "replace", "path": format!("{USER_SCHEMA}:active"), "value": false }),
    ] {
        let changes = merge(json!([operation])).expect("changes");
        assert_eq!(changes.active, Some(false), "{operation}");
    }
    for operation in [
        json!({ "op": "replace", "path": "active" }),
        json!({ "op": "replace", "path": "active", "value": null }),
        json!({ "op": "replace", "value": { "active": null } }),
        json!({ "op": "replace", "path": "emails[type eq \"work\" or primary eq true].value", "value": "a@x" }),
        json!({ "op": "replace", "path": "emails[value sw \"a\"].value", "value": "a@x" }),
    ] {
        assert!(merge(json!([operation])).is_err(), "{operation}");
    }
}

#[test]
fn full_name_is_formatted_name_or_joined_parts() {
    assert_eq!(full_name(Some("A B"), Some("C"), None).as_deref(), Some("A B"));
    assert_eq!(full_name(Some(" "), Some("C"), Some("D")).as_deref(), Some("C D"));
    assert_eq!(full_name(None, None, Some("D")).as_deref(), Some("D"));
    assert_eq!(full_name(None, Some(""), None), None);
}
