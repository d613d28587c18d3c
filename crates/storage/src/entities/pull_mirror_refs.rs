//! Branches and tags as they were in the repositories from which projects fetch them.

use std::collections::HashMap;

use sea_orm::ActiveValue::Set;
use sea_orm::QuerySelect;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::OnConflict;

/// Maximum number of rows in one statement.
const BATCH_SIZE: usize = 500;

/// Branches and tags as they were in the repositories from which projects fetch them.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pull_mirror_refs")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The mirror.
    pub mirror_id: i64,
    /// The full name, such as `refs/heads/main`.
    pub name: String,
    /// The object to which the branch or tag of the project was set.
    pub target: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the targets of a mirror by name.
///
/// # Errors
/// Any database error.
pub async fn of_mirror(db: &impl ConnectionTrait, mirror_id: i64) -> Result<HashMap<String, String>, DbErr> {
    let rows: Vec<(String, String)> = Entity::find()
        .select_only()
        .columns([Column::Name, Column::Target])
        .filter(Column::MirrorId.eq(mirror_id))
        .into_tuple()
        .all(db)
        .await?;
    Ok(rows.into_iter().collect())
}

/// Records targets by name.
///
/// # Errors
/// Any database error.
pub async fn record(
    db: &impl ConnectionTrait,
    mirror_id: i64,
    targets: &[(String, String)],
) -> Result<(), DbErr> {
    for batch in targets.chunks(BATCH_SIZE) {
        let rows = batch.iter().map(|(name, target)| ActiveModel {
            mirror_id: Set(mirror_id),
            name: Set(name.clone()),
            target: Set(target.clone()),
            ..Default::default()
        });
        let mut replace = OnConflict::columns([Column::MirrorId, Column::Name]);
        Entity::insert_many(rows)
            .on_conflict(replace.update_column(Column::Target).to_owned())
            .exec_without_returning(db)
            .await?;
    }
    Ok(())
}

/// Deletes the records of these names.
///
/// # Errors
/// Any database error.
pub async fn forget(db: &impl ConnectionTrait, mirror_id: i64, names: &[String]) -> Result<(), DbErr> {
    for batch in names.chunks(BATCH_SIZE) {
        Entity::delete_many()
            .filter(Column::MirrorId.eq(mirror_id))
            .filter(Column::Name.is_in(batch))
            .exec(db)
            .await?;
    }
    Ok(())
}

/// Deletes all records of a mirror.
///
/// # Errors
/// Any database error.
pub async fn forget_all(db: &impl ConnectionTrait, mirror_id: i64) -> Result<(), DbErr> {
    Entity::delete_many()
        .filter(Column::MirrorId.eq(mirror_id))
        .exec(db)
        .await
        .map(drop)
}
