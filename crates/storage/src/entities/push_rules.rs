//! Push rules of projects and groups.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::Query;
use sea_orm::{
    ActiveValue::{NotSet, Set},
    IntoActiveModel, JoinType, QueryOrder, QuerySelect,
};

use super::related_rows::RelatedPart;
use super::{Scope, namespace_ancestors};

/// Push rules of projects and groups.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "push_rules")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; none if the rule belongs to a group.
    pub project_id: Option<i64>,
    /// The group; none if the rule belongs to a project.
    pub namespace_id: Option<i64>,
    /// Expression that messages of commits must match.
    pub commit_message_regex: Option<String>,
    /// Expression that messages of commits must not match.
    pub commit_message_negative_regex: Option<String>,
    /// Expression that names of branches must match.
    pub branch_name_regex: Option<String>,
    /// Expression that email addresses of authors and committers must match.
    pub author_email_regex: Option<String>,
    /// Expression that paths of added files must not match.
    pub file_name_regex: Option<String>,
    /// Whether pushes cannot delete tags.
    pub deny_delete_tag: bool,
    /// Whether the authors of commits must be users.
    pub member_check: bool,
    /// Whether files whose names suggest secrets cannot be added.
    pub prevent_secrets: bool,
    /// Maximum size of a file in MiB; 0 if there is no maximum.
    pub max_file_size: i32,
    /// Whether the committer must have a confirmed email address of the user who pushes.
    pub commit_committer_check: bool,
    /// Whether the committer must have the name of the user who pushes.
    pub commit_committer_name_check: bool,
    /// Whether commits must have a signature.
    pub reject_unsigned_commits: bool,
    /// Whether commits must have a sign-off.
    pub reject_non_dco_commits: bool,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the rule of a project or group itself, without the rules of groups above.
pub fn of(scope: Scope) -> Select<Entity> {
    Entity::find().filter(scope.owns(Column::ProjectId, Column::NamespaceId))
}

/// Returns a part with one row if a project has a rule.
pub fn presence(project_id: i64) -> RelatedPart {
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::ProjectId.eq(project_id))
        .take();
    RelatedPart::exists(rows, project_id)
}

/// Copies the rule of a namespace or of its nearest ancestor with a rule to a new project. Without such a rule, nothing is
/// inserted.
///
/// # Errors
/// Any database error; a unique violation if the project has a rule.
pub async fn copy_to_project(
    db: &impl ConnectionTrait,
    namespace_id: i64,
    project_id: i64,
    at: DateTime<Utc>,
) -> Result<(), DbErr> {
    use namespace_ancestors::Column as Ancestor;
    let above: RelationDef = Entity::belongs_to(namespace_ancestors::Entity)
        .from(Column::NamespaceId)
        .to(Ancestor::AncestorId)
        .into();
    let nearest = Entity::find()
        .join(JoinType::InnerJoin, above)
        .filter(Ancestor::NamespaceId.eq(namespace_id))
        .order_by_asc(Ancestor::Depth);
    let found = nearest.one(db).await?;
    let Some(template) = found else {
        return Ok(());
    };
    let mut row = template.into_active_model().reset_all();
    row.id = NotSet;
    row.project_id = Set(Some(project_id));
    row.namespace_id = Set(None);
    row.created_at = Set(at);
    row.updated_at = Set(at);
    row.insert(db).await.map(drop)
}
