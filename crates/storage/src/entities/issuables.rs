//! Common parts of issues and merge requests: assignees, labels and texts are in tables of the same form.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait, JoinType, LockType, Order, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, FromQueryResult,
    QueryOrder, QuerySelect, QueryTrait,
};

use super::labels;
use super::related_rows::{LinkTable, RelatedPart};
use super::row_conditions::by_code_points;
use super::users::{self, UserSummary};

/// Kind of issuable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IssuableKind {
    /// Issues.
    Issue,
    /// Merge requests.
    MergeRequest,
}

impl IssuableKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Issue, Self::MergeRequest];

    /// Returns the table of the issuables.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Issue => "issues",
            Self::MergeRequest => "merge_requests",
        }
    }

    /// Returns the column of the project in that table.
    #[must_use]
    pub fn project(self) -> &'static str {
        match self {
            Self::Issue => "project_id",
            Self::MergeRequest => "target_project_id",
        }
    }

    /// Returns the column that references an issuable in other tables.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Issue => "issue_id",
            Self::MergeRequest => "merge_request_id",
        }
    }

    /// Returns the table of assignees.
    #[must_use]
    pub fn assignees(self) -> &'static str {
        match self {
            Self::Issue => "issue_assignees",
            Self::MergeRequest => "merge_request_assignees",
        }
    }

    /// Returns the table of labels.
    #[must_use]
    pub fn labels(self) -> &'static str {
        match self {
            Self::Issue => "issue_labels",
            Self::MergeRequest => "merge_request_labels",
        }
    }

    /// Returns the table of texts, if the database has a separate one.
    #[must_use]
    pub fn texts(self) -> &'static str {
        match self {
            Self::Issue => "issue_texts",
            Self::MergeRequest => "merge_request_texts",
        }
    }

    /// Returns the name of the kind for messages.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Issue => "issue",
            Self::MergeRequest => "merge request",
        }
    }

    /// Returns a column of the table of the issuables.
    #[must_use]
    pub fn column(self, name: &'static str) -> Expr {
        Expr::col((self.table(), name))
    }
}

/// Table of the reviewers of merge requests.
pub const REVIEWERS: &str = "merge_request_reviewers";

/// Returns the assignees of several issuables in one statement, in assignment order, without entries for
/// issuables without assignees.
///
/// # Errors
/// Any database error.
pub async fn assignees_of(
    db: &impl ConnectionTrait,
    kind: IssuableKind,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<users::Model>>, DbErr> {
    linked_users(db, kind, kind.assignees(), ids).await
}

/// Returns the users that a table links to several issuables in one statement, in the order in which they were linked.
///
/// # Errors
/// Any database error.
pub async fn linked_users(
    db: &impl ConnectionTrait,
    kind: IssuableKind,
    table: &'static str,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<users::Model>>, DbErr> {
    let mut statement = users::Entity::find().into_query();
    join_association(&mut statement, kind, table, ("user_id", "users"), ids)
        .order_by((table, "id"), Order::Asc);
    grouped(db, &statement).await
}

/// Returns the labels of several issuables in one statement, ordered by title, without entries for issuables
/// without labels.
///
/// # Errors
/// Any database error.
pub async fn labels_of(
    db: &impl ConnectionTrait,
    kind: IssuableKind,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, Vec<labels::Model>>, DbErr> {
    let mut statement = labels::Entity::find()
        .order_by_asc(by_code_points(
            db.get_database_backend(),
            labels::Column::Title.into_expr(),
        ))
        .order_by_asc(labels::Column::Id)
        .into_query();
    join_association(&mut statement, kind, kind.labels(), ("label_id", "labels"), ids);
    grouped(db, &statement).await
}

/// Returns the IDs and titles of the labels of an issuable, ordered by title. Descriptions, which can be long, are not
/// read.
///
/// # Errors
/// Any database error.
pub async fn label_titles_of(
    db: &impl ConnectionTrait,
    kind: IssuableKind,
    id: i64,
) -> Result<Vec<(i64, String)>, DbErr> {
    let mut statement = labels::Entity::find()
        .select_only()
        .columns([labels::Column::Id, labels::Column::Title])
        .order_by_asc(by_code_points(
            db.get_database_backend(),
            labels::Column::Title.into_expr(),
        ))
        .order_by_asc(labels::Column::Id)
        .into_query();
    join_association(&mut statement, kind, kind.labels(), ("label_id", "labels"), [id]);
    let rows = db.query_all(&statement).await?;
    let mut labels = Vec::with_capacity(rows.len());
    for row in &rows {
        labels.push((row.try_get("", "id")?, row.try_get("", "title")?));
    }
    Ok(labels)
}

/// Returns a part with the assignees of several issuables, in assignment order; none without issuables.
#[must_use]
pub fn assignees_part(database: DbBackend, kind: IssuableKind, ids: &[i64]) -> Option<RelatedPart> {
    linked_users_part(database, kind, kind.assignees(), ids)
}

/// Returns a part with the reviewers of several merge requests, in the order of the requests; none without merge
/// requests.
#[must_use]
pub fn reviewers_part(database: DbBackend, ids: &[i64]) -> Option<RelatedPart> {
    linked_users_part(database, IssuableKind::MergeRequest, REVIEWERS, ids)
}

fn linked_users_part(
    database: DbBackend,
    kind: IssuableKind,
    table: &'static str,
    ids: &[i64],
) -> Option<RelatedPart> {
    let link = LinkTable {
        name: table,
        owner_column: kind.key(),
        column: "user_id",
        target: "users",
    };
    let part = RelatedPart::linked(database, link, ids)?;
    Some(UserSummary::columns(part).sorted_by(Expr::col((table, "id"))))
}

/// Returns the table that links labels to issuables.
#[must_use]
pub fn label_links(kind: IssuableKind) -> LinkTable {
    LinkTable {
        name: kind.labels(),
        owner_column: kind.key(),
        column: "label_id",
        target: "labels",
    }
}

/// Locks the selected rows of a table in ascending order until the transaction ends, and returns their IDs.
///
/// # Errors
/// Any database error.
pub async fn lock_rows(
    transaction: &DatabaseTransaction,
    table: &'static str,
    ids: SelectStatement,
) -> Result<Vec<i64>, DbErr> {
    let locked = Query::select()
        .column("id")
        .from(table)
        .and_where(Expr::col("id").in_subquery(ids))
        .order_by("id", Order::Asc)
        .lock(LockType::NoKeyUpdate)
        .take();
    let rows = transaction.query_all(&locked).await?;
    rows.iter().map(|row| row.try_get("", "id")).collect()
}

/// Alias of the column with the issuable of a row.
const OWNER: &str = "issuable";

/// Joins the table between issuables of a kind and other rows.
fn join_association<'a>(
    statement: &'a mut SelectStatement,
    kind: IssuableKind,
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
