//! How projects rank labels.

use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, JoinType, LockType, Order, Query, SelectStatement, SubQueryStatement};

use super::issuables::Kind;

/// How projects rank labels.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "label_priorities")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The label, of the project or a group above.
    pub label_id: i64,
    /// The rank; 0 comes first.
    pub priority: i32,
}

/// How the table relates to others.
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

/// Which issues and merge requests carry other labels, or labels of another rank, than before.
#[derive(Debug, Clone, Copy)]
pub enum Labelled<'a> {
    /// Those of a kind with these ids.
    Things(Kind, &'a [i64]),
    /// All that carry this label, wherever they are.
    With(i64),
    /// All of the projects with these ids.
    Of(&'a SelectStatement),
}

/// Keeps the lowest rank of their labels, by which lists are ordered, in step: to be called in the transaction that
/// changes what they carry or how their project ranks it, after the change. One statement for each table concerned.
///
/// # Errors
/// Whatever the database reports.
pub async fn refresh(db: &impl ConnectionTrait, which: Labelled<'_>) -> Result<(), DbErr> {
    match which {
        Labelled::Things(_, []) => Ok(()),
        Labelled::Things(kind, ids) => rank(db, kind, Expr::col("id").is_in(ids.iter().copied())).await,
        Labelled::With(label_id) => {
            for kind in Kind::ALL {
                rank_many(db, kind, Expr::col("id").in_subquery(carriers(kind, label_id))).await?;
            }
            Ok(())
        }
        Labelled::Of(projects) => {
            for kind in Kind::ALL {
                rank_many(db, kind, Expr::col(kind.project()).in_subquery(projects.clone())).await?;
            }
            Ok(())
        }
    }
}

/// The ids of those that carry a label, as a statement to use in others.
pub fn carriers(kind: Kind, label_id: i64) -> SelectStatement {
    Query::select()
        .column(kind.key())
        .from(kind.labels())
        .and_where(Expr::col("label_id").eq(label_id))
        .take()
}

/// As [`rank`], of many: locked in their order first, so that nobody waits for each other in a circle.
async fn rank_many(db: &impl ConnectionTrait, kind: Kind, which: Expr) -> Result<(), DbErr> {
    let all = Query::select()
        .column("id")
        .from(kind.table())
        .and_where(which.clone())
        .order_by("id", Order::Asc)
        .lock(LockType::NoKeyUpdate)
        .take();
    // Where one transaction writes at a time, there is nothing to lock.
    if db.get_database_backend() == DbBackend::Postgres {
        db.query_all(&all).await?;
    }
    rank(db, kind, which).await
}

async fn rank(db: &impl ConnectionTrait, kind: Kind, which: Expr) -> Result<(), DbErr> {
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
