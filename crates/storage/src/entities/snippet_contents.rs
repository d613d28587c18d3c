//! What snippets hold, apart from their rows: it may be long.

use sea_orm::entity::prelude::*;

/// What snippets hold, apart from their rows: it may be long.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "snippet_contents")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The snippet; each has one row.
    pub snippet_id: i64,
    /// What it holds.
    pub content: String,
}

/// How the table relates to others.
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

/// What a snippet holds; none when it is gone.
///
/// # Errors
/// Whatever the database reports.
pub async fn of(db: &impl ConnectionTrait, snippet_id: i64) -> Result<Option<String>, DbErr> {
    let found = Entity::find()
        .filter(Column::SnippetId.eq(snippet_id))
        .one(db)
        .await?;
    Ok(found.map(|row| row.content))
}
