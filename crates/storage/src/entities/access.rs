//! Access queries: roles of users and visibility, as conditions that are part of a single list statement.
//!
//! A role on a group comes from membership in it or an ancestor, or from owning the personal namespace. It also
//! comes from a share of the group or an ancestor with a group of the user, limited by the share. A role on a
//! project comes from membership, from a share with such a group, or from its namespace. The highest role
//! counts. Expired memberships and shares grant nothing.

mod role_levels;
mod with_role;

use std::collections::{BTreeSet, HashMap};

use chrono::NaiveDate;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, ExprTrait, FromQueryResult, QueryFilter, QuerySelect,
    sea_query::{Expr, IntoColumnRef, IntoTableRef, Query, SelectStatement, TableRef, UnionType},
};

use super::related_rows::RelatedPart;
use super::selectivity::{TARGET_ID, if_few};
use super::{
    AccessLevel, Visibility, group_shares, members, namespace_ancestors, namespaces, project_shares,
    projects, unexpired,
};

pub use role_levels::{LevelParts, RoleLevels, levels};
pub use with_role::{group_with_role, project_with_role};

/// The user who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Viewer {
    /// An anonymous client.
    Anonymous,
    /// A user who is not an administrator.
    User {
        /// The user ID.
        id: i64,
        /// Whether the user is external and sees internal resources only as a member.
        external: bool,
    },
    /// An administrator, who can see everything.
    Admin,
}

/// Returns the user's role on a project, if any.
///
/// # Errors
/// Any database error.
pub async fn project_level(
    db: &impl ConnectionTrait,
    user_id: i64,
    project_id: i64,
    today: NaiveDate,
) -> Result<Option<AccessLevel>, DbErr> {
    let levels = highest(db, grants_on_project(user_id, project_id, today)).await?;
    Ok(levels.into_values().max())
}

/// Returns a part with a row if the user has a role on the project.
#[must_use]
pub fn has_project_level_part(user_id: i64, project_id: i64, today: NaiveDate) -> RelatedPart {
    let grants = together(UnionType::All, grants_on_project(user_id, project_id, today));
    let rows = Query::select().from_subquery(grants, "grants").take();
    RelatedPart::exists(rows, project_id)
}

/// Returns the statements for the user's roles on a project, and on its namespace.
fn grants_on_project(user_id: i64, project_id: i64, today: NaiveDate) -> Vec<SelectStatement> {
    let namespace = Query::select()
        .column(projects::Column::NamespaceId)
        .from(projects::Entity)
        .and_where(Expr::col(projects::Column::Id).eq(project_id))
        .take();
    let own = project_grants(user_id, today).into_iter();
    let inherited = group_grants(user_id, today).into_iter();
    own.map(|grant| grant.rows(|target| target.eq(project_id)))
        .chain(inherited.map(|grant| grant.rows(|target| target.in_subquery(namespace.clone()))))
        .collect()
}

/// Returns the user's role on a group or personal namespace, if any.
///
/// # Errors
/// Any database error.
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

/// Returns the user's roles on several groups or personal namespaces in one statement, without entries for no
/// role.
///
/// # Errors
/// Any database error.
pub async fn group_levels(
    db: &impl ConnectionTrait,
    user_id: i64,
    namespace_ids: &[i64],
    today: NaiveDate,
) -> Result<HashMap<i64, AccessLevel>, DbErr> {
    if namespace_ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: BTreeSet<i64> = namespace_ids.iter().copied().collect();
    let grants = group_grants(user_id, today).into_iter();
    highest(
        db,
        grants.map(|grant| grant.rows(|target| target.is_in(ids.iter().copied()))),
    )
    .await
}

/// Returns a condition on `projects` for projects on which the user has at least a role.
pub fn projects_with_level(user_id: i64, least: AccessLevel, today: NaiveDate) -> Condition {
    let columns = [projects::Column::Id, projects::Column::NamespaceId];
    held_by(user_id, least, today, columns.map(ColumnTrait::into_expr))
}

