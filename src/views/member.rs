//! Members of groups and projects.

use crate::api::contract;
use crate::api::types::MaybeUndefined;
use crate::services::members::Membership;
use crate::views::words;

/// A member as the contract shows it (specification 2.16).
#[must_use]
pub fn member(base: &str, membership: Membership) -> contract::Member {
    let user = membership.user;
    contract::Member {
        id: user.id,
        web_url: format!("{base}/{}", user.username),
        avatar_url: words::avatar_url(base, "user", user.id, user.avatar.as_deref()),
        state: words::user_state(user.state),
        username: user.username,
        name: user.name,
        access_level: i64::from(i32::from(membership.access_level)),
        expires_at: membership.expires_at,
        group_saml_identity: MaybeUndefined::Undefined,
        r#override: None,
    }
}
