//! Lists of issues: what is wanted, in which order, one page of it (specification 4.4).

mod conditions;
mod search;

use chrono::{DateTime, Utc};
use sea_orm::sea_query::NullOrdering;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select};

use super::row::{Row, decorate};
use crate::api::types::{Page, PageRequest};
use crate::entities::issues::{self, Column, Entity};
use crate::entities::now;
use crate::error::Result;
use crate::services::Backend;
use crate::services::authentication::Caller;
use crate::services::listing::total_of;

/// What issues are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// When they were made.
    #[default]
    CreatedAt,
    /// When they were changed.
    UpdatedAt,
    /// The day the milestone is due, and then the rank of the labels.
    Priority,
    /// The day they are due.
    DueDate,
    /// Where they stand on boards; only going up.
    RelativePosition,
    /// The rank of the labels.
    LabelPriority,
    /// The day the milestone is due.
    MilestoneDue,
    /// How many users awarded `thumbsup`.
    Popularity,
    /// How much they weigh.
    Weight,
}

/// What issues have to do with the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Anything.
    All,
    /// The caller made them.
    CreatedByMe,
    /// They are assigned to the caller.
    AssignedToMe,
}

/// Where issues are looked for.
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

/// Which issues are wanted; all conditions hold together. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<issues::State>,
    pub scope: Option<Scope>,
    pub wanted: Conditions,
    pub unwanted: Conditions,
    pub weight: Option<String>,
    pub created_after: Option<DateTime<Utc>>,
    pub created_before: Option<DateTime<Utc>>,
    pub updated_after: Option<DateTime<Utc>>,
    pub updated_before: Option<DateTime<Utc>>,
    pub confidential: Option<bool>,
    /// Leaves out those of archived projects.
    pub non_archived: bool,
    /// Only those of this milestone.
    pub milestone_id: Option<i64>,
    pub order: Order,
    pub ascending: bool,
}

/// One page of issues.
///
/// # Errors
/// 400 for conditions that exclude each other or do not do.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    place: Place,
    filter: &Filter,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let db = backend.database.read();
    let mut sieves = conditions::of(backend, caller, place, filter)?;
    sieves.look(db).await?;
    let visible = issues::visible(caller.viewer(), now().date_naive());
    let ids = || Entity::find().select_only().column(Column::Id);
    let wanted = ids().filter(visible.clone()).filter(sieves.in_order());
    let wanted = filter
        .ordered(wanted)
        .offset(page.offset())
        .limit(page.limit() + 1);
    let rows = Entity::find().filter(Column::Id.in_subquery(wanted.into_query()));
    let found = filter.ordered(rows).all(db).await?;
    let all = ids().filter(visible).filter(sieves.counted());
    let total = total_of(db, page, found.len(), all.into_query()).await?;
    let page = Page::new(page, found, total);
    Ok(Page {
        items: decorate(db, page.items).await?,
        rest: page.rest,
    })
}

impl Filter {
    /// In their order: what has no value comes last either way, and of equals the newer first.
    fn ordered(&self, rows: Select<Entity>) -> Select<Entity> {
        let columns: &[Column] = match self.order {
            Order::CreatedAt => return self.by_time(rows, Column::CreatedAt),
            Order::UpdatedAt => return self.by_time(rows, Column::UpdatedAt),
            // A position means something only from the first to the last.
            Order::RelativePosition if !self.ascending => &[],
            Order::RelativePosition => &[Column::RelativePosition],
            Order::Priority => &[Column::MilestoneDueOn, Column::LabelPriority],
            Order::DueDate => &[Column::DueDate],
            Order::LabelPriority => &[Column::LabelPriority],
            Order::MilestoneDue => &[Column::MilestoneDueOn],
            Order::Popularity => &[Column::Upvotes],
            Order::Weight => &[Column::Weight],
        };
        let rows = columns.iter().fold(rows, |rows, column| {
            rows.order_by_with_nulls(*column, self.direction(), NullOrdering::Last)
        });
        rows.order_by_desc(Column::Id)
    }

    fn by_time(&self, rows: Select<Entity>, column: Column) -> Select<Entity> {
        rows.order_by(column, self.direction()).order_by_desc(Column::Id)
    }

    fn direction(&self) -> sea_orm::Order {
        match self.ascending {
            true => sea_orm::Order::Asc,
            false => sea_orm::Order::Desc,
        }
    }
}