/// Returns a condition on `projects` for projects on which the user has at least a role, for frequent lists;
/// it needs one more statement. If there are few projects, they are selected by ID. If there are many, it is
/// faster to read the list in its order and test each project until the page is full. The databases cannot
/// estimate which case applies.
///
/// # Errors
/// Any database error.
pub async fn projects_with_role(
    db: &impl ConnectionTrait,
    user_id: i64,
    least: AccessLevel,
    today: NaiveDate,
) -> Result<Condition, DbErr> {
    let own = project_grants(user_id, today).into_iter();
    let inherited = group_grants(user_id, today).into_iter().map(Grant::on_projects);
    let all = own.chain(inherited).map(|grant| grant.targets(least));
    match if_few(db, together(UnionType::All, all)).await? {
        Some(ids) => Ok(Condition::all().add(projects::Column::Id.is_in(ids))),
        None => {
            let columns = [projects::Column::Id, projects::Column::NamespaceId];
            Ok(held_by(user_id, least, today, columns.map(unindexed)))
        }
    }
}

/// Returns those of a few projects that the viewer can see or, with `least`, on which a user has at least
/// this role. Projects that are being deleted are excluded. The query starts from the grants of these
/// projects, not from the roles of the user.
///
/// # Errors
/// Any database error.
pub async fn visible_among(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    user_id: Option<i64>,
    ids: &BTreeSet<i64>,
    least: Option<AccessLevel>,
    today: NaiveDate,
) -> Result<BTreeSet<i64>, DbErr> {
    let rows: Vec<(i64, i64, Visibility)> = projects::not_deleted()
        .select_only()
        .columns([
            projects::Column::Id,
            projects::Column::NamespaceId,
            projects::Column::Visibility,
        ])
        .filter(projects::Column::Id.is_in(ids.iter().copied()))
        .into_tuple()
        .all(db)
        .await?;
    let is_open = |visibility: Visibility| match viewer {
        Viewer::Admin => true,
        Viewer::Anonymous => visibility == Visibility::Public,
        Viewer::User { external, .. } => visibilities_without_role(external).contains(&visibility),
    };
    let (open, closed): (Vec<_>, Vec<_>) = rows
        .into_iter()
        .partition(|(_, _, visibility)| least.is_none() && is_open(*visibility));
    let mut admitted: BTreeSet<i64> = open.into_iter().map(|(id, ..)| id).collect();
    if let Some(user_id) = user_id {
        let closed: Vec<_> = closed
            .into_iter()
            .map(|(id, namespace, _)| (id, namespace))
            .collect();
        let levels_by_project = levels(db, user_id, &closed, today).await?.projects;
        let admitted_ids = levels_by_project
            .into_iter()
            .filter(|(_, level)| least.is_none_or(|least| *level >= least));
        admitted.extend(admitted_ids.map(|(id, _)| id));
    }
    Ok(admitted)
}

/// Returns a column of `projects` as an expression that matches no index.
pub fn unindexed(column: projects::Column) -> Expr {
    column.into_expr().add(0)
}

fn held_by(user_id: i64, least: AccessLevel, today: NaiveDate, [id, namespace_id]: [Expr; 2]) -> Condition {
    let [groups, shared_groups, owned] = group_grants(user_id, today);
    let [direct, shared] = project_grants(user_id, today);
    // The most frequent grant comes first, because the others are then not evaluated.
    Condition::any()
        .add(namespace_id.clone().in_subquery(groups.targets(least)))
        .add(namespace_id.clone().in_subquery(owned.targets(least)))
        .add(id.clone().in_subquery(direct.targets(least)))
        .add(namespace_id.in_subquery(shared_groups.targets(least)))
        .add(id.in_subquery(shared.targets(least)))
}

