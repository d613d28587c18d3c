//! Accounts of users at identity providers.

use sea_orm::DbBackend;
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;

use super::related_rows::{RelatedPart, RelatedRow};

/// Accounts of users at identity providers.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "user_identities")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The user.
    pub user_id: i64,
    /// The name of the provider; a user has one account at each.
    pub provider: String,
    /// The ID at the provider.
    pub extern_uid: String,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns a part with the identities of users, oldest first, for [`read`]; none without IDs.
#[must_use]
pub fn part(database: DbBackend, user_ids: &[i64]) -> Option<RelatedPart> {
    let rows = Query::select().from(Entity).take();
    let part = RelatedPart::of_owners(database, rows, Column::UserId.into_expr(), user_ids)?
        .sorted_by(Column::Id.into_expr())
        .with_id(Column::Id.into_expr());
    Some(part.with_texts([Column::Provider.into_expr(), Column::ExternUid.into_expr()]))
}

/// Reads a row of [`part`].
#[must_use]
pub fn read(row: RelatedRow) -> Model {
    let [provider, extern_uid, ..] = row.texts.map(Option::unwrap_or_default);
    Model {
        id: row.id,
        user_id: row.owner_id,
        provider,
        extern_uid,
    }
}
