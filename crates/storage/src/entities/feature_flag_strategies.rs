//! Strategies of feature flags.

use sea_orm::entity::prelude::*;

/// Kind of a strategy, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum StrategyKind {
    /// All users.
    #[sea_orm(string_value = "default")]
    Default,
    /// A percentage of signed-in users.
    #[sea_orm(string_value = "gradualRolloutUserId")]
    GradualRollout,
    /// Users listed in the parameters.
    #[sea_orm(string_value = "userWithId")]
    Users,
    /// A percentage, by the stickiness in the parameters.
    #[sea_orm(string_value = "flexibleRollout")]
    FlexibleRollout,
    /// The users of a list.
    #[sea_orm(string_value = "serviceUserList")]
    UserList,
    /// The users of a list, under the name that clients of the reference service use.
    #[sea_orm(string_value = "gitlabUserList")]
    CompatibleUserList,
}

impl StrategyKind {
    /// Returns whether the strategy uses a user list.
    #[must_use]
    pub fn has_list(self) -> bool {
        matches!(self, Self::UserList | Self::CompatibleUserList)
    }
}

/// Strategies of feature flags.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "feature_flag_strategies")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The flag.
    pub feature_flag_id: i64,
    /// The kind.
    pub name: StrategyKind,
    /// The parameters: a JSON object of texts.
    pub parameters: String,
    /// The user list, if the strategy uses one.
    pub user_list_id: Option<i64>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user list, if it has one.
    #[sea_orm(
        belongs_to = "super::feature_flag_user_lists::Entity",
        from = "Column::UserListId",
        to = "super::feature_flag_user_lists::Column::Id"
    )]
    UserList,
}

impl ActiveModelBehavior for ActiveModel {}
