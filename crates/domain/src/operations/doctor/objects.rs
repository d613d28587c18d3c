//! Checks of the objects of the object storage that rows refer to. Objects are located and measured, not read.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::group_imports::ImportState;
use storage::entities::{
    group_exports, group_imports, instances, namespaces, now, project_uploads, projects, users,
};

use super::BATCH;
use crate::accounts::avatars::AvatarOwner;
use crate::accounts::uploads;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::query::batch_after;
use crate::operations::check::Check;
use crate::transfers::{exports, imports};

/// Text about an object that does not exist.
const MISSING: &str = "its object is missing";

/// The sizes of the objects of a folder, as they were listed.
struct ListedObjects(HashMap<String, u64>);

impl ListedObjects {
    async fn read(backend: &Backend, folder: &str) -> Result<Self> {
        Ok(Self(backend.objects.sizes(folder).await?))
    }

    /// Returns the size of an object. Looks for an object that was not listed, because it can be newer than the list.
    async fn size(&self, backend: &Backend, key: &str) -> Result<Option<u64>> {
        match self.0.get(key) {
            Some(size) => Ok(Some(*size)),
            None => Ok(backend.objects.size(key).await?),
        }
    }
}

/// Checks that the object storage does not belong to another instance.
pub(super) async fn check_storage(backend: &Backend, mut check: Check) -> Result<Check> {
    check.checked = 1;
    let named = backend.objects.instance_id().await?;
    let own = instances::get(backend.database.read()).await?;
    if let (Some(named), Some(own)) = (named, own)
        && named != own.instance_id
    {
        check.problems.push(format!(
            "object storage: it belongs to the instance {named}, but this is the instance {}; stop the server, and set \
             object_store_url to the object storage of this instance",
            own.instance_id
        ));
    }
    Ok(check)
}

/// Checks that the object of each upload exists and has the size of the upload.
pub(super) async fn check_uploads(backend: &Backend, mut check: Check) -> Result<Check> {
    let listed = ListedObjects::read(backend, uploads::FOLDER).await?;
    let mut after = 0;
    loop {
        let stored = project_uploads::Entity::find().filter(project_uploads::Column::StoredAt.is_not_null());
        let db = backend.database.read();
        let batch = batch_after(db, stored, project_uploads::Column::Id, after, BATCH).await?;
        let Some(last) = batch.last() else {
            return Ok(check);
        };
        after = last.id;
        for row in batch {
            check.checked += 1;
            let key = uploads::object_key(row.project_id, &row.secret);
            let problem = match listed.size(backend, &key).await? {
                Some(size) if i64::try_from(size).ok() == Some(row.size) => continue,
                Some(size) => format!("its object has {size} instead of {} bytes", row.size),
                None => MISSING.to_owned(),
            };
            // The objects of a project that is being deleted are deleted before their rows.
            let project = projects::not_deleted().filter(projects::Column::Id.eq(row.project_id));
            if project.one(backend.database.read()).await?.is_some() {
                let (id, project_id) = (row.id, row.project_id);
                check
                    .problems
                    .push(format!("upload {id} of the project {project_id}: {problem}"));
            }
        }
    }
}

/// Checks that the object of each avatar of a project, group or user exists.
pub(super) async fn check_avatars(backend: &Backend, mut check: Check) -> Result<Check> {
    let of_projects = AvatarColumns::<projects::Entity> {
        id: projects::Column::Id,
        avatar: projects::Column::Avatar,
        deletion_started_at: projects::Column::DeletionStartedAt,
        owner: AvatarOwner::Project,
        name: "project",
        folder: uploads::FOLDER,
    };
    of_projects.check(backend, &mut check).await?;
    let of_groups = AvatarColumns::<namespaces::Entity> {
        id: namespaces::Column::Id,
        avatar: namespaces::Column::Avatar,
        deletion_started_at: namespaces::Column::DeletionStartedAt,
        owner: AvatarOwner::Group,
        name: "group",
        folder: "groups",
    };
    of_groups.check(backend, &mut check).await?;
    let of_users = AvatarColumns::<users::Entity> {
        id: users::Column::Id,
        avatar: users::Column::Avatar,
        deletion_started_at: users::Column::DeletionStartedAt,
        owner: AvatarOwner::User,
        name: "user",
        folder: "users",
    };
    of_users.check(backend, &mut check).await?;
    Ok(check)
}

