//! Rules of protected branches and tags, read in one statement with their grants.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, Func, Query, SelectStatement};
use sea_orm::{ActiveEnum, ColumnTrait, Condition, ConnectionTrait, DbErr};

use super::access::{Viewer, visible_groups};
use super::protected_ref_grants::{self as grants, RefAction};
use super::related_rows::{PartKey, RelatedPart, RelatedRow, RelatedRowSets, RelatedRows, bigint, null};
use super::{
    deploy_keys, group_protected_branches, group_shares, namespace_ancestors, namespaces, now,
    project_deploy_keys, project_shares, protected_branches, protected_tags, unexpired, users,
};

/// Values of the attributes of a rule for branches in one number.
const FORCE_PUSH: i64 = 1;
const CODE_OWNERS: i64 = 2;

/// A rule that protects branches or tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefRule {
    /// ID of the protected branch or tag, unique among those of the same kind and owner.
    pub id: i64,
    /// The name, or a pattern with `*`.
    pub name: String,
    /// The access level that each action requires. No role can perform other actions.
    pub levels: Vec<(RefAction, i32)>,
    /// Whether callers who can push can also force-push.
    pub allow_force_push: bool,
    /// Whether changes of files with code owners require their approval.
    pub code_owner_approval_required: bool,
    /// Whether the rule belongs to a group above the project.
    pub inherited: bool,
    /// When the rule was last changed.
    pub updated_at: Option<DateTime<Utc>>,
    /// The grants to users, groups and deploy keys.
    pub grants: Vec<RefGrant>,
}

/// A grant of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefGrant {
    /// The ID of the grant.
    pub id: i64,
    /// The action that is granted.
    pub action: RefAction,
    /// The user, group or deploy key.
    pub grantee: Grantee,
    /// Name of the user or group, or title of the deploy key; `None` if the viewer cannot see the group.
    pub name: Option<String>,
}

/// The recipient of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grantee {
    /// The user with this ID.
    User(i64),
    /// The members of the group with this ID.
    Group(i64),
    /// The deploy key with this ID.
    DeployKey(i64),
}

/// The owner and the kind of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefRuleOwner {
    /// Branches of a project, with the rules of the groups above it.
    ProjectBranches {
        /// The project.
        project_id: i64,
        /// Its namespace.
        namespace_id: i64,
    },
    /// Tags of a project.
    ProjectTags {
        /// The project.
        project_id: i64,
        /// Its namespace.
        namespace_id: i64,
    },
    /// Rules of a group.
    GroupBranches {
        /// The group.
        namespace_id: i64,
    },
}

/// The grants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantFilter {
    /// All grants. Names of groups that the viewer cannot see are omitted.
    All(Viewer),
    /// Grants to this user, and to groups and deploy keys that still have access to the project.
    Of(Option<i64>),
}

