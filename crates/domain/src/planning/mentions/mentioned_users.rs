//! Resolves mentions to users: single users, the members of a group, or all members of the project or group.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::access::visible_groups;
use storage::entities::members::MembershipSource;
use storage::entities::todos::TodoAction;
use storage::entities::{Scope, namespaces, now, users};

use super::{Kind, Scene};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::{EffectiveAccess, Role};
use crate::kernel::text::mentions::{ALL_MEMBERS, Mention};
use crate::spaces::members;

/// Maximum number of members that a mention of a group, or of all members, resolves to.
const MOST_MEMBERS: u64 = 1000;
/// Maximum number of mentioned groups in a text.
const MOST_GROUPS: u64 = 10;

/// Returns the mentioned users who can read the text, each with the reason of the to-do item.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn mentioned(
    backend: &Backend,
    scene: &Scene<'_>,
    mentions: Vec<Mention>,
) -> Result<Vec<(i64, TodoAction)>> {
    if mentions.is_empty() {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    let mut meant: BTreeMap<i64, bool> = BTreeMap::new();
    let mut mean = |id: i64, addressed: bool| *meant.entry(id).or_default() |= addressed;
    let addressed = |key: &str| {
        mentions
            .iter()
            .any(|mention| mention.name == key && mention.addressed)
    };
    let names = || mentions.iter().map(|mention| mention.name.as_str());
    for user in active(db, users::Column::UsernameKey.is_in(names())).await? {
        mean(user.id, addressed(&user.username_key));
    }
    let groups = namespaces::Entity::find()
        .filter(namespaces::Column::FullPathKey.is_in(names()))
        .filter(visible_groups(scene.place.caller.viewer(), now().date_naive()))
        .limit(MOST_GROUPS)
        .all(db)
        .await?;
    for group in groups {
        let members =
            members::roles(db, MembershipSource::Group(group.id), &group, None, MOST_MEMBERS).await?;
        members
            .into_keys()
            .for_each(|id| mean(id, addressed(&group.full_path_key)));
    }
    if names().any(|name| name == ALL_MEMBERS) {
        let (source, namespace) = whole(scene.place);
        let members = members::roles(db, source, namespace, None, MOST_MEMBERS).await?;
        members
            .into_keys()
            .for_each(|id| mean(id, addressed(ALL_MEMBERS)));
    }
    let readers = readers(db, scene, meant.keys().copied().collect()).await?;
    let because = |addressed| match addressed {
        true => TodoAction::DirectlyAddressed,
        false => TodoAction::Mentioned,
    };
    let meant = meant.into_iter().filter(|(id, _)| readers.contains(id));
    Ok(meant.map(|(id, addressed)| (id, because(addressed))).collect())
}

async fn active(db: &impl ConnectionTrait, which: sea_orm::sea_query::Expr) -> Result<Vec<users::Model>> {
    let found = users::not_deleted()
        .filter(which)
        .filter(users::Column::State.eq(users::UserState::Active));
    Ok(found.all(db).await?)
}

/// Returns the project or group as a source of members.
fn whole(place: &SpaceAccess) -> (MembershipSource, &namespaces::Model) {
    let source = match place.scope() {
        Scope::Project(id) => MembershipSource::Project(id),
        Scope::Group(id) => MembershipSource::Group(id),
    };
    (source, &place.namespace)
}

/// Returns those of the given users who can read the text.
async fn readers(db: &impl ConnectionTrait, scene: &Scene<'_>, ids: Vec<i64>) -> Result<Vec<i64>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let users = active(db, users::Column::Id.is_in(ids.iter().copied())).await?;
    let (source, namespace) = whole(scene.place);
    let roles = members::roles(db, source, namespace, Some(&ids), ids.len() as u64).await?;
    let may_read = |user: &users::Model| {
        let role = roles.get(&user.id).copied();
        scene.is_read_by(user.id, Caller::user(user.clone()).effective_access(role))
    };
    Ok(users
        .iter()
        .filter(|user| may_read(user))
        .map(|user| user.id)
        .collect())
}

impl Scene<'_> {
    /// Returns whether a user can read the text.
    fn is_read_by(&self, user_id: i64, effective_access: EffectiveAccess) -> bool {
        let reporter = effective_access.has_role(Role::Reporter);
        let there = match (&self.place.project, self.kind) {
            (Some(project), kind) => {
                effective_access.can_see(project.visibility)
                    && match kind {
                        Kind::MergeRequest => {
                            effective_access.has_feature(project.merge_requests_access_level)
                                && effective_access
                                    .can_read_code(project.repository_access_level, project.visibility)
                        }
                        Kind::Issue | Kind::Epic => effective_access.has_feature(project.issues_access_level),
                    }
            }
            (None, _) => effective_access.can_see(self.place.namespace.visibility),
        };
        there
            && (!self.confidential || reporter || self.own.contains(&user_id))
            && (!self.confidential_note || reporter)
    }
}
