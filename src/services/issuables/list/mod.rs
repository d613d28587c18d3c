//! Lists of issues and of merge requests: what is wanted, in which order, one page of it (specification 4.4).

mod conditions;
mod search;
mod sieve;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{NullOrdering, Query, SelectStatement};
use sea_orm::{Condition, ConnectionTrait, EntityTrait, ExprTrait, QueryFilter, QueryTrait};

pub(in crate::services) use conditions::{NO_LABEL, faults, numbered, sieves};
pub(in crate::services) use sieve::{Sieve, Sieves, absent};

use crate::api::types::{Page, PageRequest};
use crate::entities::issuables::Kind;
use crate::error::Result;
use crate::services::listing::total_of;

/// What issues and merge requests have to do with the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Anything.
    All,
    /// The caller made them.
    CreatedByMe,
    /// They are assigned to the caller.
    AssignedToMe,
}

/// Where they are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Everywhere.
    Everywhere,
    /// In the projects of a group and of all groups below.
    Group(i64),
    /// In a project.
    Project(i64),
}

/// None at all, at least one, or a particular one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence<T> {
    /// None.
    None,
    /// At least one.
    Any,
    /// This one.
    Is(T),
}

/// Conditions that can also be turned round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Labels, by title.
    pub labels: Vec<String>,
    /// The milestone, by title.
    pub milestone: Option<String>,
    /// Who made it.
    pub author_id: Option<i64>,
    /// Who made it, by name.
    pub author_username: Option<String>,
    /// To whom it is assigned.
    pub assignee_id: Option<String>,
    /// To whom it is assigned, by name.
    pub assignee_usernames: Vec<String>,
    /// What the caller awarded it.
    pub my_reaction_emoji: Option<String>,
    /// Numbers within projects.
    pub iids: Option<Vec<i64>>,
    /// Words in it.
    pub search: Option<String>,
    /// Where these are looked for.
    pub fields: Option<Vec<String>>,
}

/// What lists of both are asked; all conditions hold together. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub scope: Option<Scope>,
    pub wanted: Conditions,
    pub unwanted: Conditions,
    pub created_after: Option<DateTime<Utc>>,
    pub created_before: Option<DateTime<Utc>>,
    pub updated_after: Option<DateTime<Utc>>,
    pub updated_before: Option<DateTime<Utc>>,
    /// Leaves out those of archived projects.
    pub non_archived: bool,
    /// Only those of this milestone.
    pub milestone_id: Option<i64>,
    pub ascending: bool,
}

/// The order of a list: what has no value comes last either way, and of equals the newer first.
#[derive(Debug, Clone, Copy)]
pub(in crate::services) struct Ordering {
    /// The columns.
    pub columns: &'static [&'static str],
    /// They may be null.
    pub nullable: bool,
    /// From the lowest to the highest.
    pub ascending: bool,
}

impl Ordering {
    fn apply(self, kind: Kind, rows: &mut SelectStatement) {
        let direction = match self.ascending {
            true => sea_orm::Order::Asc,
            false => sea_orm::Order::Desc,
        };
        for column in self.columns {
            let column = kind.column(column);
            match self.nullable {
                true => rows.order_by_expr_with_nulls(column, direction.clone(), NullOrdering::Last),
                false => rows.order_by_expr(column, direction.clone()),
            };
        }
        rows.order_by_expr(kind.column("id"), sea_orm::Order::Desc);
    }
}

/// One page of what the sieves let through of what the caller may see. `E` is the table of the kind.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn page_of<E: EntityTrait>(
    db: &impl ConnectionTrait,
    kind: Kind,
    visible: Condition,
    mut sieves: Sieves,
    order: Ordering,
    page: &PageRequest,
) -> Result<Page<E::Model>> {
    sieves.look(db).await?;
    if sieves.let_nothing_through() {
        return Ok(Page::new(page, Vec::new(), 0));
    }
    let ids = |condition: Condition| {
        Query::select()
            .expr(kind.column("id"))
            .from(kind.table())
            .cond_where(condition)
            .take()
    };
    let mut wanted = ids(sieves.in_order(visible.clone()));
    order.apply(kind, &mut wanted);
    wanted.offset(page.offset()).limit(page.limit() + 1);
    let mut rows = E::find().filter(kind.column("id").in_subquery(wanted));
    order.apply(kind, QueryTrait::query(&mut rows));
    let found = rows.all(db).await?;
    let total = total_of(db, page, found.len(), ids(sieves.counted(visible))).await?;
    Ok(Page::new(page, found, total))
}
