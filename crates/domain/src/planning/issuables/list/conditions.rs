//! Conditions that issues and merge requests have in common.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, Func, Query, SelectStatement, SubQueryStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, ExprTrait, QueryFilter, QuerySelect, QueryTrait, Select};
use storage::entities::issuables::IssuableKind;
use storage::entities::row_conditions::has_rows;
use storage::entities::selectivity::TARGET_ID;
use storage::entities::{fold, labels, milestones, namespace_ancestors, now, projects, users};

use super::{Conditions, Filter, Place, Presence, Scope, Sieve, Sieves, absent, search};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::InstancePlan;
use crate::kernel::query::at_or_before;

/// Maximum labels that are matched one by one, so that the rarest one can drive the query.
const SEVERAL: usize = 5;

/// Returns the conflicts and invalid values of a filter.
pub(crate) fn faults(backend: &Backend, filter: &Filter) -> Vec<String> {
    let mut faults = Vec::new();
    check(&filter.wanted, "", backend.instance.plan, &mut faults);
    check(&filter.unwanted, "not", backend.instance.plan, &mut faults);
    faults
}

/// Returns the conditions of a valid filter.
///
/// # Errors
/// Returns `Error::Unauthorized` if the filter refers to the caller and no user is signed in.
pub(crate) fn sieves(
    backend: &Backend,
    caller: &Caller,
    kind: IssuableKind,
    place: Place,
    filter: &Filter,
) -> Result<Sieves> {
    let mut sieves = Sieves::new(kind, backend.database.read().get_database_backend());
    match place {
        Place::Everywhere => {}
        Place::Project(id) => sieves.narrow(all(kind.column(kind.project()).eq(id))),
        Place::Group(id) => {
            let inside = in_group(kind, id, &sieves);
            sieves.add(inside);
        }
    }
    if filter.non_archived {
        let live = all(projects::Column::Archived.eq(false));
        sieves.test(all(in_projects(kind, live)));
    }
    match filter.scope {
        None | Some(Scope::All) => {}
        Some(Scope::CreatedByMe) => {
            sieves.narrow(all(kind.column("author_id").eq(caller.signed_in()?.id)));
        }
        Some(Scope::AssignedToMe) => sieves.add(assigned(kind, user(kind).eq(caller.signed_in()?.id))),
    }
    sieves.narrow(own(kind, filter));
    if filter.updated_after.is_some() || filter.updated_before.is_some() {
        let condition = between(kind, "updated_at", filter.updated_after, filter.updated_before);
        sieves.add(Sieve::of_things(kind, condition.clone(), condition));
    }
    // No user has the ID 0, so an anonymous caller has no award emoji.
    let user_id = caller.as_user().map_or(0, |user| user.id);
    wanted(kind, place, &filter.wanted, user_id, &mut sieves);
    unwanted(kind, place, filter, user_id, &mut sieves);
    search::wanted(kind, &filter.wanted, backend, &mut sieves);
    search::unwanted(kind, filter, backend, &mut sieves);
    Ok(sieves)
}

fn all(expr: Expr) -> Condition {
    Condition::all().add(expr)
}

/// Collects conflicts and invalid values.
fn check(conditions: &Conditions, inside: &str, plan: InstancePlan, faults: &mut Vec<String>) {
    let name = |name: &str| match inside {
        "" => name.to_owned(),
        outer => format!("{outer}[{name}]"),
    };
    let mut exclusive = |both: bool, one: &str, other: &str| {
        if both {
            faults.push(format!("{}, {} are mutually exclusive", name(one), name(other)));
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
        faults.push(format!(
            "{} allows one value, but found {}: {}",
            name("assignee_username"),
            names.len(),
            names.join(", ")
        ));
    }
    if let Some(text) = &conditions.assignee_id {
        numbered(text, &name("assignee_id"), "an integer", faults);
    }
}

/// Parses a number or one of the two keywords. Adds a fault otherwise.
pub(crate) fn numbered(
    text: &str,
    name: &str,
    what: &str,
    faults: &mut Vec<String>,
) -> Option<Presence<i64>> {
    let found = match presence(text) {
        Presence::Is(text) => text.parse().ok().map(Presence::Is),
        Presence::None => Some(Presence::None),
        Presence::Any => Some(Presence::Any),
    };
    if found.is_none() {
        faults.push(format!("{name} should be {what}, 'None' or 'Any'"));
    }
    found
}

/// Parses the keywords for none and at least one, case-insensitively.
fn presence(text: &str) -> Presence<&str> {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "none" => Presence::None,
        "any" => Presence::Any,
        _ => Presence::Is(text),
    }
}

