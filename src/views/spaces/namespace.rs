//! Namespaces.

use storage::entities::namespaces;
use storage::entities::users::UserSummary;

use crate::views::enums::Convert;
use crate::views::links;
use contract::ProjectNamespace;

/// Returns a namespace; `owner` is the owner of a personal namespace and determines the avatar.
#[must_use]
pub fn namespace(base: &str, namespace: &namespaces::Model, owner: Option<&UserSummary>) -> ProjectNamespace {
    let (web_url, avatar_url) = match owner {
        Some(user) => (
            format!("{base}/{}", namespace.full_path),
            Some(links::user_avatar_url(base, user.id, user.avatar.as_deref())),
        ),
        None => (
            links::group(base, &namespace.full_path),
            links::avatar_url(base, "group", namespace.id, namespace.avatar.as_deref()),
        ),
    };
    ProjectNamespace {
        id: namespace.id,
        name: namespace.name.clone(),
        path: namespace.path.clone(),
        kind: namespace.kind.convert(),
        full_path: namespace.full_path.clone(),
        parent_id: namespace.parent_id,
        avatar_url,
        web_url,
    }
}
