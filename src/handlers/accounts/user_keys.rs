//! SSH keys of users.

use domain::accounts::users::keys::NewKey;
use domain::accounts::users::{key_lookups, keys};
use domain::audit::Actor;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use storage::entities::user_keys::KeyUsage;

use crate::api::routes::UserKeysApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::accounts::account::{found_key, key};
use crate::views::enums::Convert;
use contract::{
    CreateOwnKeyRequest, CreateUserKeyRequest, DeleteOwnKeyRequest, DeleteUserKeyRequest, FindKeyRequest,
    GetKeyRequest, GetOwnKeyRequest, GetUserKeyRequest, SshKey, UserKey, UserKeyCreate,
};

fn new_key(body: UserKeyCreate) -> NewKey {
    NewKey {
        title: body.title,
        key: body.key,
        expires_at: body.expires_at.into_patch().into_value().map(|end| end.to_utc()),
        usage_type: body.usage_type.map_or(KeyUsage::AuthAndSigning, Convert::convert),
    }
}

impl UserKeysApi for App {
    async fn list_own_keys(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<UserKey>> {
        let user = access.caller.signed_in()?;
        Ok(keys::list(&self.backend, user.id, &page).await?.map(key))
    }

    async fn create_own_key(&self, access: InstanceAccess, request: CreateOwnKeyRequest) -> Result<UserKey> {
        let (user, body) = (access.caller.signed_in()?, request.body);
        keys::add(
            &self.backend,
            &Actor::from(&access.caller),
            user.id,
            new_key(body),
        )
        .await
        .map(key)
    }

    async fn get_own_key(&self, access: InstanceAccess, request: GetOwnKeyRequest) -> Result<UserKey> {
        let user = access.caller.signed_in()?;
        keys::get(&self.backend, user.id, request.key_id).await.map(key)
    }

    async fn delete_own_key(&self, access: InstanceAccess, request: DeleteOwnKeyRequest) -> Result<()> {
        let (user, since) = (access.caller.signed_in()?, request.if_unmodified_since);
        keys::remove(
            &self.backend,
            &Actor::from(&access.caller),
            user,
            request.key_id,
            since.as_deref(),
        )
        .await
    }

    async fn list_user_keys(&self, access: UserAccess, page: PageRequest) -> Result<Page<UserKey>> {
        let page = keys::list(&self.backend, access.user.id, &page).await?;
        Ok(page.map(key))
    }

    async fn create_user_key(&self, access: UserAccess, request: CreateUserKeyRequest) -> Result<UserKey> {
        let body = request.body;
        keys::add(
            &self.backend,
            &Actor::from(&access.caller),
            access.user.id,
            new_key(body),
        )
        .await
        .map(key)
    }

    async fn get_user_key(&self, access: UserAccess, request: GetUserKeyRequest) -> Result<UserKey> {
        keys::get(&self.backend, access.user.id, request.key_id)
            .await
            .map(key)
    }

    async fn delete_user_key(&self, access: UserAccess, request: DeleteUserKeyRequest) -> Result<()> {
        let since = request.if_unmodified_since;
        keys::remove(
            &self.backend,
            &Actor::from(&access.caller),
            &access.user,
            request.key_id,
            since.as_deref(),
        )
        .await
    }

    async fn find_key(&self, _: InstanceAccess, request: FindKeyRequest) -> Result<SshKey> {
        let found = key_lookups::find(&self.backend, &request.fingerprint).await?;
        Ok(found_key(found, &self.backend.instance.base_url))
    }

    async fn get_key(&self, _: InstanceAccess, request: GetKeyRequest) -> Result<SshKey> {
        let found = key_lookups::get(&self.backend, request.key_id).await?;
        Ok(found_key(found, &self.backend.instance.base_url))
    }
}
