//! Tables, references, indexes and checks, named in one way.
//!
//! A unique constraint is `uq_<table>_<columns>`, which is what the server derives from SQLite's message as
//! well; a foreign key is `fk_<table>_<column>`, a check `ck_<table>_<what>`, an index `ix_<table>_<columns>`.

use sea_orm_migration::prelude::*;

/// A new table with its `id`: 64 bits, counted up, never reused.
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

/// A reference from `table.column` to the id of `target`.
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

/// A unique index over `columns`.
pub fn unique(table: &'static str, columns: &[&'static str]) -> IndexCreateStatement {
    index_named("uq", table, columns).unique().to_owned()
}

/// A plain index over `columns`.
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

/// A check that a text column holds one of `values`.
pub fn one_of(table: &'static str, column: &'static str, values: &[&'static str]) -> Check {
    Check::named(
        format!("ck_{table}_{column}"),
        Expr::col(column).is_in(values.iter().copied()),
    )
}

/// A check that a column holds an access level of specification 2.0.
pub fn access_level(table: &'static str, column: &'static str) -> Check {
    Check::named(
        format!("ck_{table}_{column}"),
        Expr::col(column).is_in([10, 20, 30, 40, 50]),
    )
}

/// A check that exactly one of several columns is not null: what a row belongs to may be of several kinds.
pub fn exactly_one(table: &'static str, columns: &[&'static str]) -> Check {
    let given = |column: &&'static str| -> Expr {
        Expr::case(Expr::col(*column).is_null(), Expr::val(0))
            .finally(Expr::val(1))
            .into()
    };
    let none = Expr::val(0);
    let all = columns.iter().map(given).fold(none, |all, one| all.add(one));
    // A table may have several of these, and PostgreSQL keeps their names apart.
    let first = columns.first().copied().unwrap_or_default();
    Check::named(format!("ck_{table}_one_{first}"), all.eq(1))
}

/// Creates a table and then its indexes.
///
/// # Errors
/// Whatever the database reports.
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

/// Drops tables, given in the order they were created in, last first.
///
/// # Errors
/// Whatever the database reports, for instance that a later table still refers to one of these.
pub async fn drop(manager: &SchemaManager<'_>, tables: &[&'static str]) -> Result<(), DbErr> {
    for table in tables.iter().rev() {
        manager.drop_table(Table::drop().table(*table).to_owned()).await?;
    }
    Ok(())
}