/// Returns a condition on `namespaces` for groups and personal namespaces on which the user has at least a
/// role.
pub fn groups_with_level(user_id: i64, least: AccessLevel, today: NaiveDate) -> Condition {
    let grants = group_grants(user_id, today).map(|grant| grant.targets(least));
    Condition::all().add(namespaces::Column::Id.in_subquery(together(UnionType::Distinct, grants)))
}

/// Returns a condition on `projects` for visible projects, without projects that are being deleted.
pub fn visible_projects(viewer: Viewer, today: NaiveDate) -> Condition {
    let live = Condition::all().add(projects::Column::DeletionStartedAt.is_null());
    match viewer {
        Viewer::Admin => live,
        Viewer::Anonymous => live.add(projects::Column::Visibility.eq(Visibility::Public)),
        Viewer::User { id, external } => live.add(
            Condition::any()
                .add(projects::Column::Visibility.is_in(visibilities_without_role(external)))
                .add(projects_with_level(id, AccessLevel::Guest, today)),
        ),
    }
}

/// Returns a condition on `projects` for visible projects whose code the viewer may read. If the viewer sees the
/// project only as a member, the viewer must be at least a Reporter. If the repository is open to members only, any
/// role suffices in other projects.
pub fn code_readable_projects(viewer: Viewer, today: NaiveDate) -> Condition {
    use projects::{Column, FeatureAccess};

    let open = |access: FeatureAccess, visibilities: Vec<Visibility>| {
        Condition::all()
            .add(Column::RepositoryAccessLevel.eq(access))
            .add(Column::Visibility.is_in(visibilities))
    };
    let enabled = Condition::all().add(Column::RepositoryAccessLevel.ne(FeatureAccess::Disabled));
    match viewer {
        Viewer::Admin => enabled,
        Viewer::Anonymous => open(FeatureAccess::Enabled, vec![Visibility::Public]),
        Viewer::User { id, external } => {
            let visibilities = visibilities_without_role(external);
            let of_members = open(FeatureAccess::Private, visibilities.clone());
            Condition::any()
                .add(open(FeatureAccess::Enabled, visibilities))
                .add(enabled.add(projects_with_level(id, AccessLevel::Reporter, today)))
                .add(of_members.add(projects_with_level(id, AccessLevel::Guest, today)))
        }
    }
}

/// Returns a condition on `projects` for visible projects whose issues are available to the viewer.
pub fn projects_with_issues(viewer: Viewer, today: NaiveDate) -> Condition {
    projects_with(projects::Column::IssuesAccessLevel, viewer, today)
}

/// Returns a condition on `projects` for visible projects whose merge requests are available to the viewer,
/// who must also be able to read the code.
pub fn projects_with_merge_requests(viewer: Viewer, today: NaiveDate) -> Condition {
    projects_with(projects::Column::MergeRequestsAccessLevel, viewer, today)
        .add(code_readable_projects(viewer, today))
}

/// Returns a condition on `projects` for visible projects whose issues or merge requests, and thus the milestones, are
/// available to the viewer.
pub fn projects_with_milestones(viewer: Viewer, today: NaiveDate) -> Condition {
    Condition::any()
        .add(projects_with(projects::Column::IssuesAccessLevel, viewer, today))
        .add(projects_with(
            projects::Column::MergeRequestsAccessLevel,
            viewer,
            today,
        ))
}

/// Returns a condition on `projects` for visible projects whose snippets are available to the viewer.
pub fn projects_with_snippets(viewer: Viewer, today: NaiveDate) -> Condition {
    projects_with(projects::Column::SnippetsAccessLevel, viewer, today)
}

/// Returns a condition on `projects` for visible projects whose releases are available to the viewer.
pub fn projects_with_releases(viewer: Viewer, today: NaiveDate) -> Condition {
    projects_with(projects::Column::ReleasesAccessLevel, viewer, today)
}

