//! Content of snippets, in a separate table because it may be long.

use sea_orm::entity::prelude::*;

/// Content of snippets, in a separate table because it may be long.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "snippet_contents")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The snippet; each has one row.
    pub snippet_id: i64,
    /// The content.
    pub content: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The snippet.
    #[sea_orm(
        belongs_to = "super::snippets::Entity",
        from = "Column::SnippetId",
        to = "super::snippets::Column::Id"
    )]
    Snippet,
}

impl Related<super::snippets::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Snippet.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the content of a snippet; none if it was deleted.
///
/// # Errors
/// Any database error.
pub async fn of(db: &impl ConnectionTrait, snippet_id: i64) -> Result<Option<String>, DbErr> {
    let found = Entity::find()
        .filter(Column::SnippetId.eq(snippet_id))
        .one(db)
        .await?;
    Ok(found.map(|row| row.content))
}
