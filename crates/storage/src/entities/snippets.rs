//! Snippets of projects, and of users outside of projects. What they hold is in [`super::snippet_contents`].

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, Query};
use sea_orm::{Condition, QuerySelect};

use super::access::{self, Viewer};
use super::{AccessLevel, Visibility, projects};

/// Snippets of projects, and of users outside of projects. What they hold is in [`super::snippet_contents`].
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "snippets")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; none when it is its author's own.
    pub project_id: Option<i64>,
    /// Who made it.
    pub author_id: i64,
    /// What it is about.
    pub title: String,
    /// What there is to say.
    pub description: Option<String>,
    /// The name that its content is to be kept under.
    pub file_name: String,
    /// Who may see it, of those who see the project if it is of one.
    pub visibility: Visibility,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When it was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
    /// Who made it.
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

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Author.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Locks a snippet until the transaction ends; none when it is not there.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    Entity::find_by_id(id).lock_exclusive().one(db).await
}

/// Snippets that somebody may see, as a condition on `snippets` that is looked at row by row: their own, those open to
/// them, and all of projects whose members they are; of projects only where the snippets of the project are there for them.
pub fn visible(viewer: Viewer, today: NaiveDate) -> Condition {
    let placed = Condition::any()
        .add(Column::ProjectId.is_null())
        .add(in_projects(access::projects_with_snippets(viewer, today)));
    let open = |external: bool| Column::Visibility.is_in(access::open_to(external));
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

/// Snippets whose project meets a condition on `projects`, looked at row by row.
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
