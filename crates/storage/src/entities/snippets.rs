//! Project snippets and personal snippets. Their content is in [`super::snippet_contents`].

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{Condition, QuerySelect};

use super::access::{self, Viewer};
use super::row_conditions::has_rows;
use super::{AccessLevel, Visibility, projects, users};

/// Project snippets and personal snippets. Their content is in [`super::snippet_contents`].
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "snippets")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; none for a personal snippet.
    pub project_id: Option<i64>,
    /// The author.
    pub author_id: i64,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The file name of the content.
    pub file_name: String,
    /// The visibility, among users who can see the project if it has one.
    pub visibility: Visibility,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
    /// The author.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::AuthorId",
        to = "super::users::Column::Id"
    )]
    Author,
}

impl Related<projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl Related<users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Author.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Locks a snippet until the transaction ends; returns none if it does not exist.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(db).await
}

/// Returns a condition on `snippets`, evaluated for each row, for visible snippets: own ones, open ones, and
/// those of projects in which the viewer is a member. Project snippets require that snippets of the project
/// are available. All require [`has_visible_author`].
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let placed = Condition::all().add(has_visible_author()).add(
        Condition::any()
            .add(Column::ProjectId.is_null())
            .add(in_projects(access::projects_with_snippets(viewer, today))),
    );
    let open = |external: bool| Column::Visibility.is_in(access::visibilities_without_role(external));
    match viewer {
        Viewer::Admin => placed,
        Viewer::Anonymous => Condition::all()
            .add(Column::Visibility.eq(Visibility::Public))
            .add(placed),
        Viewer::User { id, external } => Condition::all().add(placed).add(
            Condition::any()
                .add(open(external))
                .add(Column::AuthorId.eq(id))
                .add(in_projects(access::projects_with_level(
                    id,
                    AccessLevel::Guest,
                    today,
                ))),
        ),
    }
}

/// Returns a condition on `snippets`, evaluated for each row, for snippets whose author is not being deleted. A job
/// deletes the other snippets.
pub fn has_visible_author() -> Expr {
    let mut author = Query::select()
        .expr(Expr::val(1))
        .from(users::Entity)
        .and_where(Expr::col((users::Entity, users::Column::Id)).eq(Expr::col((Entity, Column::AuthorId))))
        .and_where(users::Column::DeletionStartedAt.is_null())
        .take();
    has_rows(&mut author)
}

/// Returns a condition for snippets whose project meets a condition on `projects`, evaluated for each row.
pub fn in_projects(condition: Condition) -> Expr {
    let project = Query::select()
        .expr(Expr::val(1))
        .from(projects::Entity)
        .and_where(
            Expr::col((projects::Entity, projects::Column::Id)).eq(Expr::col((Entity, Column::ProjectId))),
        )
        .cond_where(condition)
        .take();
    Expr::exists(project)
}
