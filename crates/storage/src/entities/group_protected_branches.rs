//! Protected branches of groups, by name or pattern. They protect the branches of all projects in the group and its
//! subgroups.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;

/// Protected branches of groups, by name or pattern.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "group_protected_branches")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The group.
    pub namespace_id: i64,
    /// The name, or a pattern with `*`.
    pub name: String,
    /// Minimum role for pushes: 0 no role, 30, 40, 60 administrators.
    pub push_access_level: i32,
    /// Minimum role for merges: 0 no role, 30, 40, 60 administrators.
    pub merge_access_level: i32,
    /// Minimum role for changes of the protection: 30, 40 or 60. Without a role, every Owner can change it.
    pub unprotect_access_level: Option<i32>,
    /// Whether callers who can push can also force-push.
    pub allow_force_push: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
    /// Whether changes of files with code owners require their approval.
    pub code_owner_approval_required: bool,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the protected branch of a group with exactly this name or pattern.
pub fn named(namespace_id: i64, name: &str) -> Select<Entity> {
    Entity::find()
        .filter(Column::NamespaceId.eq(namespace_id))
        .filter(Column::Name.eq(name))
}
