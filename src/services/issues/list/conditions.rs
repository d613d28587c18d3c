//! What is asked of issues, as conditions.

use sea_orm::sea_query::{Expr, SelectStatement};
use sea_orm::{ColumnTrait, Condition, EntityTrait, ExprTrait, QueryFilter, QuerySelect, QueryTrait};

use super::{Conditions, Filter, Place, Presence, Scope, search};
use crate::entities::issues::{self, Column};
use crate::entities::{
    award_emoji, fold, issue_assignees, issue_labels, labels, milestones, namespace_ancestors, now, projects,
    users,
};
use crate::error::{Error, Result};
use crate::policy::Tier;
use crate::services::Backend;
use crate::services::authentication::Caller;
use crate::services::issues::sieve::{Sieve, Sieves};

/// Everything that a filter asks for.
///
/// # Errors
/// 400 for conditions that exclude each other or do not do.
pub(super) fn of(backend: &Backend, caller: &Caller, place: Place, filter: &Filter) -> Result<Sieves> {
    let mut faults = Vec::new();
    check(&filter.wanted, "", backend.instance.plan, &mut faults);
    check(&filter.unwanted, "not", backend.instance.plan, &mut faults);
    let weight = filter
        .weight
        .as_deref()
        .filter(|_| backend.instance.plan >= Tier::Starter);
    let weight = weight.and_then(|text| numbered(text, "weight", "an integer", &mut faults));
    if !faults.is_empty() {
        return Err(Error::InvalidParameters(faults));
    }
    let user_id = caller.signed_in()?.id;
    let mut sieves = Sieves::new();
    match place {
        Place::Everywhere => {}
        Place::Project(id) => sieves.test(all(Column::ProjectId.eq(id))),
        Place::Group(id) => sieves.add(in_group(id)),
    }
    if filter.non_archived {
        sieves.test(all(issues::in_projects(
            all(projects::Column::Archived.eq(false)),
        )));
    }
    match filter.scope {
        None | Some(Scope::All) => {}
        Some(Scope::CreatedByMe) => sieves.test(all(Column::AuthorId.eq(user_id))),
        Some(Scope::AssignedToMe) => sieves.add(assigned(all(issue_assignees::Column::UserId.eq(user_id)))),
    }
    sieves.test(own(filter));
    if let Some(confidential) = filter.confidential {
        let condition = all(Column::Confidential.eq(confidential));
        sieves.add(Sieve::of_issues(condition.clone(), condition));
    }
    if filter.updated_after.is_some() || filter.updated_before.is_some() {
        let condition = between(Column::UpdatedAt, filter.updated_after, filter.updated_before);
        sieves.add(Sieve::of_issues(condition.clone(), condition));
    }
    match weight {
        None => {}
        Some(Presence::None) => sieves.test(all(Column::Weight.is_null())),
        Some(Presence::Any) => sieves.add(Sieve::of_column(Column::Weight, |column| column.is_not_null())),
        Some(Presence::Is(weight)) => {
            sieves.add(Sieve::of_column(Column::Weight, move |column| column.eq(weight)));
        }
    }
    wanted(&filter.wanted, user_id, &mut sieves);
    unwanted(filter, user_id, &mut sieves);
    search::wanted(&filter.wanted, backend, &mut sieves);
    search::unwanted(filter, backend, &mut sieves);
    Ok(sieves)
}

fn all(expr: Expr) -> Condition {
    Condition::all().add(expr)
}

