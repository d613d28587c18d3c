//! Connection settings of clusters.

use sea_orm::entity::prelude::*;

/// Authorization mode of a cluster, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Authorization {
    /// Not specified.
    UnknownAuthorization,
    /// Role-based.
    Rbac,
    /// Attribute-based.
    Abac,
}

/// Connection settings of clusters.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "cluster_platforms")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The cluster.
    pub cluster_id: i64,
    /// The user who added it; none if deleted.
    pub user_id: Option<i64>,
    /// The URL of its API.
    pub api_url: String,
    /// The token for its API, encrypted for this row.
    pub token_encrypted: String,
    /// The CA certificate of its API.
    pub ca_cert: Option<String>,
    /// The namespace in the cluster.
    pub namespace: Option<String>,
    /// The authorization mode.
    pub authorization_type: Authorization,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The user who added it.
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