/// Returns conditions on the row itself that the indexes of the sort orders cover.
fn own(kind: IssuableKind, filter: &Filter) -> Condition {
    Condition::all()
        .add_option(filter.milestone_id.map(|id| kind.column("milestone_id").eq(id)))
        .add_option(filter.wanted.author_id.map(|id| kind.column("author_id").eq(id)))
        .add(between(
            kind,
            "created_at",
            filter.created_after,
            filter.created_before,
        ))
}

fn between(
    kind: IssuableKind,
    column: &'static str,
    after: Option<DateTime<Utc>>,
    before: Option<DateTime<Utc>>,
) -> Condition {
    Condition::all()
        .add_option(after.map(|time| kind.column(column).gte(time)))
        .add_option(before.map(|time| at_or_before(kind.column(column), time)))
}

/// Matches issuables in the projects of a group and its subgroups.
fn in_group(kind: IssuableKind, group_id: i64, sieves: &Sieves) -> Sieve {
    let of_group = projects_of(group_id).into_query();
    Sieve::of_things(
        kind,
        all(sieves.one_of(kind.column(kind.project()), of_group)),
        all(in_projects(kind, inside(group_id))),
    )
}

/// Returns the query for the IDs of the projects of a group and its subgroups.
fn projects_of(group_id: i64) -> Select<projects::Entity> {
    projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(inside(group_id))
}

