//! Single sign-on settings of groups, and the users that their identity providers provision.

pub mod discovery;
pub mod selection;

use domain::kernel::urls::encode_segment;
use domain::spaces::scim::{NewScimUser, ScimUser, ScimUserPage, USER_SCHEMA, UserOperation, full_name};
use domain::spaces::single_sign_on::SingleSignOn;
use serde_json::json;
use storage::entities::namespaces;

use contract::timestamp::Timestamp;

/// Schema of lists.
const LIST_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// Type of the stored email address.
const EMAIL_TYPE: &str = "work";

/// Returns the single sign-on settings of a group.
#[must_use]
pub fn group_saml(base: &str, group: &namespaces::Model, settings: SingleSignOn) -> contract::GroupSaml {
    contract::GroupSaml {
        saml_provider_id: settings.id,
        enabled: settings.enabled,
        default_membership_role: i64::from(i32::from(settings.default_membership_role)),
        scim_url: ScimLocation::new(base, group).address,
        scim_token_created_at: settings.token_created_at.map(Timestamp::from),
        verified_domains: settings.verified_domains,
    }
}

/// Returns the attributes of a new user. The email address is the first with type `work`, else the first
/// primary one, else the first.
#[must_use]
pub fn account(new: contract::ScimUserCreate) -> NewScimUser {
    let for_work = |email: &&contract::ScimEmailCreate| {
        let kind = email.r#type.as_deref().unwrap_or_default();
        kind.eq_ignore_ascii_case(EMAIL_TYPE)
    };
    let primary = |email: &&contract::ScimEmailCreate| email.primary == Some(true);
    let all = &new.emails;
    let email = all.iter().find(for_work);
    let email = email.or_else(|| all.iter().find(primary)).or(all.first());
    let name = new.name;
    let name = full_name(
        name.formatted.as_deref(),
        name.given_name.as_deref(),
        name.family_name.as_deref(),
    );
    NewScimUser {
        extern_uid: new.external_id,
        username: new.user_name,
        name: name.unwrap_or_default(),
        email: email.and_then(|email| email.value.clone()).unwrap_or_default(),
    }
}

/// Converts a replacement of a user to an equivalent patch operation.
#[must_use]
pub fn replacement(user: contract::ScimUserReplace) -> UserOperation {
    let emails = user.emails.map(|emails| {
        let emails = emails.into_iter();
        let emails = emails
            .map(|email| json!({ "type": email.r#type, "value": email.value, "primary": email.primary }));
        emails.collect::<Vec<_>>()
    });
    let name = user.name.map(|name| {
        json!({ "formatted": name.formatted, "givenName": name.given_name, "familyName": name.family_name })
    });
    let mut attributes = json!({
        "externalId": user.external_id, "userName": user.user_name, "displayName": user.display_name,
        "name": name, "emails": emails,
    });
    if let Some(active) = user.active {
        attributes["active"] = json!(active);
    }
    UserOperation {
        op: "replace".to_owned(),
        path: None,
        value: Some(attributes),
    }
}

/// Converts an operation of a request.
#[must_use]
pub fn operation(sent: contract::ScimOperation) -> UserOperation {
    UserOperation {
        op: sent.op,
        path: sent.path,
        value: sent.value,
    }
}

/// Base URL of the SCIM resources of a group.
#[derive(Debug, Clone)]
pub struct ScimLocation {
    address: String,
}

impl ScimLocation {
    /// Returns the base URL for a group.
    #[must_use]
    pub fn new(base: &str, group: &namespaces::Model) -> Self {
        let path = encode_segment(&group.full_path);
        Self {
            address: format!("{base}/api/scim/v2/groups/{path}"),
        }
    }

    fn address_of(&self, kind: &str, id: &str) -> String {
        format!("{}/{kind}/{}", self.address, encode_segment(id))
    }

    /// Returns the URL of a user.
    #[must_use]
    pub fn url_of(&self, user: &ScimUser) -> String {
        self.address_of("Users", user.identity.extern_uid.as_deref().unwrap_or_default())
    }

    /// Returns a provisioned user.
    #[must_use]
    pub fn user(&self, found: ScimUser) -> contract::ScimUser {
        self.user_with_state(found, true)
    }

    /// Returns a user who may no longer be provisioned.
    #[must_use]
    pub fn user_with_state(&self, found: ScimUser, active: bool) -> contract::ScimUser {
        let location = self.url_of(&found);
        let ScimUser { identity, user } = found;
        let id = identity.extern_uid.unwrap_or_default();
        let meta = contract::ScimMeta {
            resource_type: Some("User".to_owned()),
            location: Some(location),
            created: Some(identity.created_at.into()),
            last_modified: Some(identity.updated_at.max(user.updated_at).into()),
        };
        let email = contract::ScimEmail {
            r#type: Some(EMAIL_TYPE.to_owned()),
            value: Some(user.email),
            primary: Some(true),
        };
        contract::ScimUser {
            schemas: vec![USER_SCHEMA.to_owned()],
            external_id: Some(id.clone()),
            id,
            user_name: Some(user.username),
            display_name: Some(user.name.clone()),
            name_formatted: Some(user.name.clone()),
            name: Some(contract::ScimName {
                formatted: Some(user.name),
            }),
            active: Some(active),
            emails: Some(vec![email]),
            meta: Some(meta),
        }
    }

    /// Returns a page of users.
    #[must_use]
    pub fn users(&self, list: ScimUserPage) -> contract::ScimUserList {
        let users: Vec<_> = list.users.into_iter().map(|user| self.user(user)).collect();
        contract::ScimUserList {
            schemas: vec![LIST_SCHEMA.to_owned()],
            total_results: list.total,
            items_per_page: count(&users),
            start_index: list.start,
            resources: users,
        }
    }
}

fn count<T>(items: &[T]) -> i64 {
    i64::try_from(items.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_url_escapes_id_in_one_segment() {
        let location = ScimLocation {
            address: "http://h/api/scim/v2/groups/a%2Fb".to_owned(),
        };
        assert_eq!(
            location.address_of("Users", "CN=Ädä/x?#%.."),
            "http://h/api/scim/v2/groups/a%2Fb/Users/CN%3D%C3%84d%C3%A4%2Fx%3F%23%25.."
        );
    }
}
