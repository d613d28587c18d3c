//! Who has which role where, and who may see what, as conditions that keep a list one statement.
//!
//! A role on a group comes from membership in it or in an ancestor, from a share of it or of an ancestor with
//! a group the user belongs to (no higher than the share), or from owning the personal namespace. A role on a
//! project comes from membership, from a share with such a group, or from its namespace. The highest counts.
//! Memberships and shares grant nothing from the day they end.

use std::collections::HashMap;

use chrono::NaiveDate;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, ExprTrait, FromQueryResult, JoinType,
    sea_query::{Expr, IntoColumnRef, Query, SelectStatement, UnionType},
};

use super::{
    AccessLevel, Visibility, group_shares, members, namespace_ancestors, namespaces, project_shares,
    projects, unexpired,
};

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    /// Nobody is signed in.
    Anonymous,
    /// A user without special rights.
    User {
        /// The user's id.
        id: i64,
        /// Whether the user sees internal things only as a member.
        external: bool,
    },
    /// A user who may see everything.
    Admin,
}

/// The user's role on a project, if any.
///
/// # Errors
/// Whatever the database reports.
pub async fn project_level(
    db: &impl ConnectionTrait,
    user_id: i64,
    project_id: i64,
    today: NaiveDate,
) -> Result<Option<AccessLevel>, DbErr> {
    Ok(project_levels(db, user_id, &[project_id], today)
        .await?
        .remove(&project_id))
}

/// The user's roles on several projects in one statement; projects without one are absent.
///
/// # Errors
/// Whatever the database reports.
pub async fn project_levels(
    db: &impl ConnectionTrait,
    user_id: i64,
    project_ids: &[i64],
    today: NaiveDate,
) -> Result<HashMap<i64, AccessLevel>, DbErr> {
    let inherited = group_grants(user_id, today).into_iter().map(Grant::on_projects);
    highest(
        db,
        project_grants(user_id, today).into_iter().chain(inherited),
        project_ids,
    )
    .await
}

/// The user's role on a group or personal namespace, if any.
///
/// # Errors
/// Whatever the database reports.
pub async fn group_level(
    db: &impl ConnectionTrait,
    user_id: i64,
    namespace_id: i64,
    today: NaiveDate,
) -> Result<Option<AccessLevel>, DbErr> {
    Ok(group_levels(db, user_id, &[namespace_id], today)
        .await?
        .remove(&namespace_id))
}

/// The user's roles on several groups or personal namespaces in one statement; those without one are absent.
///
/// # Errors
/// Whatever the database reports.
pub async fn group_levels(
    db: &impl ConnectionTrait,
    user_id: i64,
    namespace_ids: &[i64],
    today: NaiveDate,
) -> Result<HashMap<i64, AccessLevel>, DbErr> {
    highest(db, group_grants(user_id, today), namespace_ids).await
}

/// Projects on which the user has at least a role, as a condition on `projects`.
pub fn projects_with_level(user_id: i64, least: AccessLevel, today: NaiveDate) -> Condition {
    let own = project_grants(user_id, today)
        .into_iter()
        .map(|grant| projects::Column::Id.in_subquery(grant.targets(least)));
    let inherited = group_grants(user_id, today)
        .into_iter()
        .map(|grant| projects::Column::NamespaceId.in_subquery(grant.targets(least)));
    own.chain(inherited).fold(Condition::any(), Condition::add)
}

/// Groups and personal namespaces on which the user has at least a role, as a condition on `namespaces`.
pub fn groups_with_level(user_id: i64, least: AccessLevel, today: NaiveDate) -> Condition {
    group_grants(user_id, today)
        .into_iter()
        .map(|grant| namespaces::Column::Id.in_subquery(grant.targets(least)))
        .fold(Condition::any(), Condition::add)
}

/// Projects that somebody may see, as a condition on `projects`; never those being removed.
pub fn visible_projects(viewer: Viewer, today: NaiveDate) -> Condition {
    let live = Condition::all().add(projects::Column::DeletionStartedAt.is_null());
    match viewer {
        Viewer::Admin => live,
        Viewer::Anonymous => live.add(projects::Column::Visibility.eq(Visibility::Public)),
        Viewer::User { id, external } => live.add(
            Condition::any()
                .add(projects::Column::Visibility.is_in(open_to(external)))
                .add(projects_with_level(id, AccessLevel::Guest, today)),
        ),
    }
}

