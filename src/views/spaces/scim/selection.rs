//! Selection of the attributes that a response contains (RFC 7644, section 3.9).

use contract::{ScimEmail, ScimMeta, ScimName, ScimUser, ScimUserList};
use domain::kernel::error::{Error, Result, ScimErrorType};
use domain::spaces::scim::USER_SCHEMA;

/// Attributes that a response contains. `schemas` and `id` are always returned.
#[derive(Debug)]
pub struct AttributeSelection {
    /// The attributes to return, folded; all if absent.
    included: Option<Vec<String>>,
    /// The attributes to omit, folded.
    excluded: Option<Vec<String>>,
}

impl AttributeSelection {
    /// Returns the selection of the parameters `attributes` and `excludedAttributes`. Blank ones are absent.
    ///
    /// # Errors
    /// Returns `InvalidScimRequest` if both are given.
    pub fn new(attributes: Option<Vec<String>>, excluded: Option<Vec<String>>) -> Result<Self> {
        let (included, excluded) = (names(attributes), names(excluded));
        if included.is_some() && excluded.is_some() {
            let text = "attributes and excludedAttributes are mutually exclusive";
            return Err(Error::invalid_scim_request(ScimErrorType::Value, text));
        }
        Ok(Self { included, excluded })
    }

    /// Returns whether the request selects attributes.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.included.is_some() || self.excluded.is_some()
    }

    /// Returns the selected attributes of a user.
    #[must_use]
    pub fn of_user(&self, user: ScimUser) -> ScimUser {
        ScimUser {
            schemas: user.schemas,
            id: user.id,
            external_id: self.pick("externalid", user.external_id),
            user_name: self.pick("username", user.user_name),
            display_name: self.pick("displayname", user.display_name),
            // Not an attribute of RFC 7643, so only complete users have it.
            name_formatted: self
                .pick("name.formatted", user.name_formatted)
                .filter(|_| self.included.is_none()),
            name: user.name.and_then(|name| self.name(name)),
            active: self.pick("active", user.active),
            emails: user.emails.and_then(|emails| self.emails(emails)),
            meta: user.meta.and_then(|meta| self.meta(meta)),
        }
    }

    /// Returns the selected attributes of the users on a page.
    #[must_use]
    pub fn of_users(&self, list: ScimUserList) -> ScimUserList {
        let users = list.resources.into_iter().map(|user| self.of_user(user));
        ScimUserList {
            resources: users.collect(),
            ..list
        }
    }

    fn name(&self, name: ScimName) -> Option<ScimName> {
        let formatted = self.pick("name.formatted", name.formatted);
        formatted.is_some().then_some(ScimName { formatted })
    }

    fn emails(&self, emails: Vec<ScimEmail>) -> Option<Vec<ScimEmail>> {
        let selected = emails.into_iter().filter_map(|email| {
            let selected = ScimEmail {
                r#type: self.pick("emails.type", email.r#type),
                value: self.pick("emails.value", email.value),
                primary: self.pick("emails.primary", email.primary),
            };
            let any = selected.r#type.is_some() || selected.value.is_some() || selected.primary.is_some();
            any.then_some(selected)
        });
        let selected: Vec<_> = selected.collect();
        (!selected.is_empty()).then_some(selected)
    }

    fn meta(&self, meta: ScimMeta) -> Option<ScimMeta> {
        let selected = ScimMeta {
            resource_type: self.pick("meta.resourcetype", meta.resource_type),
            location: self.pick("meta.location", meta.location),
            created: self.pick("meta.created", meta.created),
            last_modified: self.pick("meta.lastmodified", meta.last_modified),
        };
        let any = selected.resource_type.is_some()
            || selected.location.is_some()
            || selected.created.is_some()
            || selected.last_modified.is_some();
        any.then_some(selected)
    }

    /// Returns a value if the attribute of this folded path is selected, by its path or by its parent.
    fn pick<T>(&self, path: &str, value: Option<T>) -> Option<T> {
        let parent = path.split('.').next().unwrap_or(path);
        let contains = |names: &[String]| names.iter().any(|name| name == path || name == parent);
        let included = self.included.as_deref().is_none_or(contains);
        let excluded = self.excluded.as_deref().is_some_and(contains);
        value.filter(|_| included && !excluded)
    }
}

