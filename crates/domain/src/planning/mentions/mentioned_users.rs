//! Resolves mentions to users: single users, the members of a group, or all members of the project or group.

use std::collections::BTreeMap;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::access::visible_groups;
use storage::entities::members::MembershipSource;
use storage::entities::todos::TodoAction;
use storage::entities::{Scope, namespaces, now, users};

use super::{AudienceKind, TextAudience};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::{EffectiveAccess, Role};
use crate::kernel::text::mentions::{ALL_MEMBERS, Mention};
use crate::spaces::members;

/// Maximum number of members that a mention of a group, or of all members, resolves to.
const MAX_MEMBERS: u64 = 1000;
/// Maximum number of mentioned groups in a text.
const MAX_GROUPS: u64 = 10;
/// Maximum number of mentioned users without a role that are checked for access to the group of an epic, with one
/// statement each.
const MAX_GROUP_CHECKS: usize = 100;

/// Returns the mentioned users who can read the text, each with the reason of the to-do item.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn find(
    backend: &Backend,
    audience: &TextAudience<'_>,
    mentions: Vec<Mention>,
) -> Result<Vec<(i64, TodoAction)>> {
    if mentions.is_empty() {
        return Ok(Vec::new());
    }
    let db = backend.database.read();
    // Whether each user is addressed directly.
    let mut users: BTreeMap<i64, bool> = BTreeMap::new();
    let mut add = |id: i64, addressed: bool| *users.entry(id).or_default() |= addressed;
    let is_addressed = |key: &str| {
        mentions
            .iter()
            .any(|mention| mention.name == key && mention.addressed)
    };
    let names = || mentions.iter().map(|mention| mention.name.as_str());
    for user in active_users(db, users::Column::UsernameKey.is_in(names())).await? {
        add(user.id, is_addressed(&user.username_key));
    }
    let groups = namespaces::Entity::find()
        .filter(namespaces::Column::FullPathKey.is_in(names()))
        .filter(visible_groups(audience.space.caller.viewer(), now().date_naive()))
        .limit(MAX_GROUPS)
        .all(db)
        .await?;
    for group in groups {
        let members =
            members::roles(db, MembershipSource::Group(group.id), &group, None, MAX_MEMBERS).await?;
        members
            .into_keys()
            .for_each(|id| add(id, is_addressed(&group.full_path_key)));
    }
    if names().any(|name| name == ALL_MEMBERS) {
        let (source, namespace) = member_source(audience.space);
        let members = members::roles(db, source, namespace, None, MAX_MEMBERS).await?;
        members
            .into_keys()
            .for_each(|id| add(id, is_addressed(ALL_MEMBERS)));
    }
    let readers = readers(db, audience, users.keys().copied().collect()).await?;
    let action = |addressed| match addressed {
        true => TodoAction::DirectlyAddressed,
        false => TodoAction::Mentioned,
    };
    let users = users.into_iter().filter(|(id, _)| readers.contains(id));
    Ok(users.map(|(id, addressed)| (id, action(addressed))).collect())
}

async fn active_users(
    db: &impl ConnectionTrait,
    condition: sea_orm::sea_query::Expr,
) -> Result<Vec<users::Model>> {
    let users = users::not_deleted()
        .filter(condition)
        .filter(users::Column::State.eq(users::UserState::Active));
    Ok(users.all(db).await?)
}

/// Returns the project or group as a source of members.
fn member_source(space: &SpaceAccess) -> (MembershipSource, &namespaces::Model) {
    let source = match space.scope() {
        Scope::Project(id) => MembershipSource::Project(id),
        Scope::Group(id) => MembershipSource::Group(id),
    };
    (source, &space.namespace)
}

/// Returns the users among these who can read the text.
async fn readers(db: &impl ConnectionTrait, audience: &TextAudience<'_>, ids: Vec<i64>) -> Result<Vec<i64>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let users = active_users(db, users::Column::Id.is_in(ids.iter().copied())).await?;
    let (source, namespace) = member_source(audience.space);
    let roles = members::roles(db, source, namespace, Some(&ids), ids.len() as u64).await?;
    let mut readers = Vec::new();
    let mut remaining_checks = MAX_GROUP_CHECKS;
    for user in users {
        let (id, role) = (user.id, roles.get(&user.id).copied());
        let caller = Caller::user(user);
        let effective_access = caller.effective_access(role);
        let mut can_read = audience.is_readable_by(id, effective_access, false);
        if !can_read && remaining_checks > 0 && audience.is_readable_by(id, effective_access, true) {
            remaining_checks -= 1;
            can_read = sees_group(db, namespace, &caller).await?;
        }
        if can_read {
            readers.push(id);
        }
    }
    Ok(readers)
}

/// Returns whether a user sees a group, which may be because of a role in a project of the group.
async fn sees_group(db: &impl ConnectionTrait, group: &namespaces::Model, caller: &Caller) -> Result<bool> {
    let visible = namespaces::Entity::find_by_id(group.id)
        .filter(visible_groups(caller.viewer(), now().date_naive()))
        .one(db)
        .await?;
    Ok(visible.is_some())
}

impl TextAudience<'_> {
    /// Returns whether a user can read the text. `sees_group` is whether the user sees the group of an epic without a
    /// role in the group.
    fn is_readable_by(&self, user_id: i64, effective_access: EffectiveAccess, sees_group: bool) -> bool {
        let is_reporter = effective_access.has_role(Role::Reporter);
        let is_visible = match (&self.space.project, self.kind) {
            (Some(project), kind) => {
                effective_access.can_see(project.visibility)
                    && match kind {
                        AudienceKind::MergeRequest => {
                            effective_access.has_feature(project.merge_requests_access_level)
                                && effective_access
                                    .can_read_code(project.repository_access_level, project.visibility)
                        }
                        AudienceKind::Issue | AudienceKind::Epic => {
                            effective_access.has_feature(project.issues_access_level)
                        }
                    }
            }
            (None, _) => sees_group || effective_access.can_see(self.space.namespace.visibility),
        };
        is_visible
            && (!self.confidential || is_reporter || self.participant_ids.contains(&user_id))
            && (!self.confidential_note || is_reporter)
    }
}
