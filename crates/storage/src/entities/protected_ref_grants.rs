//! Grants of protected branches and tags: users, groups and deploy keys that may act on them regardless of the role.

use sea_orm::entity::prelude::*;

/// Action on a protected ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum RefAction {
    /// Push to a branch.
    Push,
    /// Merge into a branch.
    Merge,
    /// Change or remove the protection of a branch.
    Unprotect,
    /// Create a tag.
    Create,
}

/// Grants of protected branches and tags.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "protected_ref_grants")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The protected branch of a project.
    pub protected_branch_id: Option<i64>,
    /// The protected tag of a project.
    pub protected_tag_id: Option<i64>,
    /// The action.
    pub action: RefAction,
    /// The user who can act.
    pub user_id: Option<i64>,
    /// The group whose members can act.
    pub group_id: Option<i64>,
    /// The deploy key that can act.
    pub deploy_key_id: Option<i64>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
