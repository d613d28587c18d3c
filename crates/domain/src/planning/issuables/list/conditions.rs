//! Conditions that issues and merge requests have in common.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, Func, Query, SelectStatement, SubQueryStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, ExprTrait, QueryFilter, QuerySelect, QueryTrait, Select};
use storage::entities::issuables::IssuableKind;
use storage::entities::row_conditions::has_rows;
use storage::entities::selectivity::TARGET_ID;
use storage::entities::{fold, labels, milestones, namespace_ancestors, now, projects, users};

use super::{
    ConditionSet, IndexedCondition, IssuableConditions, IssuableFilter, IssuableScope, ListScope, Presence,
    is_null, search,
};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::InstancePlan;
use crate::kernel::query::at_or_before;

/// Maximum labels that are matched one by one, so that the rarest one can drive the query.
const MAX_SINGLE_LABELS: usize = 5;

/// Returns the conflicts and invalid values of a filter.
pub(crate) fn filter_errors(backend: &Backend, filter: &IssuableFilter) -> Vec<String> {
    let mut errors = Vec::new();
    collect_errors(&filter.include, "", backend.instance.plan, &mut errors);
    collect_errors(&filter.exclude, "not", backend.instance.plan, &mut errors);
    errors
}

/// Returns the conditions of a valid filter.
///
/// # Errors
/// Returns `Error::Unauthorized` if the filter refers to the caller and no user is signed in.
pub(crate) fn condition_set(
    backend: &Backend,
    caller: &Caller,
    kind: IssuableKind,
    scope: ListScope,
    filter: &IssuableFilter,
) -> Result<ConditionSet> {
    let mut set = ConditionSet::new(kind, backend.database.read().get_database_backend());
    match scope {
        ListScope::Instance => {}
        ListScope::Project(id) => set.add_covered(all(kind.column(kind.project()).eq(id))),
        ListScope::Group(id) => {
            let in_group = in_group(kind, id, &set);
            set.add(in_group);
        }
    }
    if filter.non_archived {
        let active = all(projects::Column::Archived.eq(false));
        set.add_test(all(in_projects(kind, active)));
    }
    match filter.scope {
        None | Some(IssuableScope::All) => {}
        Some(IssuableScope::CreatedByMe) => {
            set.add_covered(all(kind.column("author_id").eq(caller.signed_in()?.id)));
        }
        Some(IssuableScope::AssignedToMe) => set.add(assigned_to(
            kind,
            assignee_column(kind).eq(caller.signed_in()?.id),
        )),
    }
    set.add_covered(covered(kind, filter));
    if filter.updated_after.is_some() || filter.updated_before.is_some() {
        let updated_at = kind.column("updated_at");
        let condition = between_times(&updated_at, filter.updated_after, filter.updated_before);
        set.add(IndexedCondition::on_row(kind, condition.clone(), condition));
    }
    // Filters by the award emoji of the caller are ignored for anonymous callers.
    let user_id = caller.as_user().map(|user| user.id);
    include(kind, scope, &filter.include, user_id, &mut set);
    exclude(kind, scope, filter, user_id, &mut set);
    search::include(kind, &filter.include, backend, &mut set);
    search::exclude(kind, filter, backend, &mut set);
    Ok(set)
}

fn all(expr: Expr) -> Condition {
    Condition::all().add(expr)
}

/// Collects conflicts and invalid values.
fn collect_errors(
    conditions: &IssuableConditions,
    prefix: &str,
    plan: InstancePlan,
    errors: &mut Vec<String>,
) {
    let name = |name: &str| match prefix {
        "" => name.to_owned(),
        prefix => format!("{prefix}[{name}]"),
    };
    let mut exclusive = |both: bool, one: &str, other: &str| {
        if both {
            errors.push(format!("{}, {} are mutually exclusive", name(one), name(other)));
        }
    };
    exclusive(
        conditions.author_id.is_some() && conditions.author_username.is_some(),
        "author_id",
        "author_username",
    );
    exclusive(
        conditions.assignee_id.is_some() && !conditions.assignee_usernames.is_empty(),
        "assignee_id",
        "assignee_username",
    );
    let names = &conditions.assignee_usernames;
    if plan == InstancePlan::Free && names.len() > 1 {
        errors.push(format!(
            "{} allows one value, but found {}: {}",
            name("assignee_username"),
            names.len(),
            names.join(", ")
        ));
    }
    if let Some(text) = &conditions.assignee_id {
        parse_number(text, &name("assignee_id"), "an integer", errors);
    }
}

