//! Members of groups and projects.

use crate::api::contract;
use crate::api::types::MaybeUndefined;
use crate::services::members::Membership;
use crate::views::users;

/// A member as the contract shows it (specification 2.16).
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
        // No group has a single sign-on yet.
        group_saml_identity: MaybeUndefined::Null,
        r#override: membership.overridden,
    }
}
