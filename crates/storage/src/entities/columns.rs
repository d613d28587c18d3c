//! Reads models by the positions of their columns.
//!
//! SeaORM looks up each column by its name. For two joined tables, it first builds the name with a prefix. In a list with
//! wide rows, this takes longer than the query.

use sea_orm::sea_query::{Expr, ExprTrait, Func};
use sea_orm::{ConnectionTrait, DbErr, EntityTrait, QueryResult, QueryTrait, Select, SelectTwo};

pub use row_derive::ReadColumns;

/// A model that is read by the positions of its columns. Its first column is an ID, which is never null.
pub trait ReadColumns: Sized {
    /// Number of columns.
    const COUNT: usize;

    /// Reads the model from consecutive columns, starting at `first`.
    ///
    /// # Errors
    /// Returns an error if the value of a column has another type.
    fn read_columns(row: &QueryResult, first: usize) -> Result<Self, DbErr>;

    /// Reads the model like [`Self::read_columns`]; `None` if the join found no row.
    ///
    /// # Errors
    /// Returns an error if the value of a column has another type.
    fn read_joined_columns(row: &QueryResult, first: usize) -> Result<Option<Self>, DbErr> {
        let id: Option<i64> = row.try_get_by_index(first)?;
        id.map(|_| Self::read_columns(row, first)).transpose()
    }
}

/// Returns all rows of a statement that selects all columns of one table, in their order.
///
/// # Errors
/// Any database error.
pub async fn all<E>(db: &impl ConnectionTrait, select: Select<E>) -> Result<Vec<E::Model>, DbErr>
where
    E: EntityTrait<Model: ReadColumns>,
{
    let rows = db.query_all(&select.into_query()).await?;
    rows.iter().map(|row| E::Model::read_columns(row, 0)).collect()
}

/// Returns all rows of a statement that selects all columns of one table in their order, and then those of a joined one.
///
/// # Errors
/// Any database error.
pub async fn all_joined<E, F>(
    db: &impl ConnectionTrait,
    select: SelectTwo<E, F>,
) -> Result<Vec<(E::Model, Option<F::Model>)>, DbErr>
where
    E: EntityTrait<Model: ReadColumns>,
    F: EntityTrait<Model: ReadColumns>,
{
    let rows = db.query_all(&select.into_query()).await?;
    rows.iter()
        .map(|row| {
            let model = E::Model::read_columns(row, 0)?;
            Ok((model, F::Model::read_joined_columns(row, E::Model::COUNT)?))
        })
        .collect()
}

/// Returns the size of a text in bytes. The databases return it without reading the text.
pub fn text_bytes(text: Expr) -> Expr {
    Expr::from(Func::cust("octet_length").arg(text)).cast_as("bigint")
}
