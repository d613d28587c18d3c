//! Members of groups and projects.

use domain::spaces::members::Membership;
use storage::entities::scim_identities;

use crate::views::accounts::users;

/// Name of the identity provider of a group.
const PROVIDER: &str = "group_saml";

/// Returns a member in the format of the contract.
#[must_use]
pub fn member(base: &str, membership: Membership) -> contract::Member {
    let user = membership.user;
    contract::Member {
        id: user.id,
        web_url: users::web_url(base, &user),
        avatar_url: users::avatar_url(base, &user),
        state: users::state(user.state),
        username: user.username,
        name: user.name,
        access_level: i64::from(i32::from(membership.access_level)),
        expires_at: membership.expires_at,
        group_saml_identity: Some(membership.identity.and_then(identity)).into(),
        r#override: membership.overridden,
    }
}

fn identity(row: scim_identities::Model) -> Option<contract::SamlIdentity> {
    Some(contract::SamlIdentity {
        extern_uid: row.extern_uid?,
        provider: PROVIDER.to_owned(),
        saml_provider_id: row.saml_provider_id,
    })
}