/// The columns of a table with avatars.
struct AvatarColumns<E: EntityTrait> {
    id: E::Column,
    avatar: E::Column,
    deletion_started_at: E::Column,
    owner: fn(i64) -> AvatarOwner,
    /// Name of a row in problems.
    name: &'static str,
    /// Folder of the objects.
    folder: &'static str,
}

impl<E: EntityTrait> AvatarColumns<E> {
    async fn check(&self, backend: &Backend, check: &mut Check) -> Result<()> {
        let listed = ListedObjects::read(backend, self.folder).await?;
        let with_avatar = || {
            E::find()
                .select_only()
                .column(self.id)
                .filter(self.avatar.is_not_null())
                .filter(self.deletion_started_at.is_null())
        };
        let mut after = 0;
        loop {
            let batch = with_avatar()
                .filter(self.id.gt(after))
                .order_by_asc(self.id)
                .limit(BATCH);
            let batch: Vec<i64> = batch.into_tuple().all(backend.database.read()).await?;
            let Some(last) = batch.last() else {
                return Ok(());
            };
            after = *last;
            for id in batch {
                check.checked += 1;
                let key = (self.owner)(id).object_key();
                if listed.size(backend, &key).await?.is_some() {
                    continue;
                }
                // The avatar can have been removed, or its owner deleted, since the row was read.
                let current = with_avatar().filter(self.id.eq(id)).into_tuple::<i64>();
                if current.one(backend.database.read()).await?.is_some() {
                    check
                        .problems
                        .push(format!("avatar of the {} {id}: {MISSING}", self.name));
                }
            }
        }
    }
}

/// Checks that the archives of exports, and those of imports that have not ended, exist.
pub(super) async fn check_archives(backend: &Backend, mut check: Check) -> Result<Check> {
    let db = backend.database.read();
    let mut after = 0;
    loop {
        // Other archives can be deleted at any time, before their rows.
        let stored = || {
            group_exports::Entity::find()
                .filter(group_exports::Column::StoredAt.is_not_null())
                .filter(group_exports::Column::NamespaceId.is_not_null())
                .filter(group_exports::Column::ExpiresAt.gt(now()))
        };
        let batch = batch_after(db, stored(), group_exports::Column::Id, after, BATCH).await?;
        let Some(last) = batch.last() else { break };
        after = last.id;
        for row in batch {
            check.checked += 1;
            let found = backend.objects.size(&exports::object_key(&row.secret)).await?;
            let current = stored().filter(group_exports::Column::Id.eq(row.id));
            if found.is_none() && current.one(db).await?.is_some() {
                let id = row.id;
                check
                    .problems
                    .push(format!("archive of the group export {id}: {MISSING}"));
            }
        }
    }
    after = 0;
    loop {
        let needed = || {
            group_imports::Entity::find()
                .filter(group_imports::Column::Secret.is_not_null())
                .filter(group_imports::Column::NamespaceId.is_not_null())
                .filter(group_imports::Column::State.is_in([ImportState::Scheduled, ImportState::Started]))
        };
        let batch = batch_after(db, needed(), group_imports::Column::Id, after, BATCH).await?;
        let Some(last) = batch.last() else {
            return Ok(check);
        };
        after = last.id;
        for row in batch {
            check.checked += 1;
            let Some(secret) = &row.secret else { continue };
            let found = backend.objects.size(&imports::object_key(secret)).await?;
            let current = needed().filter(group_imports::Column::Id.eq(row.id));
            if found.is_none() && current.one(db).await?.is_some() {
                let id = row.id;
                check
                    .problems
                    .push(format!("archive of the group import {id}: {MISSING}"));
            }
        }
    }
}