/// Parses a number or one of the two keywords. Adds an error otherwise.
pub(crate) fn parse_number(
    text: &str,
    name: &str,
    expected: &str,
    errors: &mut Vec<String>,
) -> Option<Presence<i64>> {
    let number = match parse_presence(text) {
        Presence::Is(text) => text.parse().ok().map(Presence::Is),
        Presence::None => Some(Presence::None),
        Presence::Any => Some(Presence::Any),
    };
    if number.is_none() {
        errors.push(format!("{name} should be {expected}, 'None' or 'Any'"));
    }
    number
}

/// Parses the keywords for none and at least one, case-insensitively.
pub(crate) fn parse_presence(text: &str) -> Presence<&str> {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "none" => Presence::None,
        "any" => Presence::Any,
        _ => Presence::Is(text),
    }
}

/// Returns conditions on the row itself that the indexes of the sort orders cover.
fn covered(kind: IssuableKind, filter: &IssuableFilter) -> Condition {
    Condition::all()
        .add_option(filter.milestone_id.map(|id| kind.column("milestone_id").eq(id)))
        .add_option(filter.include.author_id.map(|id| kind.column("author_id").eq(id)))
        .add(between_times(
            &kind.column("created_at"),
            filter.created_after,
            filter.created_before,
        ))
}

/// Matches times from one instant to another, both included.
pub(crate) fn between_times(
    column: &Expr,
    after: Option<DateTime<Utc>>,
    before: Option<DateTime<Utc>>,
) -> Condition {
    Condition::all()
        .add_option(after.map(|time| column.clone().gte(time)))
        .add_option(before.map(|time| at_or_before(column.clone(), time)))
}

/// Matches issuables in the projects of a group and its subgroups.
fn in_group(kind: IssuableKind, group_id: i64, set: &ConditionSet) -> IndexedCondition {
    let project_ids = projects_of(group_id).into_query();
    IndexedCondition::on_row(
        kind,
        all(set.id_in(kind.column(kind.project()), project_ids)),
        all(in_projects(kind, is_in_group(group_id))),
    )
}

/// Returns the query for the IDs of the projects of a group and its subgroups.
pub(crate) fn projects_of(group_id: i64) -> Select<projects::Entity> {
    projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(is_in_group(group_id))
}

/// Matches projects of a group and its subgroups.
fn is_in_group(group_id: i64) -> Condition {
    all(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group_id)))
}

/// Matches issuables whose project meets a condition on `projects`, checked row by row.
fn in_projects(kind: IssuableKind, condition: Condition) -> Expr {
    let mut project = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(Expr::col((projects::Entity, projects::Column::Id)).eq(kind.column(kind.project())))
        .cond_where(condition)
        .take();
    has_rows(&mut project)
}

/// Returns the column of the assignee.
fn assignee_column(kind: IssuableKind) -> Expr {
    Expr::col((kind.assignees(), "user_id"))
}

fn assigned_to(kind: IssuableKind, condition: Expr) -> IndexedCondition {
    IndexedCondition::on_related_rows(kind, kind.assignees(), all(condition))
}

fn has_assignees(kind: IssuableKind) -> Condition {
    IndexedCondition::on_related_rows(kind, kind.assignees(), Condition::all()).test
}

/// Matches labels with these titles that are available in a scope: those of its projects and of the groups
/// around them.
fn labels_titled(scope: ListScope, titles: &[&str]) -> Condition {
    use labels::Column::{NamespaceId, ProjectId, Title};

    let all = Condition::all().add(Title.is_in(titles.iter().copied()));
    let in_scope = match scope {
        ListScope::Instance => return all,
        ListScope::Group(id) => Condition::any()
            .add(ProjectId.in_subquery(projects_of(id).into_query()))
            .add(NamespaceId.in_subquery(namespace_ancestors::at_or_below(id)))
            .add(NamespaceId.in_subquery(namespace_ancestors::at_or_above(id))),
        ListScope::Project(id) => Condition::any()
            .add(ProjectId.eq(id))
            .add(NamespaceId.in_subquery(namespace_ancestors::around_project(id))),
    };
    all.add(in_scope)
}

fn labeled_with_any(
    kind: IssuableKind,
    scope: ListScope,
    titles: &[&str],
    set: &ConditionSet,
) -> IndexedCondition {
    let label = Expr::col((kind.labels(), "label_id"));
    let ids = |scope| {
        labels::Entity::find()
            .select_only()
            .column(labels::Column::Id)
            .filter(labels_titled(scope, titles))
            .into_query()
    };
    let lookup = set.id_in(label.clone(), ids(scope));
    // For a row that is checked, the title is sufficient. By an index of the column, SQLite would look up each label of
    // that title in each row.
    let column = match set.assumes_few_matches() {
        true => label.add(0),
        false => label,
    };
    let row_test = column.in_subquery(ids(ListScope::Instance));
    IndexedCondition {
        ids: IndexedCondition::on_related_rows(kind, kind.labels(), all(lookup)).ids,
        ..IndexedCondition::on_related_rows(kind, kind.labels(), all(row_test))
    }
}

