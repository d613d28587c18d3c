//! GPG keys of users.

use domain::accounts::users::gpg_keys::{self, KeyRemoval};
use domain::audit::Actor;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::GpgKeysApi;
use crate::app::App;
use crate::views;
use crate::views::accounts::account::gpg_key;
use contract::{
    CreateOwnGpgKeyRequest, CreateUserGpgKeyRequest, DeleteOwnGpgKeyRequest, DeleteUserGpgKeyRequest,
    GetOwnGpgKeyRequest, GetUserGpgKeyRequest, GpgKey, Message, RevokeOwnGpgKeyRequest,
    RevokeUserGpgKeyRequest,
};

impl App {
    async fn remove_own_gpg_key(
        &self,
        access: &InstanceAccess,
        id: i64,
        removal: KeyRemoval,
        since: Option<&str>,
    ) -> Result<()> {
        let (user, actor) = (access.caller.signed_in()?, Actor::from(&access.caller));
        gpg_keys::remove(&self.backend, &actor, user, id, removal, since).await
    }

    async fn remove_user_gpg_key(
        &self,
        access: &UserAccess,
        id: i64,
        removal: KeyRemoval,
        since: Option<&str>,
    ) -> Result<()> {
        let actor = Actor::from(&access.caller);
        gpg_keys::remove(&self.backend, &actor, &access.user, id, removal, since).await
    }
}

impl GpgKeysApi for App {
    async fn list_own_gpg_keys(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<GpgKey>> {
        let user = access.caller.signed_in()?;
        let page = gpg_keys::list(&self.backend, user.id, &page).await?;
        Ok(page.map(gpg_key))
    }

    async fn create_own_gpg_key(
        &self,
        access: InstanceAccess,
        request: CreateOwnGpgKeyRequest,
    ) -> Result<GpgKey> {
        let (user, actor) = (access.caller.signed_in()?, Actor::from(&access.caller));
        let key = gpg_keys::add(&self.backend, &actor, user.id, request.body.key).await?;
        Ok(gpg_key(key))
    }

    async fn get_own_gpg_key(&self, access: InstanceAccess, request: GetOwnGpgKeyRequest) -> Result<GpgKey> {
        let user = access.caller.signed_in()?;
        let key = gpg_keys::get(&self.backend, user.id, request.key_id).await?;
        Ok(gpg_key(key))
    }

    async fn delete_own_gpg_key(
        &self,
        access: InstanceAccess,
        request: DeleteOwnGpgKeyRequest,
    ) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        self.remove_own_gpg_key(&access, request.key_id, KeyRemoval::Deletion, since)
            .await
    }

    async fn revoke_own_gpg_key(
        &self,
        access: InstanceAccess,
        request: RevokeOwnGpgKeyRequest,
    ) -> Result<Message> {
        self.remove_own_gpg_key(&access, request.key_id, KeyRemoval::Revocation, None)
            .await?;
        Ok(views::accepted())
    }

    async fn list_user_gpg_keys(&self, access: UserAccess, page: PageRequest) -> Result<Page<GpgKey>> {
        let page = gpg_keys::list(&self.backend, access.user.id, &page).await?;
        Ok(page.map(gpg_key))
    }

    async fn create_user_gpg_key(
        &self,
        access: UserAccess,
        request: CreateUserGpgKeyRequest,
    ) -> Result<GpgKey> {
        let actor = Actor::from(&access.caller);
        let key = gpg_keys::add(&self.backend, &actor, access.user.id, request.body.key).await?;
        Ok(gpg_key(key))
    }

    async fn get_user_gpg_key(&self, access: UserAccess, request: GetUserGpgKeyRequest) -> Result<GpgKey> {
        let key = gpg_keys::get(&self.backend, access.user.id, request.key_id).await?;
        Ok(gpg_key(key))
    }

    async fn delete_user_gpg_key(&self, access: UserAccess, request: DeleteUserGpgKeyRequest) -> Result<()> {
        let since = request.if_unmodified_since.as_deref();
        self.remove_user_gpg_key(&access, request.key_id, KeyRemoval::Deletion, since)
            .await
    }

    async fn revoke_user_gpg_key(
        &self,
        access: UserAccess,
        request: RevokeUserGpgKeyRequest,
    ) -> Result<Message> {
        self.remove_user_gpg_key(&access, request.key_id, KeyRemoval::Revocation, None)
            .await?;
        Ok(views::accepted())
    }
}