/// Matches projects of a group and its subgroups.
fn inside(group_id: i64) -> Condition {
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
fn user(kind: IssuableKind) -> Expr {
    Expr::col((kind.assignees(), "user_id"))
}

fn assigned(kind: IssuableKind, condition: Expr) -> Sieve {
    Sieve::rows(kind, kind.assignees(), all(condition))
}

fn assigned_at_all(kind: IssuableKind) -> Condition {
    Sieve::rows(kind, kind.assignees(), Condition::all()).test
}

/// Matches labels with these titles that are available at a place: those of its projects and of the groups
/// around them.
fn titled(place: Place, titles: &[&str]) -> Condition {
    use labels::Column::{NamespaceId, ProjectId, Title};

    let all = Condition::all().add(Title.is_in(titles.iter().copied()));
    let within = match place {
        Place::Everywhere => return all,
        Place::Group(id) => Condition::any()
            .add(ProjectId.in_subquery(projects_of(id).into_query()))
            .add(NamespaceId.in_subquery(namespace_ancestors::at_or_below(id)))
            .add(NamespaceId.in_subquery(namespace_ancestors::at_or_above(id))),
        Place::Project(id) => Condition::any()
            .add(ProjectId.eq(id))
            .add(NamespaceId.in_subquery(namespace_ancestors::around_project(id))),
    };
    all.add(within)
}

fn labelled_with_any(kind: IssuableKind, place: Place, titles: &[&str], sieves: &Sieves) -> Sieve {
    let label = Expr::col((kind.labels(), "label_id"));
    let ids = |place| {
        labels::Entity::find()
            .select_only()
            .column(labels::Column::Id)
            .filter(titled(place, titles))
            .into_query()
    };
    let looked_up = sieves.one_of(label.clone(), ids(place));
    // For a row that is checked, the title is sufficient.
    let tried = label.in_subquery(ids(Place::Everywhere));
    Sieve {
        ids: Sieve::rows(kind, kind.labels(), all(looked_up)).ids,
        ..Sieve::rows(kind, kind.labels(), all(tried))
    }
}

/// Matches issuables with all of many labels, by counting: one condition, and one statement that finds it.
fn labelled_with_all(kind: IssuableKind, place: Place, mut titles: Vec<&str>) -> Sieve {
    titles.sort_unstable();
    titles.dedup();
    let several = i64::try_from(titles.len()).unwrap_or(i64::MAX);
    let thing = || Expr::col((kind.labels(), kind.key()));
    let carried = Query::select()
        .from(kind.labels())
        .inner_join(
            labels::Entity,
            Expr::col((labels::Entity, labels::Column::Id)).eq(Expr::col((kind.labels(), "label_id"))),
        )
        .cond_where(titled(place, &titles))
        .take();
    // Labels of a project and of a group may have the same title.
    let count = Expr::from(Func::count_distinct(Expr::col((
        labels::Entity,
        labels::Column::Title,
    ))));
    let ids = carried
        .clone()
        .expr_as(thing(), TARGET_ID)
        .add_group_by([thing()])
        .and_having(count.clone().eq(several))
        .take();
    let row = carried
        .clone()
        .expr(count)
        .and_where(thing().eq(kind.column("id")))
        .take();
    let test = Expr::from(SubQueryStatement::from(row)).eq(several);
    Sieve {
        ids,
        test: all(test),
        own: None,
    }
}

fn labelled_at_all(kind: IssuableKind) -> Condition {
    Sieve::rows(kind, kind.labels(), Condition::all()).test
}

fn milestones_titled(title: &str) -> SelectStatement {
    let of = milestones::Entity::find()
        .select_only()
        .column(milestones::Column::Id);
    let today = now().date_naive();
    use milestones::Column as Milestone;
    let named = match title {
        // Active milestones that are due in the future.
        "#upcoming" => of
            .filter(Milestone::State.eq(milestones::MilestoneState::Active))
            .filter(Milestone::DueDate.gt(today)),
        "#started" => of
            .filter(Milestone::State.eq(milestones::MilestoneState::Active))
            .filter(Milestone::StartDate.lte(today))
            .filter(
                Condition::any()
                    .add(Milestone::DueDate.is_null())
                    .add(Milestone::DueDate.gte(today)),
            ),
        title => of.filter(Milestone::Title.eq(title)),
    };
    named.into_query()
}

fn users_named(name: &str) -> SelectStatement {
    users::Entity::find()
        .select_only()
        .column(users::Column::Id)
        .filter(users::Column::UsernameKey.eq(fold(name)))
        .into_query()
}

/// Matches issuables with an award emoji of a user.
fn reacted(kind: IssuableKind, user_id: i64, name: Option<&str>) -> Sieve {
    const AWARDS: &str = "award_emoji";
    let condition = Condition::all()
        .add(Expr::col((AWARDS, "user_id")).eq(user_id))
        .add(Expr::col((AWARDS, kind.key())).is_not_null())
        .add_option(name.map(|name| Expr::col((AWARDS, "name")).eq(name)));
    Sieve::rows(kind, AWARDS, condition)
}

fn wanted(kind: IssuableKind, place: Place, conditions: &Conditions, user_id: i64, sieves: &mut Sieves) {
    if let Some(iids) = &conditions.iids {
        sieves.add(Sieve::of_number(kind, "iid", |column| {
            column.is_in(iids.iter().copied())
        }));
    }
    match labels_of(&conditions.labels) {
        Presence::None => sieves.test(labelled_at_all(kind).not()),
        Presence::Any => sieves.test(labelled_at_all(kind)),
        Presence::Is(titles) if titles.len() > SEVERAL => sieves.add(labelled_with_all(kind, place, titles)),
        Presence::Is(titles) => {
            for title in titles {
                let label = labelled_with_any(kind, place, &[title], sieves);
                sieves.add(label);
            }
        }
    }
    match conditions.milestone.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => sieves.test(absent(kind.column("milestone_id"))),
        Some(Presence::Any) => sieves.test(all(kind.column("milestone_id").is_not_null())),
        Some(Presence::Is(title)) => sieves.add_one_of("milestone_id", milestones_titled(title)),
    }
    if let Some(name) = &conditions.author_username {
        sieves.add_one_of("author_id", users_named(name));
    }
    match conditions.assignee_id.as_deref().map(assignee) {
        None => {}
        Some(Presence::None) => sieves.test(assigned_at_all(kind).not()),
        Some(Presence::Any) => sieves.test(assigned_at_all(kind)),
        Some(Presence::Is(id)) => sieves.add(assigned(kind, user(kind).eq(id))),
    }
    for name in &conditions.assignee_usernames {
        sieves.add(assigned(kind, user(kind).in_subquery(users_named(name))));
    }
    match conditions.my_reaction_emoji.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => sieves.test(reacted(kind, user_id, None).test.not()),
        Some(Presence::Any) => sieves.add(reacted(kind, user_id, None)),
        Some(Presence::Is(name)) => sieves.add(reacted(kind, user_id, Some(name))),
    }
}

