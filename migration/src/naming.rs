//! Consistent names for tables, references, indexes and checks.
//!
//! A unique constraint is `uq_<table>_<columns>`, which the server also derives from SQLite's message. A
//! foreign key is `fk_<table>_<column>`, a check `ck_<table>_<check>`, an index `ix_<table>_<columns>`.

use sea_orm_migration::prelude::*;

/// Returns a new table with its `id`: 64 bits, increasing, never reused.
pub fn table(name: &'static str) -> TableCreateStatement {
    let mut table = Table::create();
    table.table(name).col(
        ColumnDef::new("id")
            .big_integer()
            .not_null()
            .auto_increment()
            .primary_key(),
    );
    table
}

/// Returns a foreign key from `table.column` to the ID of `target`.
pub fn reference(
    table: &'static str,
    column: &'static str,
    target: &'static str,
    on_delete: ForeignKeyAction,
) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("fk_{table}_{column}"))
        .from(table, column)
        .to(target, "id")
        .on_delete(on_delete)
        .to_owned()
}

/// Returns a unique index on `columns`.
pub fn unique(table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    index_named("uq", table, columns).unique().to_owned()
}

/// Returns an index on `columns`.
pub fn index(table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    index_named("ix", table, columns)
}

fn index_named(prefix: &str, table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    let mut index = Index::create();
    index
        .name(format!("{prefix}_{table}_{}", columns.join("_")))
        .table(table);
    for column in columns {
        index.col(*column);
    }
    index
}

/// Returns a check that a text column has one of `values`.
pub fn one_of(table: &'static str, column: &'static str, values: &[&'static str]) -> Check {
    Check::named(
        format!("ck_{table}_{column}"),
        Expr::col(column).is_in(values.iter().copied()),
    )
}

/// Returns a check that a column contains an access level.
pub fn access_level(table: &'static str, column: &'static str) -> Check {
    Check::named(
        format!("ck_{table}_{column}"),
        Expr::col(column).is_in([10, 20, 30, 40, 50]),
    )
}

/// Returns a check that exactly one of several columns is not null, for rows with alternative owners.
pub fn exactly_one(table: &'static str, columns: &[&'static str]) -> Check {
    let given = |column: &&'static str| -> Expr {
        Expr::case(Expr::col(*column).is_null(), Expr::val(0))
            .finally(Expr::val(1))
            .into()
    };
    let none = Expr::val(0);
    let all = columns.iter().map(given).fold(none, |all, one| all.add(one));
    // A table may have several of these checks, and PostgreSQL requires distinct names.
    let first = columns.first().copied().unwrap_or_default();
    Check::named(format!("ck_{table}_one_{first}"), all.eq(1))
}

/// Creates a table and then its indexes.
///
/// # Errors
/// Any database error.
pub async fn create<const N: usize>(
    manager: &SchemaManager<'_>,
    table: &mut TableCreateStatement,
    indexes: [IndexCreateStatement; N],
) -> Result<(), DbErr> {
    manager.create_table(table.take()).await?;
    for index in indexes {
        manager.create_index(index).await?;
    }
    Ok(())
}

/// Drops tables, given in creation order, last first.
///
/// # Errors
/// Any database error, for example if another table still refers to one of these.
pub async fn drop(manager: &SchemaManager<'_>, tables: &[&'static str]) -> Result<(), DbErr> {
    for table in tables.iter().rev() {
        manager.drop_table(Table::drop().table(*table).to_owned()).await?;
    }
    Ok(())
}