/// Returns folded attribute names without the schema of users, or `None` without any name.
fn names(sent: Option<Vec<String>>) -> Option<Vec<String>> {
    let prefix = format!("{}:", USER_SCHEMA.to_ascii_lowercase());
    let names = sent.unwrap_or_default().into_iter().map(|name| {
        let name = name.trim().to_ascii_lowercase();
        match name.strip_prefix(&prefix) {
            Some(path) => path.to_owned(),
            None => name,
        }
    });
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    (!names.is_empty()).then_some(names)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn user() -> ScimUser {
        ScimUser {
            schemas: vec![USER_SCHEMA.to_owned()],
            id: "1".to_owned(),
            external_id: Some("1".to_owned()),
            user_name: Some("ada".to_owned()),
            display_name: Some("Ada".to_owned()),
            name_formatted: Some("Ada".to_owned()),
            name: Some(ScimName {
                formatted: Some("Ada".to_owned()),
            }),
            active: Some(true),
            emails: Some(vec![ScimEmail {
                r#type: Some("work".to_owned()),
                value: Some("ada@x".to_owned()),
                primary: Some(true),
            }]),
            meta: Some(ScimMeta {
                resource_type: Some("User".to_owned()),
                location: Some("http://h".to_owned()),
                created: None,
                last_modified: None,
            }),
        }
    }

    fn list(names: &str) -> Option<Vec<String>> {
        (!names.is_empty()).then(|| names.split(',').map(str::to_owned).collect())
    }

    fn selected(included: &str, excluded: &str) -> Value {
        let selection = AttributeSelection::new(list(included), list(excluded)).expect("a selection");
        let mut user = serde_json::to_value(selection.of_user(user())).expect("JSON");
        let object = user.as_object_mut().expect("an object");
        assert_eq!(object.remove("schemas"), Some(json!([USER_SCHEMA])));
        assert_eq!(object.remove("id"), Some(json!("1")));
        user
    }

    #[test]
    fn attributes_are_returned_by_name_path_and_schema() {
        for (included, expected) in [
            ("userName", json!({ "userName": "ada" })),
            ("USERNAME, active", json!({ "userName": "ada", "active": true })),
            ("name", json!({ "name": { "formatted": "Ada" } })),
            ("name.formatted", json!({ "name": { "formatted": "Ada" } })),
            ("emails.value", json!({ "emails": [{ "value": "ada@x" }] })),
            ("meta.location", json!({ "meta": { "location": "http://h" } })),
            (
                "urn:ietf:params:scim:schemas:core:2.0:User:displayName",
                json!({ "displayName": "Ada" }),
            ),
            ("id", json!({})),
            ("name.familyName,title,emails.display", json!({})),
        ] {
            assert_eq!(selected(included, ""), expected, "{included}");
        }
    }

    #[test]
    fn excluded_attributes_are_omitted() {
        let whole = serde_json::to_value(user()).expect("JSON");
        let without = |names: &[&str]| {
            let mut user = whole.clone();
            let object = user.as_object_mut().expect("an object");
            for name in ["schemas", "id"].iter().chain(names) {
                object.remove(*name);
            }
            user
        };
        for (excluded, expected) in [
            ("id,schemas,title", without(&[])),
            ("ACTIVE,meta", without(&["active", "meta"])),
            ("name", without(&["name", "name.formatted"])),
            ("name.formatted", without(&["name", "name.formatted"])),
            ("emails.type,emails.value,emails.primary", without(&["emails"])),
        ] {
            assert_eq!(selected("", excluded), expected, "{excluded}");
        }
        let part = selected("", "emails.value");
        assert_eq!(part["emails"], json!([{ "type": "work", "primary": true }]));
    }

    #[test]
    fn blank_selection_returns_all_attributes_and_two_are_rejected() {
        let blank = AttributeSelection::new(list(" , "), None).expect("a selection");
        assert!(!blank.is_requested());
        assert_eq!(selected("", "")["name.formatted"], "Ada");
        assert!(AttributeSelection::new(list("id"), list("active")).is_err());
    }
}
