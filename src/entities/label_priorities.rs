//! How projects rank labels.

use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, JoinType, Query, SubQueryStatement};

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
    /// The issues with these ids.
    Issues(&'a [i64]),
    /// The merge requests with these ids.
    MergeRequests(&'a [i64]),
    /// All that carry this label, wherever they are.
    With(i64),
}

/// A table of things that carry labels.
struct Carriers {
    table: &'static str,
    /// The column of the project whose ranks count.
    project: &'static str,
    /// The table of what they carry, and the column of who does.
    labels: &'static str,
    carrier: &'static str,
}

const ISSUES: Carriers = Carriers {
    table: "issues",
    project: "project_id",
    labels: "issue_labels",
    carrier: "issue_id",
};
const MERGE_REQUESTS: Carriers = Carriers {
    table: "merge_requests",
    project: "target_project_id",
    labels: "merge_request_labels",
    carrier: "merge_request_id",
};

/// Keeps the lowest rank of their labels, by which lists are ordered, in step: to be called in the transaction that
/// changes what they carry or how their project ranks it, after the change. One statement for each table concerned.
///
/// # Errors
/// Whatever the database reports.
pub async fn refresh(db: &impl ConnectionTrait, which: Labelled<'_>) -> Result<(), DbErr> {
    let among = |ids: &[i64]| Expr::col("id").is_in(ids.iter().copied());
    match which {
        Labelled::Issues([]) | Labelled::MergeRequests([]) => Ok(()),
        Labelled::Issues(ids) => ISSUES.refresh(db, among(ids)).await,
        Labelled::MergeRequests(ids) => MERGE_REQUESTS.refresh(db, among(ids)).await,
        Labelled::With(label_id) => {
            ISSUES.refresh(db, ISSUES.with(label_id)).await?;
            MERGE_REQUESTS.refresh(db, MERGE_REQUESTS.with(label_id)).await
        }
    }
}

impl Carriers {
    /// Those that carry a label, as a condition.
    fn with(&self, label_id: i64) -> Expr {
        let carriers = Query::select()
            .column(self.carrier)
            .from(self.labels)
            .and_where(Expr::col("label_id").eq(label_id))
            .take();
        Expr::col("id").in_subquery(carriers)
    }

    async fn refresh(&self, db: &impl ConnectionTrait, which: Expr) -> Result<(), DbErr> {
        const RANKED: &str = "ranked";
        const CARRIED: &str = "carried";
        let lowest = Query::select()
            .expr(Expr::col((RANKED, Column::Priority)).min())
            .from_as(self.labels, CARRIED)
            .join_as(
                JoinType::InnerJoin,
                Entity,
                RANKED,
                Expr::col((RANKED, Column::LabelId)).eq(Expr::col((CARRIED, "label_id"))),
            )
            .and_where(Expr::col((CARRIED, self.carrier)).eq(Expr::col((self.table, "id"))))
            .and_where(Expr::col((RANKED, Column::ProjectId)).eq(Expr::col((self.table, self.project))))
            .take();
        let update = Query::update()
            .table(self.table)
            .value("label_priority", Expr::from(SubQueryStatement::from(lowest)))
            .and_where(which)
            .take();
        db.execute(&update).await?;
        Ok(())
    }
}
