//! How clusters of projects are reached, and who added them.

use sea_orm::entity::prelude::*;

/// How a cluster decides who may do what; the words are those of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum Authorization {
    /// Nobody said.
    UnknownAuthorization,
    /// By roles.
    Rbac,
    /// By attributes.
    Abac,
}

/// How clusters of projects are reached, and who added them.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "cluster_platforms")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The cluster.
    pub cluster_id: i64,
    /// Who added it; none when the user is gone.
    pub user_id: Option<i64>,
    /// The address of its interface.
    pub api_url: String,
    /// The token that is good there, encrypted for this row.
    pub token_encrypted: String,
    /// The certificate that its own is signed with.
    pub ca_cert: Option<String>,
    /// The namespace within it.
    pub namespace: Option<String>,
    /// How it decides who may do what.
    pub authorization_type: Authorization,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
