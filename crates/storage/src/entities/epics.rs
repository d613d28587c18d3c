//! Epics of groups, with issues of the projects below the group.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{Condition, DbBackend, QuerySelect};

use super::access::{self, Viewer};
use super::issues::IssueState;
use super::related_rows::RelatedPart;
use super::{AccessLevel, fold, namespaces};

/// Epics of groups, with issues of the projects below the group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "epics")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group.
    pub namespace_id: i64,
    /// The IID within the group.
    pub iid: i64,
    /// The parent epic, of the same group or an ancestor.
    pub parent_id: Option<i64>,
    /// The creator; none if the user was deleted.
    pub author_id: Option<i64>,
    /// The title.
    pub title: String,
    /// The folded value.
    pub title_key: String,
    /// The description.
    pub description: Option<String>,
    /// The folded value.
    pub description_key: Option<String>,
    /// The state.
    pub state: IssueState,
    /// Whether only its author and members from Reporter on can see it.
    pub confidential: bool,
    /// The start date.
    pub start_date: Option<NaiveDate>,
    /// The due date.
    pub due_date: Option<NaiveDate>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// The user who closed it; none if deleted.
    pub closed_by_id: Option<i64>,
    /// Number of `thumbsup` awards.
    pub upvotes: i32,
    /// Number of `thumbsdown` awards.
    pub downvotes: i32,
    /// Number of notes by users.
    pub user_notes_count: i32,
    /// When the title or description was last changed.
    pub last_edited_at: Option<DateTime<Utc>>,
    /// The user who changed them.
    pub last_edited_by_id: Option<i64>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The group.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::NamespaceId",
        to = "super::namespaces::Column::Id"
    )]
    Group,
}

impl Related<namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Group.def()
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Updates the folded texts when the texts change.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(title) = &self.title {
            self.title_key = Set(fold(title));
        }
        if let Set(description) = &self.description {
            self.description_key = Set(description.as_deref().map(fold));
        }
        Ok(self)
    }
}

/// Locks an epic until the transaction ends; returns none if it does not exist.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(db).await
}

/// Returns a condition on `epics`, evaluated for each row, for visible epics. These are epics of visible
/// groups; confidential ones are visible to authors and members from Reporter on.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let all = Condition::all().add(in_groups(access::visible_groups(viewer, today)));
    let open = Column::Confidential.eq(false);
    match viewer {
        Viewer::Admin => all,
        Viewer::Anonymous => all.add(open),
        Viewer::User { id, .. } => all.add(Condition::any().add(open).add(Column::AuthorId.eq(id)).add(
            in_groups(access::groups_with_level(id, AccessLevel::Reporter, today)),
        )),
    }
}

/// Returns a condition for epics whose group meets a condition on `namespaces`, evaluated for each row.
pub(super) fn in_groups(condition: Condition) -> Expr {
    let group = Query::select()
        .expr(Expr::val(1))
        .from(namespaces::Entity)
        .and_where(
            Expr::col((namespaces::Entity, namespaces::Column::Id))
                .eq(Expr::col((Entity, Column::NamespaceId))),
        )
        .cond_where(condition)
        .take();
    Expr::exists(group)
}

/// Returns a part with a row for each of these epics that is visible to the viewer; none without IDs.
#[must_use]
pub fn visible_part(
    database: DbBackend,
    viewer: Viewer,
    today: NaiveDate,
    ids: &[i64],
) -> Option<RelatedPart> {
    let rows = Query::select()
        .from(Entity)
        .cond_where(visible(viewer, today))
        .take();
    RelatedPart::of_owners(database, rows, Column::Id.into_expr(), ids)
}
