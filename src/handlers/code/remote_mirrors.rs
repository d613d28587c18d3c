//! Remote mirrors of a project.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::mirrors::{self, MirrorSettings};

use crate::api::routes::RemoteMirrorsApi;
use crate::app::App;
use crate::views::code::remote_mirror as view;
use contract::{
    CreateRemoteMirrorRequest, DeleteRemoteMirrorRequest, GetRemoteMirrorRequest, RemoteMirror,
    SyncRemoteMirrorRequest, UpdateRemoteMirrorRequest,
};

impl RemoteMirrorsApi for App {
    async fn list_remote_mirrors(
        &self,
        access: ProjectAccess,
        page: PageRequest,
    ) -> Result<Page<RemoteMirror>> {
        Ok(mirrors::list(&self.backend, &access, &page)
            .await?
            .map(view::mirror))
    }

    async fn create_remote_mirror(
        &self,
        access: ProjectAccess,
        request: CreateRemoteMirrorRequest,
    ) -> Result<RemoteMirror> {
        let body = request.body;
        let settings = MirrorSettings {
            enabled: body.enabled,
            only_protected_branches: body.only_protected_branches,
            keep_divergent_refs: body.keep_divergent_refs,
        };
        let mirror = mirrors::create(&self.backend, &access, &body.url, settings).await?;
        Ok(view::mirror(mirror))
    }

    async fn get_remote_mirror(
        &self,
        access: ProjectAccess,
        request: GetRemoteMirrorRequest,
    ) -> Result<RemoteMirror> {
        let mirror = mirrors::get(&self.backend, &access, request.mirror_id).await?;
        Ok(view::mirror(mirror))
    }

    async fn update_remote_mirror(
        &self,
        access: ProjectAccess,
        request: UpdateRemoteMirrorRequest,
    ) -> Result<RemoteMirror> {
        let settings = MirrorSettings {
            enabled: request.body.enabled,
            only_protected_branches: request.body.only_protected_branches,
            keep_divergent_refs: request.body.keep_divergent_refs,
        };
        let mirror = mirrors::update(&self.backend, &access, request.mirror_id, settings).await?;
        Ok(view::mirror(mirror))
    }

    async fn delete_remote_mirror(
        &self,
        access: ProjectAccess,
        request: DeleteRemoteMirrorRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since;
        mirrors::delete(&self.backend, &access, request.mirror_id, since.as_deref()).await
    }

    async fn sync_remote_mirror(
        &self,
        access: ProjectAccess,
        request: SyncRemoteMirrorRequest,
    ) -> Result<()> {
        mirrors::sync(&self.backend, &access, request.mirror_id).await
    }
}
