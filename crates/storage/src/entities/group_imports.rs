//! Imports of groups; the bytes of an archive that is still needed lie in the object storage.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{Condition, ExprTrait, QueryOrder, QuerySelect};

use super::jobs;

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum State {
    /// The group is made, and the archive waits to be read.
    Scheduled,
    /// The archive is being read, or entered.
    Started,
    /// All of it is entered.
    Finished,
    /// It was given up.
    Failed,
}

/// Imports of groups; the bytes of an archive that is still needed lie in the object storage.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "group_imports")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group that was made for it; none before, and when it is gone.
    pub namespace_id: Option<i64>,
    /// Who imports; none when the user is gone.
    pub user_id: Option<i64>,
    /// The part of the archive's key that cannot be guessed: 32 hex digits; none when the archive is needed no more.
    pub secret: Option<String>,
    /// How far it is.
    pub state: State,
    /// Why it was given up.
    pub error: Option<String>,
    /// What came of it, as JSON.
    pub report: String,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The import that a group was made for.
///
/// # Errors
/// Whatever the database reports.
pub async fn of_group(db: &impl ConnectionTrait, namespace_id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .one(db)
        .await
}

/// Imports that have a group and have not ended.
fn unfinished() -> Select<Entity> {
    Entity::find()
        .filter(Column::NamespaceId.is_not_null())
        .filter(Column::State.is_in([State::Scheduled, State::Started]))
}

/// Whether an import of a user has not ended.
///
/// # Errors
/// Whatever the database reports.
pub async fn is_importing(db: &impl ConnectionTrait, user_id: i64) -> Result<bool, DbErr> {
    let theirs = unfinished().filter(Column::UserId.eq(user_id));
    Ok(theirs.one(db).await?.is_some())
}

/// Imports that have not ended and that no job of a kind carries out any more, whose keys are the ids; at most `limit`.
///
/// # Errors
/// Whatever the database reports.
pub async fn lost(db: &impl ConnectionTrait, kind: &str, limit: u64) -> Result<Vec<Model>, DbErr> {
    let id = Expr::col((Entity, Column::Id)).cast_as("text");
    let live = Query::select()
        .expr(Expr::val(1))
        .from(jobs::Entity)
        .and_where(Expr::col((jobs::Entity, jobs::Column::Kind)).eq(kind))
        .and_where(Expr::col((jobs::Entity, jobs::Column::DedupKey)).eq(id))
        .and_where(Expr::col((jobs::Entity, jobs::Column::DeadAt)).is_null())
        .take();
    unfinished()
        .filter(Expr::not_exists(live))
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}

/// Imports that still have an archive and need it no more: those that have ended, and those begun before an instant that have
/// no group; at most `limit`.
///
/// # Errors
/// Whatever the database reports.
pub async fn over(db: &impl ConnectionTrait, before: DateTime<Utc>, limit: u64) -> Result<Vec<Model>, DbErr> {
    let adrift = Condition::all()
        .add(Column::NamespaceId.is_null())
        .add(Column::CreatedAt.lt(before));
    let ended = Column::State.is_in([State::Finished, State::Failed]);
    Entity::find()
        .filter(Column::Secret.is_not_null())
        .filter(Condition::any().add(ended).add(adrift))
        .order_by_asc(Column::Id)
        .limit(limit)
        .all(db)
        .await
}
