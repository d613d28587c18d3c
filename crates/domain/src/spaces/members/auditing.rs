//! Audit events of memberships and shares.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use storage::entities::members::{self, MembershipSource};
use storage::entities::{AccessLevel, namespaces, projects, users};

use crate::audit::{AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::error::Result;

/// Returns a role with the last day of the membership or share.
pub(crate) fn access_text(level: AccessLevel, expires_at: Option<NaiveDate>) -> String {
    match expires_at {
        Some(day) => format!("{} until {day}", level.name()),
        None => level.name().to_owned(),
    }
}

/// Returns the event of a new member.
pub(crate) fn added(
    entity: AuditEntity,
    user: &users::Model,
    level: AccessLevel,
    expires_at: Option<NaiveDate>,
) -> AuditEvent {
    let event = AuditEvent::new(AuditKind::MemberAdded, entity, AuditTarget::user(user));
    event.to(access_text(level, expires_at))
}

/// Returns the event of a member whose role or last day changed.
pub(crate) fn changed(
    entity: AuditEntity,
    user: &users::Model,
    before: &members::Model,
    after: &members::Model,
) -> AuditEvent {
    let event = AuditEvent::new(AuditKind::MemberChanged, entity, AuditTarget::user(user));
    event
        .from(access_text(before.access_level, before.expires_at))
        .to(access_text(after.access_level, after.expires_at))
}

/// Returns the event of a user who received a role without a last day, and who may be a member already.
pub(crate) fn assigned(
    entity: AuditEntity,
    user: &users::Model,
    known: Option<&members::Model>,
    level: AccessLevel,
) -> AuditEvent {
    match known {
        None => added(entity, user, level, None),
        Some(known) => {
            let event = AuditEvent::new(AuditKind::MemberChanged, entity, AuditTarget::user(user));
            event
                .from(access_text(known.access_level, known.expires_at))
                .to(access_text(level, None))
        }
    }
}

/// Returns the event of a member who is removed.
pub(super) fn removed(entity: AuditEntity, user: &users::Model, member: &members::Model) -> AuditEvent {
    let event = AuditEvent::new(AuditKind::MemberRemoved, entity, AuditTarget::user(user));
    event.from(access_text(member.access_level, member.expires_at))
}

/// Returns the group or project of a membership.
pub(super) fn source(member: &members::Model) -> MembershipSource {
    match (member.project_id, member.namespace_id) {
        (Some(id), _) => MembershipSource::Project(id),
        (None, id) => MembershipSource::Group(id.unwrap_or_default()),
    }
}

/// Returns these groups and projects as entities, in at most two statements.
pub(super) async fn entities(
    db: &impl ConnectionTrait,
    sources: &[MembershipSource],
) -> Result<HashMap<MembershipSource, AuditEntity>> {
    let groups = sources.iter().filter_map(|source| match source {
        MembershipSource::Group(id) => Some(*id),
        MembershipSource::Project(_) => None,
    });
    let in_projects = sources.iter().filter_map(|source| match source {
        MembershipSource::Project(id) => Some(*id),
        MembershipSource::Group(_) => None,
    });
    let (groups, in_projects): (Vec<i64>, Vec<i64>) = (groups.collect(), in_projects.collect());
    let mut found = HashMap::new();
    if !groups.is_empty() {
        let rows = namespaces::Entity::find()
            .filter(namespaces::Column::Id.is_in(groups))
            .all(db)
            .await?;
        found.extend(
            rows.iter()
                .map(|row| (MembershipSource::Group(row.id), AuditEntity::namespace(row))),
        );
    }
    if !in_projects.is_empty() {
        let rows = projects::Entity::find()
            .filter(projects::Column::Id.is_in(in_projects))
            .find_also_related(namespaces::Entity)
            .all(db)
            .await?;
        found.extend(rows.iter().filter_map(|(project, namespace)| {
            let entity = AuditEntity::project(namespace.as_ref()?, project);
            Some((MembershipSource::Project(project.id), entity))
        }));
    }
    Ok(found)
}

/// Returns the events of memberships that were deleted, in at most three statements.
pub(super) async fn removals(
    db: &impl ConnectionTrait,
    deleted: &[members::Model],
) -> Result<Vec<AuditEvent>> {
    if deleted.is_empty() {
        return Ok(Vec::new());
    }
    let sources: Vec<_> = deleted.iter().map(source).collect();
    let entities = entities(db, &sources).await?;
    let users = users::Entity::find()
        .filter(users::Column::Id.is_in(deleted.iter().map(|member| member.user_id)))
        .all(db)
        .await?;
    let users: HashMap<i64, users::Model> = users.into_iter().map(|user| (user.id, user)).collect();
    Ok(deleted
        .iter()
        .filter_map(|member| {
            let entity = entities.get(&source(member))?.clone();
            Some(removed(entity, users.get(&member.user_id)?, member))
        })
        .collect())
}
