//! Epics of groups, which gather issues of the projects below.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::ActiveValue::Set;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{Condition, QuerySelect};

use super::access::{self, Viewer};
use super::issues::State;
use super::{AccessLevel, fold, namespaces};

/// Epics of groups, which gather issues of the projects below.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "epics")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group.
    pub namespace_id: i64,
    /// The number within the group.
    pub iid: i64,
    /// The epic that it is a part of, of the same group or one above.
    pub parent_id: Option<i64>,
    /// Who made it; none when the user is gone.
    pub author_id: Option<i64>,
    /// What it is about.
    pub title: String,
    /// That folded.
    pub title_key: String,
    /// What there is to say.
    pub description: Option<String>,
    /// That folded.
    pub description_key: Option<String>,
    /// Whether it is open.
    pub state: State,
    /// Only its author, and members from Reporter on, see it.
    pub confidential: bool,
    /// The day it begins.
    pub start_date: Option<NaiveDate>,
    /// The day it is due.
    pub due_date: Option<NaiveDate>,
    /// When it was closed.
    pub closed_at: Option<DateTime<Utc>>,
    /// Who closed it; none when the user is gone.
    pub closed_by_id: Option<i64>,
    /// How many users awarded `thumbsup`.
    pub upvotes: i32,
    /// How many users awarded `thumbsdown`.
    pub downvotes: i32,
    /// How many notes users wrote.
    pub user_notes_count: i32,
    /// When title or description were changed last.
    pub last_edited_at: Option<DateTime<Utc>>,
    /// Who changed them.
    pub last_edited_by_id: Option<i64>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
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
    /// Keeps the folded texts in step with the texts.
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

/// Locks an epic until the transaction ends; none when it is not there.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(db).await
}

/// Epics that somebody may see, as a condition on `epics` that is looked at row by row: those of visible groups;
/// confidential ones for their authors, and from Reporter on.
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

/// Epics whose group meets a condition on `namespaces`, looked at row by row.
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
