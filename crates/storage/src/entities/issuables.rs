//! What issues and merge requests have alike: who they are assigned to, what they are labelled with, and what stands on
//! them is kept in tables of the same form.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait, JoinType, Order, SelectStatement};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait, FromQueryResult, QueryOrder, QueryTrait};

use super::{labels, users};

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Issues.
    Issue,
    /// Merge requests.
    MergeRequest,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Issue, Self::MergeRequest];

    /// The table of the things themselves.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Issue => "issues",
            Self::MergeRequest => "merge_requests",
        }
    }

    /// The column of the project that they belong to, in that table.
    #[must_use]
    pub fn project(self) -> &'static str {
        match self {
            Self::Issue => "project_id",
            Self::MergeRequest => "target_project_id",
        }
    }

    /// The column that names one of them, in other tables.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Issue => "issue_id",
            Self::MergeRequest => "merge_request_id",
        }
    }

    /// The table of those that they are assigned to.
    #[must_use]
    pub fn assignees(self) -> &'static str {
        match self {
            Self::Issue => "issue_assignees",
            Self::MergeRequest => "merge_request_assignees",
        }
    }

    /// The table of what they are labelled with.
    #[must_use]
    pub fn labels(self) -> &'static str {
        match self {
            Self::Issue => "issue_labels",
            Self::MergeRequest => "merge_request_labels",
        }
    }

    /// The table of their texts, where the database keeps these apart.
    #[must_use]
    pub fn texts(self) -> &'static str {
        match self {
            Self::Issue => "issue_texts",
            Self::MergeRequest => "merge_request_texts",
        }
    }

    /// What one of them is called.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::MergeRequest => "merge request",
        }
    }

    /// A column of the table of the things themselves.
    #[must_use]
    pub fn column(self, name: &'static str) -> Expr {
        Expr::col((self.table(), name))
    }
}

/// Those that several are assigned to, in one statement, in the order they were assigned; what is assigned to nobody is
/// absent.
///
/// # Errors
/// Whatever the database reports.
pub async fn assignees_of(
    db: &impl ConnectionTrait,
    kind: Kind,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<users::Model>>, DbErr> {
    let mut statement = users::Entity::find().into_query();
    beside(&mut statement, kind, kind.assignees(), ("user_id", "users"), ids)
        .order_by((kind.assignees(), "id"), Order::Asc);
    grouped(db, &statement).await
}

/// The labels of several, in one statement, by title; what has none is absent.
///
/// # Errors
/// Whatever the database reports.
pub async fn labels_of(
    db: &impl ConnectionTrait,
    kind: Kind,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<labels::Model>>, DbErr> {
    let mut statement = labels::Entity::find()
        .order_by_asc(labels::Column::Title)
        .order_by_asc(labels::Column::Id)
        .into_query();
    beside(&mut statement, kind, kind.labels(), ("label_id", "labels"), ids);
    grouped(db, &statement).await
}

/// What the column of whom a row belongs to is called in answers.
const OWNER: &str = "issuable";

/// Joins the table between things of a kind and others.
fn beside<'a>(
    statement: &'a mut SelectStatement,
    kind: Kind,
    table: &'static str,
    (column, other): (&'static str, &'static str),
    ids: impl IntoIterator<Item = i64>,
) -> &'a mut SelectStatement {
    statement
        .expr_as(Expr::col((table, kind.key())), OWNER)
        .join(
            JoinType::InnerJoin,
            table,
            Expr::col((table, column)).eq(Expr::col((other, "id"))),
        )
        .and_where(Expr::col((table, kind.key())).is_in(ids))
}

async fn grouped<M: FromQueryResult>(
    db: &impl ConnectionTrait,
    statement: &SelectStatement,
) -> Result<HashMap<i64, Vec<M>>, DbErr> {
    let mut grouped: HashMap<i64, Vec<M>> = HashMap::new();
    for row in db.query_all(statement).await? {
        let owner = row.try_get("", OWNER)?;
        grouped
            .entry(owner)
            .or_default()
            .push(M::from_query_result(&row, "")?);
    }
    Ok(grouped)
}