/// Returns a condition on `projects` for projects whose deployments are available to the viewer, who must be at least a
/// Reporter.
pub fn projects_with_deployments(viewer: Viewer, today: NaiveDate) -> Condition {
    let is_enabled = |level: projects::Column| level.ne(projects::FeatureAccess::Disabled);
    let enabled = Condition::all()
        .add(is_enabled(projects::Column::BuildsAccessLevel))
        .add(is_enabled(projects::Column::EnvironmentsAccessLevel));
    match viewer {
        Viewer::Admin => enabled,
        Viewer::Anonymous => Condition::all().add(Expr::val(false)),
        Viewer::User { id, .. } => enabled.add(projects_with_level(id, AccessLevel::Reporter, today)),
    }
}

/// Returns a condition on `projects` for projects whose packages are available to the viewer, who must be at least a
/// Reporter in projects that are visible only to members. Projects that are being deleted are excluded.
pub fn projects_with_packages(viewer: Viewer, today: NaiveDate) -> Condition {
    use projects::{Column, FeatureAccess};

    let is_open = Column::PackageRegistryAccessLevel.eq(FeatureAccess::Enabled);
    let enabled = Condition::all()
        .add(Column::DeletionStartedAt.is_null())
        .add(Column::PackageRegistryAccessLevel.ne(FeatureAccess::Disabled));
    match viewer {
        Viewer::Admin => enabled,
        Viewer::Anonymous => enabled
            .add(is_open)
            .add(Column::Visibility.eq(Visibility::Public)),
        Viewer::User { id, external } => {
            let without_role = Condition::all()
                .add(Column::Visibility.is_in(visibilities_without_role(external)))
                .add(
                    Condition::any()
                        .add(is_open)
                        .add(projects_with_level(id, AccessLevel::Guest, today)),
                );
            let with_role = projects_with_level(id, AccessLevel::Reporter, today);
            enabled.add(Condition::any().add(without_role).add(with_role))
        }
    }
}

/// Returns a condition for visible projects in which a feature is available to the viewer.
fn projects_with(feature: projects::Column, viewer: Viewer, today: NaiveDate) -> Condition {
    use projects::FeatureAccess;

    let seen = visible_projects(viewer, today);
    let open = feature.eq(FeatureAccess::Enabled);
    match viewer {
        Viewer::Admin => seen.add(feature.ne(FeatureAccess::Disabled)),
        Viewer::Anonymous => seen.add(open),
        Viewer::User { id, .. } => {
            let members = Condition::all()
                .add(feature.eq(FeatureAccess::Private))
                .add(projects_with_level(id, AccessLevel::Guest, today));
            seen.add(Condition::any().add(open).add(members))
        }
    }
}

/// Returns a condition on `namespaces` for groups that are visible by their visibility, by a role, or because
/// the user has a role on a project below. Personal namespaces and groups that are being deleted are
/// excluded.
pub fn visible_groups(viewer: Viewer, today: NaiveDate) -> Condition {
    let live = Condition::all()
        .add(namespaces::Column::Kind.eq(namespaces::NamespaceKind::Group))
        .add(namespaces::Column::DeletionStartedAt.is_null());
    match viewer {
        Viewer::Admin => live,
        Viewer::Anonymous => live.add(namespaces::Column::Visibility.eq(Visibility::Public)),
        Viewer::User { id, external } => live.add(
            Condition::any()
                .add(namespaces::Column::Visibility.is_in(visibilities_without_role(external)))
                .add(groups_with_level(id, AccessLevel::Guest, today))
                .add(namespaces::Column::Id.in_subquery(above_own_projects(id, today))),
        ),
    }
}

/// Returns the visibilities that a signed-in user can see without a role.
pub(super) fn visibilities_without_role(external: bool) -> Vec<Visibility> {
    if external {
        vec![Visibility::Public]
    } else {
        vec![Visibility::Public, Visibility::Internal]
    }
}