/// Each condition is negated separately, so that a match of any of them excludes the row.
fn unwanted(kind: IssuableKind, place: Place, filter: &Filter, user_id: i64, sieves: &mut Sieves) {
    let conditions = &filter.unwanted;
    if let Some(iids) = &conditions.iids {
        sieves.test(all(kind.column("iid").is_in(iids.iter().copied())).not());
    }
    match labels_of(&conditions.labels) {
        Presence::None => sieves.test(labelled_at_all(kind)),
        Presence::Any => sieves.test(labelled_at_all(kind).not()),
        Presence::Is(titles) => {
            if !titles.is_empty() {
                let labels = labelled_with_any(kind, place, &titles, sieves);
                sieves.leave_out(labels);
            }
        }
    }
    match conditions.milestone.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => sieves.test(absent(kind.column("milestone_id")).not()),
        Some(Presence::Any) => sieves.test(all(kind.column("milestone_id").is_not_null()).not()),
        Some(Presence::Is(title)) => sieves.test(
            known(kind, "milestone_id", |column| {
                column.in_subquery(milestones_titled(title))
            })
            .not(),
        ),
    }
    if let Some(id) = conditions.author_id {
        sieves.test(known(kind, "author_id", |column| column.eq(id)).not());
    }
    if let Some(name) = &conditions.author_username {
        sieves.test(known(kind, "author_id", |column| column.in_subquery(users_named(name))).not());
    }
    match conditions.assignee_id.as_deref().map(assignee) {
        None => {}
        Some(Presence::None) => sieves.test(assigned_at_all(kind)),
        Some(Presence::Any) => sieves.test(assigned_at_all(kind).not()),
        Some(Presence::Is(id)) => sieves.leave_out(assigned(kind, user(kind).eq(id))),
    }
    for name in &conditions.assignee_usernames {
        sieves.leave_out(assigned(kind, user(kind).in_subquery(users_named(name))));
    }
    match conditions.my_reaction_emoji.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => sieves.test(reacted(kind, user_id, None).test),
        Some(Presence::Any) => sieves.leave_out(reacted(kind, user_id, None)),
        Some(Presence::Is(name)) => sieves.leave_out(reacted(kind, user_id, Some(name))),
    }
}

/// Returns a condition on a nullable column that is false, not null, for null.
fn known(kind: IssuableKind, column: &'static str, condition: impl FnOnce(Expr) -> Expr) -> Condition {
    Condition::all()
        .add(kind.column(column).is_not_null())
        .add(condition(kind.column(column)))
}

/// Parses an assignee. The ID 0 means none.
fn assignee(text: &str) -> Presence<i64> {
    match presence(text) {
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
fn labels_of(titles: &[String]) -> Presence<Vec<&str>> {
    let titles: Vec<&str> = titles
        .iter()
        .map(|title| title.trim())
        .filter(|title| !title.is_empty())
        .collect();
    let has = |words: &[&str]| {
        titles
            .iter()
            .any(|title| words.iter().any(|word| title.eq_ignore_ascii_case(word)))
    };
    if has(NO_LABEL) {
        Presence::None
    } else if has(&["any"]) {
        Presence::Any
    } else {
        Presence::Is(titles)
    }
}
