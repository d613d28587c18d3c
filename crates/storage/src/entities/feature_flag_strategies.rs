//! For whom feature flags are on.

use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;

/// How a strategy chooses for whom a flag is on; the words are those of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum Kind {
    /// For everybody.
    #[sea_orm(string_value = "default")]
    Default,
    /// For a share of those who are signed in.
    #[sea_orm(string_value = "gradualRolloutUserId")]
    GradualRollout,
    /// For users that are named.
    #[sea_orm(string_value = "userWithId")]
    Users,
    /// For a share of whatever is said.
    #[sea_orm(string_value = "flexibleRollout")]
    FlexibleRollout,
    /// For the users of a list.
    #[sea_orm(string_value = "serviceUserList")]
    UserList,
    /// The same, by the name that it has for clients of the reference service.
    #[sea_orm(string_value = "gitlabUserList")]
    CompatibleUserList,
}

impl Kind {
    /// Whether it goes by a list of users.
    #[must_use]
    pub fn has_list(self) -> bool {
        matches!(self, Self::UserList | Self::CompatibleUserList)
    }
}

/// For whom feature flags are on.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "feature_flag_strategies")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The flag.
    pub feature_flag_id: i64,
    /// How it chooses.
    pub name: Kind,
    /// What it goes by: a JSON object of texts.
    pub parameters: String,
    /// The list of users that it goes by, if it does.
    pub user_list_id: Option<i64>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The strategies of some flags, the oldest first.
pub fn of_flags(flags: impl IntoIterator<Item = i64>) -> Select<Entity> {
    Entity::find()
        .filter(Column::FeatureFlagId.is_in(flags))
        .order_by_asc(Column::Id)
}
