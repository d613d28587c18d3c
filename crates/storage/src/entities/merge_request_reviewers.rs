//! Reviewers of merge requests.

use sea_orm::entity::prelude::*;

/// Reviewers of merge requests.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "merge_request_reviewers")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The merge request.
    pub merge_request_id: i64,
    /// The user.
    pub user_id: i64,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The merge request.
    #[sea_orm(
        belongs_to = "super::merge_requests::Entity",
        from = "Column::MergeRequestId",
        to = "super::merge_requests::Column::Id"
    )]
    MergeRequest,
    /// The user.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::UserId",
        to = "super::users::Column::Id"
    )]
    User,
}

impl Related<super::merge_requests::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::MergeRequest.def()
    }
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::User.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