/// What excludes each other, and what does not do.
fn check(conditions: &Conditions, inside: &str, plan: Tier, faults: &mut Vec<String>) {
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
    if plan == Tier::Free && names.len() > 1 {
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

/// A number, or one of the two words; a fault otherwise.
fn numbered(text: &str, name: &str, what: &str, faults: &mut Vec<String>) -> Option<Presence<i64>> {
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

/// The words that stand for none and at least one, in any case.
fn presence(text: &str) -> Presence<&str> {
    let text = text.trim();
    match text.to_ascii_lowercase().as_str() {
        "none" => Presence::None,
        "any" => Presence::Any,
        _ => Presence::Is(text),
    }
}

/// What the row of the issue says, of which indexes of the orders know.
fn own(filter: &Filter) -> Condition {
    Condition::all()
        .add_option(filter.state.map(|state| Column::State.eq(state)))
        .add_option(filter.milestone_id.map(|id| Column::MilestoneId.eq(id)))
        .add_option(filter.wanted.author_id.map(|id| Column::AuthorId.eq(id)))
        .add(between(
            Column::CreatedAt,
            filter.created_after,
            filter.created_before,
        ))
}

fn between<T: Into<sea_orm::Value>>(column: Column, after: Option<T>, before: Option<T>) -> Condition {
    Condition::all()
        .add_option(after.map(|time| column.gte(time)))
        .add_option(before.map(|time| column.lte(time)))
}

/// Those of the projects of a group and of all groups below.
fn in_group(group_id: i64) -> Sieve {
    let inside = all(projects::Column::NamespaceId.in_subquery(namespace_ancestors::at_or_below(group_id)));
    let of_group = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(inside.clone())
        .into_query();
    Sieve::of_issues(
        all(Column::ProjectId.in_subquery(of_group)),
        all(issues::in_projects(inside)),
    )
}

fn assigned(condition: Condition) -> Sieve {
    Sieve::rows("issue_assignees", "issue_id", condition)
}

fn labelled(condition: Condition) -> Sieve {
    Sieve::rows("issue_labels", "issue_id", condition)
}

fn titled(title: &str) -> Condition {
    let ids = labels::Entity::find()
        .select_only()
        .column(labels::Column::Id)
        .filter(labels::Column::Title.eq(title))
        .into_query();
    all(issue_labels::Column::LabelId.in_subquery(ids))
}

fn milestones_titled(title: &str) -> SelectStatement {
    let of = milestones::Entity::find()
        .select_only()
        .column(milestones::Column::Id);
    let today = now().date_naive();
    use milestones::Column as Milestone;
    let named = match title {
        // Those that are due next, of those that are worked on.
        "#upcoming" => of
            .filter(Milestone::State.eq(milestones::State::Active))
            .filter(Milestone::DueDate.gt(today)),
        "#started" => of
            .filter(Milestone::State.eq(milestones::State::Active))
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

/// The emoji that a user awarded.
fn reacted(user_id: i64, name: Option<&str>) -> Sieve {
    let condition = Condition::all()
        .add(award_emoji::Column::UserId.eq(user_id))
        .add(award_emoji::Column::IssueId.is_not_null())
        .add_option(name.map(|name| award_emoji::Column::Name.eq(name)));
    Sieve::rows("award_emoji", "issue_id", condition)
}

fn anything() -> Condition {
    Condition::all()
}

fn wanted(conditions: &Conditions, user_id: i64, sieves: &mut Sieves) {
    if let Some(iids) = &conditions.iids {
        let iids = iids.clone();
        sieves.add(Sieve::of_column(Column::Iid, move |column| {
            column.is_in(iids.clone())
        }));
    }
    match labels_of(&conditions.labels) {
        Presence::None => sieves.test(labelled(anything()).test.not()),
        Presence::Any => sieves.test(labelled(anything()).test),
        Presence::Is(titles) => {
            for title in titles {
                sieves.add(labelled(titled(title)));
            }
        }
    }
    match conditions.milestone.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => sieves.test(all(Column::MilestoneId.is_null())),
        Some(Presence::Any) => sieves.test(all(Column::MilestoneId.is_not_null())),
        Some(Presence::Is(title)) => sieves.add(Sieve::of_column(Column::MilestoneId, |column| {
            column.in_subquery(milestones_titled(title))
        })),
    }
    if let Some(name) = &conditions.author_username {
        sieves.add(Sieve::of_column(Column::AuthorId, |column| {
            column.in_subquery(users_named(name))
        }));
    }
    match conditions.assignee_id.as_deref().map(assignee) {
        None => {}
        Some(Presence::None) => sieves.test(assigned(anything()).test.not()),
        Some(Presence::Any) => sieves.test(assigned(anything()).test),
        Some(Presence::Is(id)) => sieves.add(assigned(all(issue_assignees::Column::UserId.eq(id)))),
    }
    for name in &conditions.assignee_usernames {
        let named = issue_assignees::Column::UserId.in_subquery(users_named(name));
        sieves.add(assigned(all(named)));
    }
    match conditions.my_reaction_emoji.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => sieves.test(reacted(user_id, None).test.not()),
        Some(Presence::Any) => sieves.add(reacted(user_id, None)),
        Some(Presence::Is(name)) => sieves.add(reacted(user_id, Some(name))),
    }
}

/// Each is turned round by itself, so that what any of them finds is left out.
fn unwanted(filter: &Filter, user_id: i64, sieves: &mut Sieves) {
    let conditions = &filter.unwanted;
    let mut without = |condition: Condition| sieves.test(condition.not());
    if let Some(iids) = &conditions.iids {
        without(all(Column::Iid.is_in(iids.iter().copied())));
    }
    match labels_of(&conditions.labels) {
        Presence::None => without(labelled(anything()).test.not()),
        Presence::Any => without(labelled(anything()).test),
        Presence::Is(titles) => {
            for title in titles {
                without(labelled(titled(title)).test);
            }
        }
    }
    match conditions.milestone.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => without(all(Column::MilestoneId.is_null())),
        Some(Presence::Any) => without(all(Column::MilestoneId.is_not_null())),
        Some(Presence::Is(title)) => without(known(Column::MilestoneId, milestones_titled(title))),
    }
    if let Some(id) = conditions.author_id {
        without(
            Condition::all()
                .add(Column::AuthorId.is_not_null())
                .add(Column::AuthorId.eq(id)),
        );
    }
    if let Some(name) = &conditions.author_username {
        without(known(Column::AuthorId, users_named(name)));
    }
    match conditions.assignee_id.as_deref().map(assignee) {
        None => {}
        Some(Presence::None) => without(assigned(anything()).test.not()),
        Some(Presence::Any) => without(assigned(anything()).test),
        Some(Presence::Is(id)) => without(assigned(all(issue_assignees::Column::UserId.eq(id))).test),
    }
    for name in &conditions.assignee_usernames {
        let named = issue_assignees::Column::UserId.in_subquery(users_named(name));
        without(assigned(all(named)).test);
    }
    match conditions.my_reaction_emoji.as_deref().map(presence) {
        None => {}
        Some(Presence::None) => without(reacted(user_id, None).test.not()),
        Some(Presence::Any) => without(reacted(user_id, None).test),
        Some(Presence::Is(name)) => without(reacted(user_id, Some(name)).test),
    }
}

/// That a column that may be null is one of these: what is null is not, and that is known.
fn known(column: Column, ids: SelectStatement) -> Condition {
    Condition::all()
        .add(column.is_not_null())
        .add(column.in_subquery(ids))
}

/// Whom issues are assigned to; the user 0 is nobody.
fn assignee(text: &str) -> Presence<i64> {
    match presence(text) {
        Presence::None => Presence::None,
        Presence::Any => Presence::Any,
        // Whether it is a number was looked at before.
        Presence::Is(text) => match text.parse() {
            Ok(0) | Err(_) => Presence::None,
            Ok(id) => Presence::Is(id),
        },
    }
}

/// The titles of labels, or one of the words: that for none prevails.
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
    if has(&["none", "no label"]) {
        Presence::None
    } else if has(&["any"]) {
        Presence::Any
    } else {
        Presence::Is(titles)
    }
}