/// Selects the namespaces above projects on which the user has a direct role.
fn above_own_projects(user_id: i64, today: NaiveDate) -> SelectStatement {
    let own = project_grants(user_id, today).map(|grant| grant.targets(AccessLevel::Guest));
    // Many projects are in few namespaces, so each namespace is looked up only once.
    let within = Query::select()
        .column((PROJECT, projects::Column::NamespaceId))
        .from_as(projects::Entity, PROJECT)
        .and_where(Expr::col((PROJECT, projects::Column::Id)).in_subquery(together(UnionType::Distinct, own)))
        .take();
    Query::select()
        .column((ABOVE, namespace_ancestors::Column::AncestorId))
        .from_as(namespace_ancestors::Entity, ABOVE)
        .and_where(Expr::col((ABOVE, namespace_ancestors::Column::NamespaceId)).in_subquery(within))
        .take()
}

// Table aliases: the conditions are nested in statements that use the original table names.
const MEMBER: &str = "member";
const HELD: &str = "held";
const SHARE: &str = "share";
const ABOVE: &str = "above";
const OWNED: &str = "owned";
const PROJECT: &str = "granted_project";

/// One source of roles: tables that lead from the user to the target, the conditions between their rows, the
/// target column, and the role.
///
/// SQLite joins in the written order, because it has no estimate of the number of memberships. PostgreSQL
/// chooses the order itself.
struct Grant {
    tables: Vec<TableRef>,
    rules: Condition,
    target: Expr,
    level: Expr,
}

impl Grant {
    /// Selects the rows `(target_id, access_level)` for the targets of a condition, which are looked up
    /// first.
    fn rows(mut self, which: impl FnOnce(Expr) -> Expr) -> SelectStatement {
        self.tables.reverse();
        let condition = which(self.target.clone());
        let level = self.level.clone();
        self.select()
            .expr_as(level, "access_level")
            .and_where(condition)
            .take()
    }

    /// Selects the targets with at least a role.
    fn targets(self, least: AccessLevel) -> SelectStatement {
        let level = self.level.clone();
        self.select().and_where(level.gte(i32::from(least))).take()
    }

    fn select(self) -> SelectStatement {
        let mut tables = self.tables.into_iter();
        let mut select = Query::select();
        select.expr_as(self.target, TARGET_ID).cond_where(self.rules);
        if let Some(first) = tables.next() {
            select.from(first);
        }
        for table in tables {
            select.cross_join(table);
        }
        select
    }

    /// Returns the same grant on the projects in the granted namespaces.
    fn on_projects(mut self) -> Self {
        self.tables.push(named(projects::Entity, PROJECT));
        let inside = Expr::col((PROJECT, projects::Column::NamespaceId)).eq(self.target);
        Self {
            tables: self.tables,
            rules: self.rules.add(inside),
            target: Expr::col((PROJECT, projects::Column::Id)),
            level: self.level,
        }
    }
}

/// Returns the grants of a user on namespaces.
fn group_grants(user_id: i64, today: NaiveDate) -> [Grant; 3] {
    use namespace_ancestors::Column as Ancestor;

    let membership = memberships_below(user_id, today);
    let through = memberships_below(user_id, today);
    let shared = Grant {
        tables: [
            through.tables,
            vec![
                named(group_shares::Entity, SHARE),
                named(namespace_ancestors::Entity, ABOVE),
            ],
        ]
        .concat(),
        rules: through
            .rules
            .add(same(
                (SHARE, group_shares::Column::WithGroupId),
                (HELD, Ancestor::NamespaceId),
            ))
            .add(same(
                (ABOVE, Ancestor::AncestorId),
                (SHARE, group_shares::Column::NamespaceId),
            ))
            .add(unexpired((SHARE, group_shares::Column::ExpiresAt), today)),
        target: Expr::col((ABOVE, Ancestor::NamespaceId)),
        level: capped((SHARE, group_shares::Column::AccessLevel)),
    };
    let owned = Grant {
        tables: vec![named(namespaces::Entity, OWNED)],
        rules: Condition::all().add(Expr::col((OWNED, namespaces::Column::OwnerId)).eq(user_id)),
        target: Expr::col((OWNED, namespaces::Column::Id)),
        level: Expr::val(i32::from(AccessLevel::Owner)),
    };
    [membership, shared, owned]
}

