//! Repositories of images: which one a name means, and how one comes and goes.

use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, ExprTrait, QueryFilter, QueryOrder,
    QuerySelect,
};
use storage::database::Violation;
use storage::entities::registry_repositories::{ActiveModel, Column, Entity, Model, of_project};
use storage::entities::{
    now, registry_manifest_references as references, registry_manifests, registry_repository_blobs as links,
    registry_tags, registry_uploads,
};

use super::fault::{Code, Fault};
use super::names::Name;
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;

/// How many rows are erased at a time, each with what depends on it.
const ERASED: u64 = 200;

/// What a name of an image means to a caller: a project, and what of the name is behind its path.
#[derive(Debug, Clone)]
pub struct Place {
    /// The whole name.
    pub name: Name,
    /// The project.
    pub access: ProjectAccess,
    /// The name of the repository within the project; empty for the one that has the path of the project.
    pub image: String,
}

impl Place {
    /// The project whose path a name begins with; none when there is none that the caller may know of. Of several it would
    /// be the longest, though a project and a group never have the same path.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn find(backend: &Backend, caller: &Caller, name: &Name) -> Result<Option<Self>> {
        for (path, image) in name.readings() {
            match ProjectAccess::find(backend, caller.clone(), path).await {
                Err(Error::NotFound(_)) => {}
                found => {
                    return Ok(Some(Self {
                        name: name.clone(),
                        access: found?,
                        image: image.to_owned(),
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The repository, once something was pushed to it.
    ///
    /// # Errors
    /// `NAME_UNKNOWN` when nothing was.
    pub async fn repository(&self, backend: &Backend) -> Result<Model, Fault> {
        let found = named(self.access.project.id, &self.image);
        let found = found.one(backend.database.read()).await?;
        found.ok_or_else(|| unknown(&self.name))
    }

    /// The repository, which is made when there is none.
    ///
    /// # Errors
    /// `NAME_UNKNOWN` when the project has gone.
    pub(super) async fn repository_for_push(&self, db: &impl ConnectionTrait) -> Result<Model, Fault> {
        let project_id = self.access.project.id;
        if let Some(found) = named(project_id, &self.image).one(db).await? {
            return Ok(found);
        }
        let row = ActiveModel {
            project_id: Set(project_id),
            name: Set(self.image.clone()),
            created_at: Set(now()),
            ..Default::default()
        };
        let once = OnConflict::columns([Column::ProjectId, Column::Name])
            .target_and_where(Expr::col(Column::DeletionStartedAt).is_null())
            .do_nothing()
            .to_owned();
        let made = Entity::insert(row)
            .on_conflict(once)
            .exec_without_returning(db)
            .await;
        match made {
            Err(error) if matches!(Violation::of(&error), Some(Violation::ForeignKey(_))) => {
                return Err(unknown(&self.name));
            }
            made => drop(made?),
        }
        let found = named(project_id, &self.image).one(db).await?;
        found.ok_or_else(|| unknown(&self.name))
    }
}

/// That there is no such repository, or that it is not for the caller to know.
pub fn unknown(name: &Name) -> Fault {
    Fault::about(
        Code::NameUnknown,
        "repository name not known to the registry",
        name,
    )
}

fn named(project_id: i64, image: &str) -> sea_orm::Select<Entity> {
    of_project(project_id).filter(Column::Name.eq(image))
}

/// Takes a repository away from everybody at once, and frees its name; false when that was done already. What it holds is
/// erased by [`erase`], in a job that is enqueued in the same transaction.
///
/// # Errors
/// Whatever the database reports.
pub async fn begin_deletion(transaction: &impl ConnectionTrait, id: i64) -> Result<bool> {
    let begun = Entity::update_many()
        .col_expr(Column::DeletionStartedAt, Expr::value(now()))
        .filter(Column::Id.eq(id))
        .filter(Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    Ok(begun.rows_affected > 0)
}

/// Erases a repository whose deletion began, in parts that nobody has to wait for long. Whatever was erased by an attempt that
/// was killed is no obstacle. Blobs are found by the collector, as they are in no repository any more.
///
/// # Errors
/// Whatever the database reports.
pub async fn erase(backend: &Backend, id: i64) -> Result<()> {
    // What leads to others goes before these, so that nothing takes a crowd along.
    erase_rows::<registry_tags::Entity>(
        backend,
        (registry_tags::Column::Id, registry_tags::Column::RepositoryId),
        id,
    )
    .await?;
    erase_rows::<references::Entity>(
        backend,
        (references::Column::Id, references::Column::RepositoryId),
        id,
    )
    .await?;
    erase_rows::<registry_manifests::Entity>(
        backend,
        (
            registry_manifests::Column::Id,
            registry_manifests::Column::RepositoryId,
        ),
        id,
    )
    .await?;
    erase_rows::<links::Entity>(backend, (links::Column::Id, links::Column::RepositoryId), id).await?;
    erase_rows::<registry_uploads::Entity>(
        backend,
        (
            registry_uploads::Column::Id,
            registry_uploads::Column::RepositoryId,
        ),
        id,
    )
    .await?;
    let db = backend.database.write();
    Entity::delete_many()
        .filter(Column::Id.eq(id))
        .filter(Column::DeletionStartedAt.is_not_null())
        .exec(db)
        .await?;
    Ok(())
}

/// Erases the rows of a table that belong to a repository, each part in a transaction of its own.
async fn erase_rows<E: EntityTrait>(
    backend: &Backend,
    (id, repository_id): (E::Column, E::Column),
    repository: i64,
) -> Result<()> {
    loop {
        let ids: Vec<i64> = E::find()
            .select_only()
            .column(id)
            .filter(repository_id.eq(repository))
            .limit(ERASED)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        if ids.is_empty() {
            return Ok(());
        }
        E::delete_many()
            .filter(id.is_in(ids))
            .exec(backend.database.write())
            .await?;
    }
}

/// Erases all repositories of a project that is being removed, so that its row takes none along.
///
/// # Errors
/// Whatever the database reports.
pub async fn erase_all(backend: &Backend, project_id: i64) -> Result<()> {
    let ids: Vec<i64> = Entity::find()
        .select_only()
        .column(Column::Id)
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
        .into_tuple()
        .all(backend.database.read())
        .await?;
    for id in ids {
        begin_deletion(backend.database.write(), id).await?;
        erase(backend, id).await?;
    }
    Ok(())
}
