//! Repositories of the container registry: resolution of names, creation and deletion.

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

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::registry::error::{RegistryError, RegistryErrorCode};
use parsers::registry::ImageName;

/// Number of rows that are deleted at a time, each with its dependents.
const MAX_ERASED: u64 = 200;

/// A resolved image name: a project and the rest of the name.
#[derive(Debug, Clone)]
pub struct RepositoryPath {
    /// The full name.
    pub name: ImageName,
    /// The project.
    pub access: ProjectAccess,
    /// The name of the repository within the project; empty for the path of the project itself.
    pub image: String,
}

impl RepositoryPath {
    /// Resolves the project of a name. Returns `None` if it does not exist or is not visible to the caller.
    /// The longest matching path is used, although a project and a group never share a path.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn find(backend: &Backend, caller: &Caller, name: &ImageName) -> Result<Option<Self>> {
        for (path, image) in name.possible_splits() {
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

    /// Returns the repository, which exists after the first push.
    ///
    /// # Errors
    /// Returns `NAME_UNKNOWN` if it does not exist.
    pub async fn repository(&self, backend: &Backend) -> Result<Model, RegistryError> {
        let found = by_name(self.access.project.id, &self.image);
        let found = found.one(backend.database.read()).await?;
        found.ok_or_else(|| name_unknown(&self.name))
    }

    /// Returns the repository, creating it if needed.
    ///
    /// # Errors
    /// Returns `NAME_UNKNOWN` if the project was deleted.
    pub(super) async fn repository_for_push(
        &self,
        db: &impl ConnectionTrait,
    ) -> Result<Model, RegistryError> {
        let project_id = self.access.project.id;
        if let Some(found) = by_name(project_id, &self.image).one(db).await? {
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
        let result = Entity::insert(row)
            .on_conflict(once)
            .exec_without_returning(db)
            .await;
        match result {
            Err(error) if matches!(Violation::of(&error), Some(Violation::ForeignKey(_))) => {
                return Err(name_unknown(&self.name));
            }
            result => drop(result?),
        }
        let found = by_name(project_id, &self.image).one(db).await?;
        found.ok_or_else(|| name_unknown(&self.name))
    }
}

/// Returns the error of a repository that does not exist or is not visible.
pub fn name_unknown(name: &ImageName) -> RegistryError {
    RegistryError::with_detail(
        RegistryErrorCode::NameUnknown,
        "repository name not known to the registry",
        name,
    )
}

fn by_name(project_id: i64, image: &str) -> sea_orm::Select<Entity> {
    of_project(project_id).filter(Column::Name.eq(image))
}

/// Hides a repository and frees its name. Returns false if that was done already. A job that is enqueued in
/// the same transaction deletes its content with [`delete_content`].
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn begin_deletion(transaction: &impl ConnectionTrait, id: i64) -> Result<bool> {
    let begun = Entity::update_many()
        .col_expr(Column::DeletionStartedAt, Expr::value(now()))
        .filter(Column::Id.eq(id))
        .filter(Column::DeletionStartedAt.is_null())
        .exec(transaction)
        .await?;
    Ok(begun.rows_affected > 0)
}

/// Deletes the content of a hidden repository in short transactions. Rows that an interrupted attempt deleted
/// are skipped. Its blobs are left to the garbage collection.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_content(backend: &Backend, id: i64) -> Result<()> {
    // Referring rows before the referenced ones, so that no deletion cascades to many rows.
    delete_rows::<registry_tags::Entity>(
        backend,
        (registry_tags::Column::Id, registry_tags::Column::RepositoryId),
        id,
    )
    .await?;
    delete_rows::<references::Entity>(
        backend,
        (references::Column::Id, references::Column::RepositoryId),
        id,
    )
    .await?;
    delete_rows::<registry_manifests::Entity>(
        backend,
        (
            registry_manifests::Column::Id,
            registry_manifests::Column::RepositoryId,
        ),
        id,
    )
    .await?;
    delete_rows::<links::Entity>(backend, (links::Column::Id, links::Column::RepositoryId), id).await?;
    delete_rows::<registry_uploads::Entity>(
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

/// Deletes the rows of a table that belong to a repository, each batch in a separate transaction.
async fn delete_rows<E: EntityTrait>(
    backend: &Backend,
    (id, repository_id): (E::Column, E::Column),
    repository: i64,
) -> Result<()> {
    loop {
        let ids: Vec<i64> = E::find()
            .select_only()
            .column(id)
            .filter(repository_id.eq(repository))
            .limit(MAX_ERASED)
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

/// Deletes all repositories of a project that is being deleted, so that the deletion of its row does not
/// cascade to them.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn delete_all_content(backend: &Backend, project_id: i64) -> Result<()> {
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
        delete_content(backend, id).await?;
    }
    Ok(())
}