/// Parts of a statement with rules and their grants.
#[derive(Debug, Clone, Copy)]
pub struct RefRuleParts {
    kind: RuleKind,
    own: PartKey,
    inherited: PartKey,
    grants: [PartKey; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleKind {
    Branch,
    Tag,
}

impl RefRuleParts {
    /// Adds the parts to a statement.
    pub fn add(related: &mut RelatedRows, owner: RefRuleOwner, filter: GrantFilter) -> Self {
        let (kind, own, inherited, project) = match owner {
            RefRuleOwner::ProjectBranches {
                project_id,
                namespace_id,
            } => (
                RuleKind::Branch,
                branches(project_id),
                Some(inherited_branches(namespace_id)),
                Some((project_id, namespace_id)),
            ),
            RefRuleOwner::ProjectTags {
                project_id,
                namespace_id,
            } => (
                RuleKind::Tag,
                tags(project_id),
                None,
                Some((project_id, namespace_id)),
            ),
            RefRuleOwner::GroupBranches { namespace_id } => {
                (RuleKind::Branch, group_branches(namespace_id), None, None)
            }
        };
        let mut grant =
            |part: GrantPart| related.add(project.and_then(|ids| part(granted(kind, ids.0), ids, filter)));
        let grants = [grant(users_part), grant(groups_part), grant(deploy_keys_part)];
        Self {
            kind,
            own: related.add(Some(own)),
            inherited: related.add(inherited),
            grants,
        }
    }

    /// Removes the rules from the rows of the statement: the own rules and then the inherited ones, oldest first.
    ///
    /// # Errors
    /// Returns an error if a row has an unknown action.
    pub fn take(self, rows: &mut RelatedRowSets) -> Result<Vec<RefRule>, DbErr> {
        let mut rules: Vec<RefRule> = Vec::new();
        for (part, inherited) in [(self.own, false), (self.inherited, true)] {
            let read = rows.take(part).into_iter();
            rules.extend(read.map(|row| read_rule(self.kind, row, inherited)));
        }
        let makes: [fn(i64) -> Grantee; 3] = [Grantee::User, Grantee::Group, Grantee::DeployKey];
        for (part, grantee) in self.grants.into_iter().zip(makes) {
            let mut granted = rows.take_grouped(part, |row| read_grant(row, grantee))?;
            for rule in rules.iter_mut().filter(|rule| !rule.inherited) {
                rule.grants.extend(granted.remove(&rule.id).unwrap_or_default());
            }
        }
        Ok(rules)
    }
}

/// Returns the rules of an owner: the own rules and then the inherited ones, oldest first.
///
/// # Errors
/// Any database error.
pub async fn load(
    db: &impl ConnectionTrait,
    owner: RefRuleOwner,
    filter: GrantFilter,
) -> Result<Vec<RefRule>, DbErr> {
    let mut related = RelatedRows::default();
    let parts = RefRuleParts::add(&mut related, owner, filter);
    parts.take(&mut related.load(db).await?)
}

/// Returns the part of a table with rules. `levels` are up to three columns with access levels.
fn part(
    rows: SelectStatement,
    id: Expr,
    name: Expr,
    times: Expr,
    levels: impl IntoIterator<Item = Expr>,
) -> RelatedPart {
    let levels = levels.into_iter().map(|level| level.cast_as("text"));
    RelatedPart::new(rows, bigint(Expr::Constant(0.into())))
        .sorted_by(id.clone())
        .with_id(id)
        .with_time(times)
        .with_texts(std::iter::once(name).chain(levels))
}

fn branches(project_id: i64) -> RelatedPart {
    use protected_branches::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::ProjectId.eq(project_id))
        .take();
    let levels = [
        Column::PushAccessLevel,
        Column::MergeAccessLevel,
        Column::UnprotectAccessLevel,
    ];
    let levels = levels.map(|column| column.into_expr());
    part(
        rows,
        Column::Id.into_expr(),
        Column::Name.into_expr(),
        Column::UpdatedAt.into_expr(),
        levels,
    )
    .with_number(flags(
        Column::AllowForcePush.into_expr(),
        Column::CodeOwnerApprovalRequired.into_expr(),
    ))
}

fn group_branches(namespace_id: i64) -> RelatedPart {
    use group_protected_branches::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::NamespaceId.eq(namespace_id))
        .take();
    group_part(rows)
}

/// Returns the rules of a namespace and of the groups above it.
fn inherited_branches(namespace_id: i64) -> RelatedPart {
    use group_protected_branches::{Column, Entity};
    use namespace_ancestors::Column as Ancestor;
    let rows = Query::select()
        .from(namespace_ancestors::Entity)
        .cross_join(Entity)
        .and_where(Ancestor::NamespaceId.eq(namespace_id))
        .and_where(
            Column::NamespaceId
                .into_expr()
                .eq(Ancestor::AncestorId.into_expr()),
        )
        .take();
    group_part(rows)
}

fn group_part(rows: SelectStatement) -> RelatedPart {
    use group_protected_branches::Column;
    let levels = [
        Column::PushAccessLevel,
        Column::MergeAccessLevel,
        Column::UnprotectAccessLevel,
    ];
    let levels = levels.map(|column| column.into_expr());
    part(
        rows,
        Column::Id.into_expr(),
        Column::Name.into_expr(),
        Column::UpdatedAt.into_expr(),
        levels,
    )
    .with_number(flags(
        Column::AllowForcePush.into_expr(),
        Column::CodeOwnerApprovalRequired.into_expr(),
    ))
}

