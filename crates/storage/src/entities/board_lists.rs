//! Lists of boards. Each has exactly one label, milestone or assignee.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Func, Query};
use sea_orm::{DbBackend, QueryOrder};

use super::related_rows::{RelatedPart, RelatedRow, bigint, null};

/// Lists of boards. Each has exactly one label, milestone or assignee.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "board_lists")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The board.
    pub board_id: i64,
    /// The label, if the list has one.
    pub label_id: Option<i64>,
    /// The milestone, if the list has one.
    pub milestone_id: Option<i64>,
    /// The assignee, if the list has one.
    pub assignee_id: Option<i64>,
    /// The position among the lists; there may be gaps, because labels, milestones or users were deleted.
    pub position: i32,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The label.
    #[sea_orm(
        belongs_to = "super::labels::Entity",
        from = "Column::LabelId",
        to = "super::labels::Column::Id"
    )]
    Label,
}

impl Related<super::labels::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Label.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Label, milestone or assignee of the issues on a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSubject {
    /// The label with this ID.
    Label(i64),
    /// The milestone with this ID.
    Milestone(i64),
    /// The user with this ID.
    Assignee(i64),
}

impl Model {
    /// Returns the label, milestone or assignee; none if it was deleted.
    #[must_use]
    pub fn subject(&self) -> Option<ListSubject> {
        let label = self.label_id.map(ListSubject::Label);
        let milestone = self.milestone_id.map(ListSubject::Milestone);
        label
            .or(milestone)
            .or(self.assignee_id.map(ListSubject::Assignee))
    }
}

/// Selects the lists of several boards, in their order on each.
pub fn of(board_ids: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::BoardId.is_in(board_ids))
        .order_by_asc(Column::Position)
        .order_by_asc(Column::Id)
}

/// Returns a part with the lists of boards, in their order on each, for [`read_subject`]; none without IDs.
#[must_use]
pub fn part(database: DbBackend, board_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select().from(Entity).take();
    let part = RelatedPart::of_owners(database, rows, Column::BoardId.into_expr(), board_ids)?;
    let kind = |name: &str| Expr::Constant(name.into());
    let kind = Expr::case(Column::LabelId.is_not_null(), kind(LABEL))
        .case(Column::MilestoneId.is_not_null(), kind(MILESTONE))
        .finally(kind(ASSIGNEE));
    let subjects = [Column::LabelId, Column::MilestoneId, Column::AssigneeId];
    let subject = Func::coalesce(subjects.map(ColumnTrait::into_expr));
    let part = part
        .sorted_by(bigint(Column::Position.into_expr()))
        .with_id(Column::Id.into_expr())
        .with_number(subject.into());
    // Rows are also sorted by the first text.
    Some(part.with_texts([null("text"), kind.into()]))
}

const LABEL: &str = "label";
const MILESTONE: &str = "milestone";
const ASSIGNEE: &str = "assignee";

/// Reads the subject of a list from a row of [`part`]; none if it was deleted.
#[must_use]
pub fn read_subject(row: &RelatedRow) -> Option<ListSubject> {
    let id = row.number?;
    match row.texts[1].as_deref()? {
        LABEL => Some(ListSubject::Label(id)),
        MILESTONE => Some(ListSubject::Milestone(id)),
        _ => Some(ListSubject::Assignee(id)),
    }
}