/// Matches issuables with all of many labels, by counting: one condition, and one statement that finds it.
fn labeled_with_all(kind: IssuableKind, scope: ListScope, mut titles: Vec<&str>) -> IndexedCondition {
    titles.sort_unstable();
    titles.dedup();
    let count_of_titles = i64::try_from(titles.len()).unwrap_or(i64::MAX);
    let issuable = || Expr::col((kind.labels(), kind.key()));
    let labels = Query::select()
        .from(kind.labels())
        .inner_join(
            labels::Entity,
            Expr::col((labels::Entity, labels::Column::Id)).eq(Expr::col((kind.labels(), "label_id"))),
        )
        .cond_where(labels_titled(scope, &titles))
        .take();
    // Labels of a project and of a group may have the same title.
    let count = Expr::from(Func::count_distinct(Expr::col((
        labels::Entity,
        labels::Column::Title,
    ))));
    let ids = labels
        .clone()
        .expr_as(issuable(), TARGET_ID)
        .add_group_by([issuable()])
        .and_having(count.clone().eq(count_of_titles))
        .take();
    let row = labels
        .clone()
        .expr(count)
        .and_where(issuable().eq(kind.column("id")))
        .take();
    let test = Expr::from(SubQueryStatement::from(row)).eq(count_of_titles);
    IndexedCondition {
        ids,
        test: all(test),
        own: None,
        in_matches: None,
    }
}

fn has_labels(kind: IssuableKind) -> Condition {
    IndexedCondition::on_related_rows(kind, kind.labels(), Condition::all()).test
}

fn milestones_titled(title: &str) -> SelectStatement {
    let milestones = milestones::Entity::find()
        .select_only()
        .column(milestones::Column::Id);
    let today = now().date_naive();
    use milestones::Column as Milestone;
    let matching = match title {
        // Active milestones that are due in the future.
        "#upcoming" => milestones
            .filter(Milestone::State.eq(milestones::MilestoneState::Active))
            .filter(Milestone::DueDate.gt(today)),
        "#started" => milestones
            .filter(Milestone::State.eq(milestones::MilestoneState::Active))
            .filter(Milestone::StartDate.lte(today))
            .filter(
                Condition::any()
                    .add(Milestone::DueDate.is_null())
                    .add(Milestone::DueDate.gte(today)),
            ),
        title => milestones.filter(Milestone::Title.eq(title)),
    };
    matching.into_query()
}

/// Returns the query for the ID of the user with a name.
pub(crate) fn users_named(name: &str) -> SelectStatement {
    users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::UsernameKey.eq(fold(name)))
        .into_query()
}

/// Matches issuables with an award emoji of a user.
fn with_award_emoji(kind: IssuableKind, user_id: i64, name: Option<&str>) -> IndexedCondition {
    const AWARDS: &str = "award_emoji";
    let condition = Condition::all()
        .add(Expr::col((AWARDS, "user_id")).eq(user_id))
        .add(Expr::col((AWARDS, kind.key())).is_not_null())
        .add_option(name.map(|name| Expr::col((AWARDS, "name")).eq(name)));
    IndexedCondition::on_related_rows(kind, AWARDS, condition)
}

fn include(
    kind: IssuableKind,
    scope: ListScope,
    conditions: &IssuableConditions,
    user_id: Option<i64>,
    set: &mut ConditionSet,
) {
    if let Some(iids) = &conditions.iids {
        set.add(IndexedCondition::on_number(kind, "iid", |column| {
            column.is_in(iids.iter().copied())
        }));
    }
    match parse_labels(&conditions.labels) {
        Presence::None => set.add_test(has_labels(kind).not()),
        Presence::Any => set.add_test(has_labels(kind)),
        Presence::Is(titles) if titles.len() > MAX_SINGLE_LABELS => {
            set.add(labeled_with_all(kind, scope, titles))
        }
        Presence::Is(titles) => {
            for title in titles {
                let label = labeled_with_any(kind, scope, &[title], set);
                set.add(label);
            }
        }
    }
    match conditions.milestone.as_deref().map(parse_presence) {
        None => {}
        Some(Presence::None) => set.add_test(is_null(kind.column("milestone_id"))),
        Some(Presence::Any) => set.add_test(all(kind.column("milestone_id").is_not_null())),
        Some(Presence::Is(title)) => set.add_id_in("milestone_id", milestones_titled(title)),
    }
    if let Some(name) = &conditions.author_username {
        set.add_id_in("author_id", users_named(name));
    }
    match conditions.assignee_id.as_deref().map(parse_assignee) {
        None => {}
        Some(Presence::None) => set.add_test(has_assignees(kind).not()),
        Some(Presence::Any) => set.add_test(has_assignees(kind)),
        Some(Presence::Is(id)) => set.add(assigned_to(kind, assignee_column(kind).eq(id))),
    }
    for name in &conditions.assignee_usernames {
        set.add(assigned_to(
            kind,
            assignee_column(kind).in_subquery(users_named(name)),
        ));
    }
    if let (Some(user_id), Some(emoji)) = (user_id, &conditions.my_reaction_emoji) {
        match parse_presence(emoji) {
            Presence::None => set.add_test(with_award_emoji(kind, user_id, None).test.not()),
            Presence::Any => set.add(with_award_emoji(kind, user_id, None)),
            Presence::Is(name) => set.add(with_award_emoji(kind, user_id, Some(name))),
        }
    }
}