/// Projects whose code somebody may read, of those they see, as a condition on `projects`: where the repository is
/// open to members only, or the project itself is not open to them, from Reporter on.
pub fn code_readable_projects(viewer: Viewer, today: NaiveDate) -> Condition {
    use projects::{Column, FeatureAccess};

    let open = |visibilities: Vec<Visibility>| {
        Condition::all()
            .add(Column::RepositoryAccessLevel.eq(FeatureAccess::Enabled))
            .add(Column::Visibility.is_in(visibilities))
    };
    let there = Condition::all().add(Column::RepositoryAccessLevel.ne(FeatureAccess::Disabled));
    match viewer {
        Viewer::Admin => there,
        Viewer::Anonymous => open(vec![Visibility::Public]),
        Viewer::User { id, external } => Condition::any()
            .add(open(open_to(external)))
            .add(there.add(projects_with_level(id, AccessLevel::Reporter, today))),
    }
}

/// Groups that somebody may see, as a condition on `namespaces`: by their visibility, by a role, or because a
/// project below is the user's; never personal namespaces, nor those being removed.
pub fn visible_groups(viewer: Viewer, today: NaiveDate) -> Condition {
    let live = Condition::all()
        .add(namespaces::Column::Kind.eq(namespaces::Kind::Group))
        .add(namespaces::Column::DeletionStartedAt.is_null());
    match viewer {
        Viewer::Admin => live,
        Viewer::Anonymous => live.add(namespaces::Column::Visibility.eq(Visibility::Public)),
        Viewer::User { id, external } => live.add(
            Condition::any()
                .add(namespaces::Column::Visibility.is_in(open_to(external)))
                .add(groups_with_level(id, AccessLevel::Guest, today))
                .add(namespaces::Column::Id.in_subquery(above_own_projects(id, today))),
        ),
    }
}

/// What a signed-in user may see without a role.
fn open_to(external: bool) -> Vec<Visibility> {
    if external {
        vec![Visibility::Public]
    } else {
        vec![Visibility::Public, Visibility::Internal]
    }
}

/// The namespaces above projects on which the user has a role of their own.
fn above_own_projects(user_id: i64, today: NaiveDate) -> SelectStatement {
    let own = project_grants(user_id, today)
        .into_iter()
        .map(|grant| {
            Expr::col((PROJECT, projects::Column::Id)).in_subquery(grant.targets(AccessLevel::Guest))
        })
        .fold(Condition::any(), Condition::add);
    Query::select()
        .column((ABOVE, namespace_ancestors::Column::AncestorId))
        .from_as(projects::Entity, PROJECT)
        .join_as(
            JoinType::InnerJoin,
            namespace_ancestors::Entity,
            ABOVE,
            same(
                (ABOVE, namespace_ancestors::Column::NamespaceId),
                (PROJECT, projects::Column::NamespaceId),
            ),
        )
        .cond_where(own)
        .take()
}

// Names of tables within the statements: the conditions stand inside others that use the tables' own names.
const MEMBER: &str = "member";
const HELD: &str = "held";
const SHARE: &str = "share";
const ABOVE: &str = "above";
const OWNED: &str = "owned";
const PROJECT: &str = "granted_project";

/// One way by which a user comes to roles: a statement without columns, the column of it that says on what,
/// and the role. Joins are flat, so that the database may start from the user or from the target.
struct Grant {
    from: SelectStatement,
    target: Expr,
    level: Expr,
}

impl Grant {
    /// The rows `(target_id, access_level)` for some targets.
    fn rows(mut self, targets: &[i64]) -> SelectStatement {
        self.from
            .expr_as(self.target.clone(), "target_id")
            .expr_as(self.level, "access_level")
            .and_where(self.target.is_in(targets.iter().copied()))
            .take()
    }

    /// The targets on which at least a role is granted.
    fn targets(mut self, least: AccessLevel) -> SelectStatement {
        self.from
            .expr(self.target)
            .and_where(self.level.gte(i32::from(least)))
            .take()
    }

    /// The same grant, on the projects that lie in the granted namespaces.
    fn on_projects(mut self) -> Self {
        self.from.join_as(
            JoinType::InnerJoin,
            projects::Entity,
            PROJECT,
            Expr::col((PROJECT, projects::Column::NamespaceId)).eq(self.target),
        );
        Self {
            from: self.from,
            target: Expr::col((PROJECT, projects::Column::Id)),
            level: self.level,
        }
    }
}