/// Returns the grants of a user on projects that do not come from their namespaces.
fn project_grants(user_id: i64, today: NaiveDate) -> [Grant; 2] {
    let membership = Grant {
        tables: vec![named(members::Entity, MEMBER)],
        rules: memberships(user_id, today).add(Expr::col((MEMBER, members::Column::ProjectId)).is_not_null()),
        target: Expr::col((MEMBER, members::Column::ProjectId)),
        level: Expr::col((MEMBER, members::Column::AccessLevel)),
    };
    let through = memberships_below(user_id, today);
    let shared = Grant {
        tables: [through.tables, vec![named(project_shares::Entity, SHARE)]].concat(),
        rules: through
            .rules
            .add(same(
                (SHARE, project_shares::Column::GroupId),
                (HELD, namespace_ancestors::Column::NamespaceId),
            ))
            .add(unexpired((SHARE, project_shares::Column::ExpiresAt), today)),
        target: Expr::col((SHARE, project_shares::Column::ProjectId)),
        level: capped((SHARE, project_shares::Column::AccessLevel)),
    };
    [membership, shared]
}

/// Returns a condition for the user's memberships that have not expired.
fn memberships(user_id: i64, today: NaiveDate) -> Condition {
    Condition::all()
        .add(Expr::col((MEMBER, members::Column::UserId)).eq(user_id))
        .add(unexpired((MEMBER, members::Column::ExpiresAt), today))
}

/// Returns the grant of a user's memberships on groups and all their descendants.
fn memberships_below(user_id: i64, today: NaiveDate) -> Grant {
    Grant {
        tables: vec![
            named(members::Entity, MEMBER),
            named(namespace_ancestors::Entity, HELD),
        ],
        rules: memberships(user_id, today).add(same(
            (HELD, namespace_ancestors::Column::AncestorId),
            (MEMBER, members::Column::NamespaceId),
        )),
        target: Expr::col((HELD, namespace_ancestors::Column::NamespaceId)),
        level: Expr::col((MEMBER, members::Column::AccessLevel)),
    }
}

/// Returns a table with an alias.
fn named(table: impl IntoTableRef, name: &'static str) -> TableRef {
    table.into_table_ref().alias(name)
}

fn same(left: impl IntoColumnRef, right: impl IntoColumnRef) -> Expr {
    Expr::col(left).eq(Expr::col(right))
}

/// Returns the member's role, limited by the share's role.
fn capped(share: impl IntoColumnRef + Clone) -> Expr {
    let member = Expr::col((MEMBER, members::Column::AccessLevel));
    Expr::case(member.clone().lt(Expr::col(share.clone())), member)
        .finally(Expr::col(share))
        .into()
}

/// Returns the union of statements; without a statement, one with no rows.
fn together(how: UnionType, statements: impl IntoIterator<Item = SelectStatement>) -> SelectStatement {
    let all = statements.into_iter().reduce(|mut all, one| {
        all.union(how, one);
        all
    });
    all.unwrap_or_default()
}

#[derive(FromQueryResult)]
struct Highest {
    target_id: i64,
    access_level: AccessLevel,
}

/// Returns the highest granted role of each target.
async fn highest(
    db: &impl ConnectionTrait,
    grants: impl IntoIterator<Item = SelectStatement>,
) -> Result<HashMap<i64, AccessLevel>, DbErr> {
    let rows = db.query_all(&highest_of(grants)).await?;
    rows.iter()
        .map(|row| Highest::from_query_result(row, "").map(|found| (found.target_id, found.access_level)))
        .collect()
}

fn highest_of(grants: impl IntoIterator<Item = SelectStatement>) -> SelectStatement {
    Query::select()
        .column(TARGET_ID)
        .expr_as(Expr::col("access_level").max(), "access_level")
        .from_subquery(together(UnionType::All, grants), "grants")
        .group_by_col(TARGET_ID)
        .take()
}
