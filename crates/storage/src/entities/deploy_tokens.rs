//! Deploy tokens. Each belongs to exactly one project or group and to no user.

use chrono::{DateTime, Utc};
use sea_orm::ExprTrait;
use sea_orm::entity::prelude::*;

use super::{Scope, namespace_ancestors, projects};

/// Deploy tokens. Each belongs to exactly one project or group and to no user.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "deploy_tokens")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project, if it belongs to one.
    pub project_id: Option<i64>,
    /// The group, if it belongs to one.
    pub namespace_id: Option<i64>,
    /// The name.
    pub name: String,
    /// The username of the credentials; `None` for the default, which contains the ID.
    pub username: Option<String>,
    /// The SHA-256 of the token in hex; the token itself is not stored.
    pub digest: String,
    /// The scopes, separated by spaces.
    pub scopes: String,
    /// When it expires.
    pub expires_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Iterates over the scopes.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.split_ascii_whitespace()
    }

    /// Returns the username of the credentials.
    #[must_use]
    pub fn username(&self) -> String {
        match &self.username {
            Some(username) => username.clone(),
            None => format!("holdfast+deploy-token-{}", self.id),
        }
    }

    /// Returns whether the token has expired.
    #[must_use]
    pub fn is_expired(&self, now: DateTime<Utc>) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }

    /// Returns whether the token is valid for a project: its own, or any in its group and the subgroups.
    ///
    /// # Errors
    /// Any database error.
    pub async fn is_valid_for(
        &self,
        db: &impl ConnectionTrait,
        project: &projects::Model,
    ) -> Result<bool, DbErr> {
        match self.namespace_id {
            Some(_) => self.is_valid_for_group(db, project.namespace_id).await,
            None => Ok(self.project_id == Some(project.id)),
        }
    }

    /// Returns whether the token belongs to a group or to an ancestor of the group.
    ///
    /// # Errors
    /// Any database error.
    pub async fn is_valid_for_group(
        &self,
        db: &impl ConnectionTrait,
        namespace_id: i64,
    ) -> Result<bool, DbErr> {
        let Some(group) = self.namespace_id else {
            return Ok(false);
        };
        let within = namespace_ancestors::Entity::find()
            .filter(namespace_ancestors::Column::NamespaceId.eq(namespace_id))
            .filter(namespace_ancestors::Column::AncestorId.eq(group));
        Ok(within.one(db).await?.is_some())
    }
}

/// Selects the tokens of a project or group itself.
pub fn of(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}

/// Selects the tokens that have expired at a time, or the ones that have not.
pub fn by_expiry(tokens: Select<Entity>, expired: bool, now: DateTime<Utc>) -> Select<Entity> {
    tokens.filter(match expired {
        true => Column::ExpiresAt.lte(now),
        false => Column::ExpiresAt.is_null().or(Column::ExpiresAt.gt(now)),
    })
}
