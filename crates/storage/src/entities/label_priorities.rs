//! Label priorities of projects.

use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, JoinType, LockType, Order, Query, SelectStatement, SubQueryStatement};

use super::issuables::IssuableKind;
use super::related_rows::{RelatedPart, bigint};

/// Label priorities of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "label_priorities")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The label, of the project or an ancestor group.
    pub label_id: i64,
    /// The priority; 0 is the highest.
    pub priority: i32,
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

/// Issues and merge requests whose labels or label priorities changed.
#[derive(Debug, Clone, Copy)]
pub enum LabeledItems<'a> {
    /// The issuables of a kind with these IDs.
    Things(IssuableKind, &'a [i64]),
    /// All issuables with this label.
    With(i64),
    /// All issuables of the projects with these IDs.
    Of(&'a SelectStatement),
}

/// Updates the lowest priority of the issuables' labels, by which lists are sorted. Must be called after each
/// change of labels or priorities, in the same transaction. Runs one statement for each affected table.
///
/// # Errors
/// Any database error.
pub async fn refresh(db: &impl ConnectionTrait, which: LabeledItems<'_>) -> Result<(), DbErr> {
    match which {
        LabeledItems::Things(_, []) => Ok(()),
        LabeledItems::Things(kind, ids) => rank(db, kind, Expr::col("id").is_in(ids.iter().copied())).await,
        LabeledItems::With(label_id) => {
            for kind in IssuableKind::ALL {
                rank_many(
                    db,
                    kind,
                    Expr::col("id").in_subquery(issuables_with_label(kind, label_id)),
                )
                .await?;
            }
            Ok(())
        }
        LabeledItems::Of(projects) => {
            for kind in IssuableKind::ALL {
                rank_many(db, kind, Expr::col(kind.project()).in_subquery(projects.clone())).await?;
            }
            Ok(())
        }
    }
}

/// Selects the IDs of issuables with a label, for use in other statements.
pub fn issuables_with_label(kind: IssuableKind, label_id: i64) -> SelectStatement {
    Query::select()
        .column(kind.key())
        .from(kind.labels())
        .and_where(Expr::col("label_id").eq(label_id))
        .take()
}

/// As [`rank`] for many issuables. They are locked in ID order first, to avoid deadlocks.
async fn rank_many(db: &impl ConnectionTrait, kind: IssuableKind, which: Expr) -> Result<(), DbErr> {
    let all = Query::select()
        .column("id")
        .from(kind.table())
        .and_where(which.clone())
        .order_by("id", Order::Asc)
        .lock(LockType::NoKeyUpdate)
        .take();
    // SQLite has a single writer, so no locks are needed.
    if db.get_database_backend() == DbBackend::Postgres {
        db.query_all(&all).await?;
    }
    rank(db, kind, which).await
}

async fn rank(db: &impl ConnectionTrait, kind: IssuableKind, which: Expr) -> Result<(), DbErr> {
    const RANKED: &str = "ranked";
    const CARRIED: &str = "carried";
    let lowest = Query::select()
        .expr(Expr::col((RANKED, Column::Priority)).min())
        .from_as(kind.labels(), CARRIED)
        .join_as(
            JoinType::InnerJoin,
            Entity,
            RANKED,
            Expr::col((RANKED, Column::LabelId)).eq(Expr::col((CARRIED, "label_id"))),
        )
        .and_where(Expr::col((CARRIED, kind.key())).eq(kind.column("id")))
        .and_where(Expr::col((RANKED, Column::ProjectId)).eq(kind.column(kind.project())))
        .take();
    let update = Query::update()
        .table(kind.table())
        .value("label_priority", Expr::from(SubQueryStatement::from(lowest)))
        .and_where(which)
        .take();
    db.execute(&update).await?;
    Ok(())
}

/// Returns a part with the priorities of labels in a project as numbers; none without IDs.
#[must_use]
pub fn part(database: DbBackend, project_id: i64, label_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::ProjectId.eq(project_id))
        .take();
    let part = RelatedPart::of_owners(database, rows, Column::LabelId.into_expr(), label_ids)?;
    Some(part.with_number(bigint(Column::Priority.into_expr())))
}