/// The roles of a user on namespaces.
fn group_grants(user_id: i64, today: NaiveDate) -> [Grant; 3] {
    use namespace_ancestors::Column as Ancestor;

    let membership = Grant {
        from: memberships_below(user_id, today),
        target: Expr::col((HELD, Ancestor::NamespaceId)),
        level: Expr::col((MEMBER, members::Column::AccessLevel)),
    };
    let shared = Grant {
        from: memberships_below(user_id, today)
            .join_as(
                JoinType::InnerJoin,
                group_shares::Entity,
                SHARE,
                same(
                    (SHARE, group_shares::Column::WithGroupId),
                    (HELD, Ancestor::NamespaceId),
                ),
            )
            .join_as(
                JoinType::InnerJoin,
                namespace_ancestors::Entity,
                ABOVE,
                same(
                    (ABOVE, Ancestor::AncestorId),
                    (SHARE, group_shares::Column::NamespaceId),
                ),
            )
            .cond_where(unexpired((SHARE, group_shares::Column::ExpiresAt), today))
            .take(),
        target: Expr::col((ABOVE, Ancestor::NamespaceId)),
        level: capped((SHARE, group_shares::Column::AccessLevel)),
    };
    let owned = Grant {
        from: Query::select()
            .from_as(namespaces::Entity, OWNED)
            .and_where(Expr::col((OWNED, namespaces::Column::OwnerId)).eq(user_id))
            .take(),
        target: Expr::col((OWNED, namespaces::Column::Id)),
        level: Expr::val(i32::from(AccessLevel::Owner)),
    };
    [membership, shared, owned]
}

/// The roles of a user on projects that do not come from their namespaces.
fn project_grants(user_id: i64, today: NaiveDate) -> [Grant; 2] {
    let membership = Grant {
        from: memberships(user_id, today)
            .and_where(Expr::col((MEMBER, members::Column::ProjectId)).is_not_null())
            .take(),
        target: Expr::col((MEMBER, members::Column::ProjectId)),
        level: Expr::col((MEMBER, members::Column::AccessLevel)),
    };
    let shared = Grant {
        from: memberships_below(user_id, today)
            .join_as(
                JoinType::InnerJoin,
                project_shares::Entity,
                SHARE,
                same(
                    (SHARE, project_shares::Column::GroupId),
                    (HELD, namespace_ancestors::Column::NamespaceId),
                ),
            )
            .cond_where(unexpired((SHARE, project_shares::Column::ExpiresAt), today))
            .take(),
        target: Expr::col((SHARE, project_shares::Column::ProjectId)),
        level: capped((SHARE, project_shares::Column::AccessLevel)),
    };
    [membership, shared]
}

/// The memberships of a user that have not ended.
fn memberships(user_id: i64, today: NaiveDate) -> SelectStatement {
    Query::select()
        .from_as(members::Entity, MEMBER)
        .and_where(Expr::col((MEMBER, members::Column::UserId)).eq(user_id))
        .cond_where(unexpired((MEMBER, members::Column::ExpiresAt), today))
        .take()
}

/// The same, once for each namespace at or below the group.
fn memberships_below(user_id: i64, today: NaiveDate) -> SelectStatement {
    memberships(user_id, today)
        .join_as(
            JoinType::InnerJoin,
            namespace_ancestors::Entity,
            HELD,
            same(
                (HELD, namespace_ancestors::Column::AncestorId),
                (MEMBER, members::Column::NamespaceId),
            ),
        )
        .take()
}

fn same(left: impl IntoColumnRef, right: impl IntoColumnRef) -> Expr {
    Expr::col(left).eq(Expr::col(right))
}

/// The member's role, but no more than the share's.
fn capped(share: impl IntoColumnRef + Clone) -> Expr {
    let member = Expr::col((MEMBER, members::Column::AccessLevel));
    Expr::case(member.clone().lt(Expr::col(share.clone())), member)
        .finally(Expr::col(share))
        .into()
}

#[derive(FromQueryResult)]
struct Highest {
    target_id: i64,
    access_level: AccessLevel,
}

/// The highest role each target is granted.
async fn highest(
    db: &impl ConnectionTrait,
    grants: impl IntoIterator<Item = Grant>,
    targets: &[i64],
) -> Result<HashMap<i64, AccessLevel>, DbErr> {
    let union = grants
        .into_iter()
        .map(|grant| grant.rows(targets))
        .reduce(|mut all, rows| {
            all.union(UnionType::All, rows);
            all
        });
    let Some(union) = union.filter(|_| !targets.is_empty()) else {
        return Ok(HashMap::new());
    };
    let statement = Query::select()
        .column("target_id")
        .expr_as(Expr::col("access_level").max(), "access_level")
        .from_subquery(union, "grants")
        .group_by_col("target_id")
        .take();
    let rows = db.query_all(&statement).await?;
    rows.iter()
        .map(|row| Highest::from_query_result(row, "").map(|found| (found.target_id, found.access_level)))
        .collect()
}