fn tags(project_id: i64) -> RelatedPart {
    use protected_tags::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::ProjectId.eq(project_id))
        .take();
    part(
        rows,
        Column::Id.into_expr(),
        Column::Name.into_expr(),
        Column::UpdatedAt.into_expr(),
        [Column::CreateAccessLevel.into_expr()],
    )
}

/// Returns the sum of [`FORCE_PUSH`] and [`CODE_OWNERS`], as far as the columns are true.
fn flags(force_push: Expr, code_owners: Expr) -> Expr {
    let value = |column: Expr, value: i64| -> Expr {
        Expr::case(column, Expr::val(value)).finally(Expr::val(0)).into()
    };
    bigint(value(force_push, FORCE_PUSH).add(value(code_owners, CODE_OWNERS)))
}

/// Selects the rules of a project with their grants. SQLite joins in this order.
fn granted(kind: RuleKind, project_id: i64) -> SelectStatement {
    let mut rows = Query::select();
    match kind {
        RuleKind::Branch => rows
            .from(protected_branches::Entity)
            .and_where(protected_branches::Column::ProjectId.eq(project_id))
            .cross_join(grants::Entity)
            .and_where(
                grants::Column::ProtectedBranchId
                    .into_expr()
                    .eq(protected_branches::Column::Id.into_expr()),
            ),
        RuleKind::Tag => rows
            .from(protected_tags::Entity)
            .and_where(protected_tags::Column::ProjectId.eq(project_id))
            .cross_join(grants::Entity)
            .and_where(
                grants::Column::ProtectedTagId
                    .into_expr()
                    .eq(protected_tags::Column::Id.into_expr()),
            ),
    };
    rows.take()
}

/// Returns the part with the grants to one kind of grantee.
fn grant_part(rows: SelectStatement, grantee: grants::Column, name: Expr) -> RelatedPart {
    use grants::Column;
    // Exactly one of the columns is set.
    let owner = Func::coalesce([
        Column::ProtectedBranchId.into_expr(),
        Column::ProtectedTagId.into_expr(),
    ]);
    RelatedPart::new(rows, owner.into())
        .sorted_by(Column::Id.into_expr())
        .with_id(Column::Id.into_expr())
        .with_number(grantee.into_expr())
        .with_texts([Column::Action.into_expr(), name])
}

/// Returns the part with one kind of grants of a project and its namespace.
type GrantPart = fn(SelectStatement, (i64, i64), GrantFilter) -> Option<RelatedPart>;

fn users_part(mut rows: SelectStatement, _: (i64, i64), filter: GrantFilter) -> Option<RelatedPart> {
    if let GrantFilter::Of(user_id) = filter {
        rows.and_where(grants::Column::UserId.eq(user_id?));
    }
    rows.cross_join(users::Entity).and_where(
        users::Column::Id
            .into_expr()
            .eq(grants::Column::UserId.into_expr()),
    );
    Some(grant_part(
        rows,
        grants::Column::UserId,
        users::Column::Name.into_expr(),
    ))
}

fn groups_part(
    mut rows: SelectStatement,
    (project_id, namespace_id): (i64, i64),
    filter: GrantFilter,
) -> Option<RelatedPart> {
    let today = now().date_naive();
    rows.cross_join(namespaces::Entity).and_where(
        namespaces::Column::Id
            .into_expr()
            .eq(grants::Column::GroupId.into_expr()),
    );
    let name = namespaces::Column::Name.into_expr();
    let name = match filter {
        GrantFilter::All(viewer) => Expr::case(visible_groups(viewer, today), name)
            .finally(null("text"))
            .into(),
        GrantFilter::Of(user_id) => {
            user_id?;
            rows.cond_where(groups_with_access(project_id, namespace_id, today));
            name
        }
    };
    Some(grant_part(rows, grants::Column::GroupId, name))
}

