//! Statuses of users.

use domain::accounts::users::status;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::kernel::error::Result;

use crate::api::routes::UserStatusApi;
use crate::app::App;
use crate::views;
use contract::{SetOwnStatusRequest, UserStatus};

impl UserStatusApi for App {
    async fn get_own_status(&self, access: InstanceAccess) -> Result<UserStatus> {
        let user = access.caller.signed_in()?;
        let found = status::get(&self.backend, user.id).await?;
        Ok(views::accounts::account::status(found))
    }

    async fn set_own_status(
        &self,
        access: InstanceAccess,
        request: SetOwnStatusRequest,
    ) -> Result<UserStatus> {
        let (user, body) = (access.caller.signed_in()?, request.body);
        let set = status::set(&self.backend, user.id, body.emoji.take(), body.message.take()).await?;
        Ok(views::accounts::account::status(set))
    }

    async fn get_user_status(&self, access: UserAccess) -> Result<UserStatus> {
        let found = status::get(&self.backend, access.user.id).await?;
        Ok(views::accounts::account::status(found))
    }
}
