//! Large texts of rows, which lists read after they have reserved memory for them.
//!
//! The statement of a list returns the sizes of the texts, and the texts of the rows whose texts are short. If a row of
//! the page has longer texts, a second statement reads them.

use std::collections::HashMap;

use sea_orm::sea_query::{Expr, ExprTrait, Func, Keyword, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, IdenStatic, Iterable, ModelTrait, QueryResult, Value,
};

use super::columns::{ReadColumns, text_bytes};
use super::row_conditions::is_among;

/// Total size in bytes up to which the large texts of a row are read with the row.
const MAX_SHORT_BYTES: u32 = 16 << 10;

/// A table whose rows can have large texts.
pub trait LargeTexts: EntityTrait<Model: ReadColumns> {
    /// Columns with large texts.
    const TEXTS: &'static [Self::Column];
    /// Nullable columns with folded copies of large texts. Only searches use them, so lists do not read them.
    const FOLDED_TEXTS: &'static [Self::Column] = &[];
}

/// A row with the size of its large texts. If they are not short, they are not read yet.
#[derive(Debug)]
pub struct SizedRow<M, T> {
    id: i64,
    model: M,
    joined: T,
    /// Size of the large texts in bytes.
    pub text_bytes: u64,
}

/// Returns all rows of a statement that selects from a table and, if `joined` has columns, from a joined one. The
/// columns of the statement are replaced. `read_joined` reads the joined columns from their first position.
///
/// # Errors
/// Any database error.
pub async fn read_sized<E: LargeTexts, T>(
    db: &impl ConnectionTrait,
    mut statement: SelectStatement,
    joined: Vec<Expr>,
    read_joined: impl Fn(&QueryResult, usize) -> Result<T, DbErr>,
) -> Result<Vec<SizedRow<E::Model, T>>, DbErr> {
    statement
        .clear_selects()
        .exprs(short_columns::<E>())
        .expr(size_of_texts::<E>())
        .exprs(joined);
    let count = E::Model::COUNT;
    let rows = db.query_all(&statement).await?.into_iter();
    rows.map(|row| {
        let size: i64 = row.try_get_by_index(count)?;
        Ok(SizedRow {
            id: row.try_get_by_index(0)?,
            model: E::Model::read_columns(&row, 0)?,
            joined: read_joined(&row, count + 1)?,
            text_bytes: u64::try_from(size).unwrap_or_default(),
        })
    })
    .collect()
}

/// As [`read_sized`], for a statement with a joined table, all of whose columns are read.
///
/// # Errors
/// Any database error.
pub async fn read_sized_joined<E, F>(
    db: &impl ConnectionTrait,
    statement: SelectStatement,
) -> Result<Vec<SizedRow<E::Model, Option<F::Model>>>, DbErr>
where
    E: LargeTexts,
    F: EntityTrait<Model: ReadColumns>,
{
    let joined = F::Column::iter().map(|column| column.into_expr()).collect();
    read_sized::<E, _>(db, statement, joined, F::Model::read_joined_columns).await
}

/// Reads the texts that are not short, if there are any, and returns the rows. The texts of a row that was deleted
/// meanwhile are empty.
///
/// # Errors
/// Any database error.
pub async fn load_texts<E: LargeTexts, T>(
    db: &impl ConnectionTrait,
    rows: Vec<SizedRow<E::Model, T>>,
) -> Result<Vec<(E::Model, T)>, DbErr> {
    let is_long = |row: &SizedRow<E::Model, T>| row.text_bytes > u64::from(MAX_SHORT_BYTES);
    // A statement with a join can return a row several times.
    let mut positions: HashMap<i64, Vec<usize>> = HashMap::new();
    for (position, row) in rows.iter().enumerate().filter(|(_, row)| is_long(row)) {
        positions.entry(row.id).or_default().push(position);
    }
    let mut rows: Vec<(E::Model, T)> = rows.into_iter().map(|row| (row.model, row.joined)).collect();
    // The ID is the first column of a model.
    let Some(id) = E::Column::iter().next().filter(|_| !positions.is_empty()) else {
        return Ok(rows);
    };
    let ids = positions.keys().copied();
    let statement = Query::select()
        .expr(id.into_expr())
        .exprs(E::TEXTS.iter().map(|column| column.into_expr()))
        .from(E::default().table_ref())
        .and_where(is_among(db.get_database_backend(), id.into_expr(), ids))
        .take();
    for texts in db.query_all(&statement).await? {
        let id: i64 = texts.try_get_by_index(0)?;
        for position in positions.get(&id).into_iter().flatten() {
            let Some((model, _)) = rows.get_mut(*position) else {
                continue;
            };
            for (index, column) in E::TEXTS.iter().enumerate() {
                let text: Option<String> = texts.try_get_by_index(index + 1)?;
                model.try_set(*column, Value::from(text))?;
            }
        }
    }
    Ok(rows)
}

/// Returns the columns of a table in their order. In rows whose texts are not short, the texts are empty.
fn short_columns<E: LargeTexts>() -> impl Iterator<Item = Expr> {
    E::Column::iter().map(|column| {
        if contains(E::FOLDED_TEXTS, column) {
            return Expr::Keyword(Keyword::Null);
        }
        if !contains(E::TEXTS, column) {
            return column.into_expr();
        }
        let is_long = size_of_texts::<E>().gt(Expr::Constant(MAX_SHORT_BYTES.into()));
        let empty = Expr::Constant("".into());
        Expr::case(is_long, empty).finally(column.into_expr()).into()
    })
}

/// Returns the size of the large texts of a row in bytes.
fn size_of_texts<E: LargeTexts>() -> Expr {
    let zero = || Expr::Constant(0.into());
    let sizes = E::TEXTS.iter().map(|column| {
        let size = text_bytes(column.into_expr());
        Expr::from(Func::coalesce([size, zero()]))
    });
    sizes.reduce(|total, size| total.add(size)).unwrap_or_else(zero)
}

fn contains<C: IdenStatic>(columns: &[C], column: C) -> bool {
    columns.iter().any(|other| other.as_str() == column.as_str())
}

macro_rules! large_texts {
    ($($table:ident: [$($text:ident),+], [$($folded:ident),*];)+) => {$(
        impl LargeTexts for super::$table::Entity {
            const TEXTS: &'static [super::$table::Column] = &[$(super::$table::Column::$text),+];
            const FOLDED_TEXTS: &'static [super::$table::Column] = &[$(super::$table::Column::$folded),*];
        }
    )+};
}

large_texts! {
    commit_comments: [Note], [];
    epics: [Description], [DescriptionKey];
    feature_flag_user_lists: [UserXids], [];
    feature_flags: [Description], [];
    issues: [Description], [];
    labels: [Description], [];
    merge_requests: [Description, MergeCommitMessage, SquashCommitMessage, MergeParams], [];
    milestones: [Description], [DescriptionKey];
    notes: [Body], [];
    releases: [Description], [];
    snippets: [Description], [];
    vulnerabilities: [Description], [];
}