fn deploy_keys_part(
    mut rows: SelectStatement,
    (project_id, _): (i64, i64),
    filter: GrantFilter,
) -> Option<RelatedPart> {
    use project_deploy_keys::Column;
    rows.cross_join(deploy_keys::Entity).and_where(
        deploy_keys::Column::Id
            .into_expr()
            .eq(grants::Column::DeployKeyId.into_expr()),
    );
    if matches!(filter, GrantFilter::Of(_)) {
        rows.cross_join(project_deploy_keys::Entity)
            .and_where(
                Column::DeployKeyId
                    .into_expr()
                    .eq(deploy_keys::Column::Id.into_expr()),
            )
            .and_where(Column::ProjectId.eq(project_id))
            .and_where(Column::CanPush.eq(true));
    }
    let title = deploy_keys::Column::Title.into_expr();
    Some(grant_part(rows, grants::Column::DeployKeyId, title))
}

/// Returns a condition on `namespaces` for groups that contain a project, and groups with which the project or a group above
/// it is shared.
pub fn groups_with_access(project_id: i64, namespace_id: i64, today: NaiveDate) -> Condition {
    use namespaces::Column;
    let ancestors = Query::select()
        .column(namespace_ancestors::Column::AncestorId)
        .from(namespace_ancestors::Entity)
        .and_where(namespace_ancestors::Column::NamespaceId.eq(namespace_id))
        .take();
    let of_project = Query::select()
        .column(project_shares::Column::GroupId)
        .from(project_shares::Entity)
        .and_where(project_shares::Column::ProjectId.eq(project_id))
        .cond_where(unexpired(
            (project_shares::Entity, project_shares::Column::ExpiresAt),
            today,
        ))
        .take();
    let of_groups = Query::select()
        .column(group_shares::Column::WithGroupId)
        .from(group_shares::Entity)
        .and_where(group_shares::Column::NamespaceId.in_subquery(ancestors.clone()))
        .cond_where(unexpired(
            (group_shares::Entity, group_shares::Column::ExpiresAt),
            today,
        ))
        .take();
    let shared = Condition::any()
        .add(Column::Id.in_subquery(ancestors))
        .add(Column::Id.in_subquery(of_project))
        .add(Column::Id.in_subquery(of_groups));
    Condition::all()
        .add(Column::Kind.eq(namespaces::NamespaceKind::Group))
        .add(shared)
}

fn read_rule(kind: RuleKind, row: RelatedRow, inherited: bool) -> RefRule {
    let actions: &[RefAction] = match kind {
        RuleKind::Branch => &[RefAction::Push, RefAction::Merge, RefAction::Unprotect],
        RuleKind::Tag => &[RefAction::Create],
    };
    let has_flag = |flag: i64| row.number.is_some_and(|number| number & flag != 0);
    let [name, levels @ ..] = row.texts;
    let levels = actions.iter().zip(levels).filter_map(|(action, level)| {
        let level: i32 = level?.parse().ok()?;
        (level > 0).then_some((*action, level))
    });
    RefRule {
        id: row.id,
        name: name.unwrap_or_default(),
        levels: levels.collect(),
        allow_force_push: has_flag(FORCE_PUSH),
        code_owner_approval_required: has_flag(CODE_OWNERS),
        inherited,
        updated_at: row.time,
        grants: Vec::new(),
    }
}

fn read_grant(row: RelatedRow, grantee: fn(i64) -> Grantee) -> Result<RefGrant, DbErr> {
    let [action, name, ..] = row.texts;
    Ok(RefGrant {
        id: row.id,
        action: RefAction::try_from_value(&action.unwrap_or_default())?,
        grantee: grantee(row.number.unwrap_or_default()),
        name,
    })
}

impl RefRule {
    /// Returns the access level that an action requires; `None` if no role can perform the action.
    #[must_use]
    pub fn level(&self, action: RefAction) -> Option<i32> {
        let found = self.levels.iter().find(|(of, _)| *of == action);
        found.map(|(_, level)| *level)
    }
}
