//! Namespaces.

use storage::entities::{namespaces, users};

use crate::views::accounts::users as user_view;
use crate::views::enums::Convert;
use crate::views::links;
use contract::ProjectNamespace;

/// Returns a namespace; `owner` is the owner of a personal namespace and determines the avatar.
#[must_use]
pub fn namespace(
    base: &str,
    namespace: &namespaces::Model,
    owner: Option<&users::Model>,
) -> ProjectNamespace {
    let (web_url, avatar_url) = match owner {
        Some(user) => (
            format!("{base}/{}", namespace.full_path),
            user_view::avatar_url(base, user),
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