/// Each condition is negated separately, so that a match of any of them excludes the row.
fn exclude(
    kind: IssuableKind,
    scope: ListScope,
    filter: &IssuableFilter,
    user_id: Option<i64>,
    set: &mut ConditionSet,
) {
    let conditions = &filter.exclude;
    if let Some(iids) = &conditions.iids {
        set.add_test(all(kind.column("iid").is_in(iids.iter().copied())).not());
    }
    match parse_labels(&conditions.labels) {
        Presence::None => set.add_test(has_labels(kind)),
        Presence::Any => set.add_test(has_labels(kind).not()),
        Presence::Is(titles) => {
            if !titles.is_empty() {
                let labels = labeled_with_any(kind, scope, &titles, set);
                set.exclude(labels);
            }
        }
    }
    match conditions.milestone.as_deref().map(parse_presence) {
        None => {}
        Some(Presence::None) => set.add_test(is_null(kind.column("milestone_id")).not()),
        Some(Presence::Any) => set.add_test(all(kind.column("milestone_id").is_not_null()).not()),
        Some(Presence::Is(title)) => set.add_test(
            not_null_and(kind, "milestone_id", |column| {
                column.in_subquery(milestones_titled(title))
            })
            .not(),
        ),
    }
    if let Some(id) = conditions.author_id {
        set.add_test(not_null_and(kind, "author_id", |column| column.eq(id)).not());
    }
    if let Some(name) = &conditions.author_username {
        set.add_test(not_null_and(kind, "author_id", |column| column.in_subquery(users_named(name))).not());
    }
    match conditions.assignee_id.as_deref().map(parse_assignee) {
        None => {}
        Some(Presence::None) => set.add_test(has_assignees(kind)),
        Some(Presence::Any) => set.add_test(has_assignees(kind).not()),
        Some(Presence::Is(id)) => set.exclude(assigned_to(kind, assignee_column(kind).eq(id))),
    }
    for name in &conditions.assignee_usernames {
        set.exclude(assigned_to(
            kind,
            assignee_column(kind).in_subquery(users_named(name)),
        ));
    }
    if let (Some(user_id), Some(emoji)) = (user_id, &conditions.my_reaction_emoji) {
        match parse_presence(emoji) {
            Presence::None => set.add_test(with_award_emoji(kind, user_id, None).test),
            Presence::Any => set.exclude(with_award_emoji(kind, user_id, None)),
            Presence::Is(name) => set.exclude(with_award_emoji(kind, user_id, Some(name))),
        }
    }
}

/// Returns a condition on a nullable column that is false, not null, for null.
fn not_null_and(kind: IssuableKind, column: &'static str, condition: impl FnOnce(Expr) -> Expr) -> Condition {
    Condition::all()
        .add(kind.column(column).is_not_null())
        .add(condition(kind.column(column)))
}

/// Parses an assignee. The ID 0 means none.
fn parse_assignee(text: &str) -> Presence<i64> {
    match parse_presence(text) {
        Presence::None => Presence::None,
        Presence::Any => Presence::Any,
        // Validated before, so a parse error is treated as none.
        Presence::Is(text) => match text.parse() {
            Ok(0) | Err(_) => Presence::None,
            Ok(id) => Presence::Is(id),
        },
    }
}

/// Keywords for no label. The form with a plus comes from clients that percent-encode it.
pub(crate) const NO_LABEL: &[&str] = &["none", "no label", "no+label"];

/// Returns the titles of labels, or one of the keywords. The one for none takes precedence.
fn parse_labels(titles: &[String]) -> Presence<Vec<&str>> {
    let titles: Vec<&str> = titles
        .iter()
        .map(|title| title.trim())
        .filter(|title| !title.is_empty())
        .collect();
    let has_keyword = |keywords: &[&str]| {
        titles
            .iter()
            .any(|title| keywords.iter().any(|keyword| title.eq_ignore_ascii_case(keyword)))
    };
    if has_keyword(NO_LABEL) {
        Presence::None
    } else if has_keyword(&["any"]) {
        Presence::Any
    } else {
        Presence::Is(titles)
    }
}
