//! User accounts.

use domain::accounts::avatars;
use domain::accounts::custom_attributes;
use domain::accounts::uploads::UploadedFile;
use domain::accounts::users::listing::{self, UserFilter};
use domain::accounts::users::memberships::{self, MembershipFilter};
use domain::accounts::users::{self, AdminAttributes, NewUser, PasswordSource, deletion};
use domain::audit::Actor;
use domain::identity::access::{InstanceAccess, UserAccess};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::kernel::preconditions;

use crate::api::routes::UsersApi;
use crate::app::App;
use crate::views;
use contract::{
    CreateUserRequest, CurrentUser, DeleteUserIdentityRequest, DeleteUserRequest, GetUserRequest,
    ListUserMembershipsRequest, ListUsersRequest, MembershipSource, SortDirection, TwoFactorFilter,
    UpdateUserRequest, User, UserCreate, UserDetails, UserMembership, UserOrder, UserUpdate,
};

impl UsersApi for App {
    async fn get_current_user(&self, access: InstanceAccess) -> Result<CurrentUser> {
        let user = access.caller.signed_in()?;
        let known = listing::extras(&self.backend, user).await?;
        Ok(views::accounts::users::current(
            user.clone(),
            known,
            &self.backend.instance.base_url,
        ))
    }

    async fn list_users(
        &self,
        access: InstanceAccess,
        request: ListUsersRequest,
        page: PageRequest,
    ) -> Result<Page<User>> {
        let with_attributes = request.with_custom_attributes;
        let found = listing::list(&self.backend, &access.caller, filter(request), &page).await?;
        let ids = found.items.iter().map(|profile| profile.user.id);
        let mut attached = match with_attributes {
            true => custom_attributes::of_users(&self.backend, &access.caller, ids).await?,
            false => None,
        };
        Ok(found.map(|profile| {
            let own = attached.as_mut().map(|all| all.remove(&profile.user.id));
            let own = own.map(Option::unwrap_or_default);
            views::accounts::users::user_with_attributes(profile, own, &self.backend.instance.base_url)
        }))
    }

    async fn create_user(
        &self,
        access: InstanceAccess,
        request: CreateUserRequest,
        picture: Option<UploadedFile>,
    ) -> Result<User> {
        let picture = avatars::validate(picture).await?;
        let creator = access.caller.as_user().map(|user| user.id);
        let (new, details) = new_user(request.body, creator)?;
        let mut user = users::register(&self.backend, &Actor::from(&access.caller), new, details).await?;
        if picture.is_some() {
            user = avatars::set(&self.backend, user, picture).await?;
        }
        let profile = listing::full_profile(&self.backend, user).await?;
        Ok(views::accounts::users::user(
            profile,
            &self.backend.instance.base_url,
        ))
    }

    async fn get_user(&self, access: UserAccess, request: GetUserRequest) -> Result<User> {
        let id = access.user.id;
        let attached = match request.with_custom_attributes {
            true => custom_attributes::of_users(&self.backend, &access.caller, [id]).await?,
            false => None,
        };
        let own = attached.map(|mut all| all.remove(&id).unwrap_or_default());
        let profile = listing::get(&self.backend, &access.caller, access.user).await?;
        Ok(views::accounts::users::user_with_attributes(
            profile,
            own,
            &self.backend.instance.base_url,
        ))
    }

    async fn update_user(
        &self,
        access: UserAccess,
        request: UpdateUserRequest,
        picture: Option<UploadedFile>,
    ) -> Result<User> {
        let picture = avatars::validate(picture).await?;
        // An empty text in place of the file removes the avatar.
        let pictured = picture.is_some() || request.body.avatar.is_some();
        let mut changed = users::update(
            &self.backend,
            &Actor::from(&access.caller),
            access.user,
            changes(request.body),
        )
        .await?;
        if pictured {
            changed = avatars::set(&self.backend, changed, picture).await?;
        }
        let profile = listing::full_profile(&self.backend, changed).await?;
        Ok(views::accounts::users::user(
            profile,
            &self.backend.instance.base_url,
        ))
    }

    async fn delete_user(&self, access: UserAccess, request: DeleteUserRequest) -> Result<()> {
        preconditions::check_unmodified_since(
            request.if_unmodified_since.as_deref(),
            access.user.updated_at,
        )?;
        deletion::delete(&self.backend, &access, request.hard_delete).await
    }

    async fn block_user(&self, access: UserAccess) -> Result<bool> {
        users::block(&self.backend, &access).await
    }

    async fn deactivate_user(&self, access: UserAccess) -> Result<bool> {
        users::deactivate(&self.backend, &access).await
    }

    async fn activate_user(&self, access: UserAccess) -> Result<bool> {
        users::activate(&self.backend, &access).await
    }

    async fn unlock_user(&self, access: UserAccess) -> Result<bool> {
        users::unlock(&self.backend, &access).await?;
        Ok(true)
    }

    async fn list_user_memberships(
        &self,
        access: UserAccess,
        request: ListUserMembershipsRequest,
        page: PageRequest,
    ) -> Result<Page<UserMembership>> {
        let filter = match request.r#type {
            None => MembershipFilter::Any,
            Some(MembershipSource::Project) => MembershipFilter::Projects,
            Some(MembershipSource::Namespace) => MembershipFilter::Groups,
        };
        let page = memberships::list(&self.backend, access.user.id, filter, &page).await?;
        Ok(page.map(views::accounts::account::membership))
    }

    async fn unblock_user(&self, access: UserAccess) -> Result<bool> {
        users::unblock(&self.backend, &access).await
    }

    async fn delete_user_identity(
        &self,
        access: UserAccess,
        request: DeleteUserIdentityRequest,
    ) -> Result<()> {
        let actor = Actor::from(&access.caller);
        users::identities::remove(&self.backend, &actor, &access.user, &request.provider).await
    }
}

fn filter(request: ListUsersRequest) -> UserFilter {
    let sorting = request
        .order_by
        .map_or(listing::UserOrder::Id, |order| match order {
            UserOrder::Id => listing::UserOrder::Id,
            UserOrder::Name => listing::UserOrder::Name,
            UserOrder::Username => listing::UserOrder::Username,
            UserOrder::CreatedAt => listing::UserOrder::CreatedAt,
            UserOrder::UpdatedAt => listing::UserOrder::UpdatedAt,
        });
    let ascending = matches!(request.sort, Some(SortDirection::Asc));
    UserFilter {
        username: request.username,
        search: request.search,
        active: request.active,
        blocked: request.blocked,
        deactivated: false,
        external: request.external,
        extern_uid: request.extern_uid,
        provider: request.provider,
        admins: request.admins,
        two_factor: request
            .two_factor
            .map(|filter| filter == TwoFactorFilter::Enabled),
        without_projects: request.without_projects,
        created_after: request.created_after.map(|time| time.to_utc()),
        created_before: request.created_before.map(|time| time.to_utc()),
        custom_attributes: request
            .custom_attributes
            .unwrap_or_default()
            .into_iter()
            .collect(),
        order: Some((sorting, ascending)),
    }
}

/// Returns the profile and rights in a body.
fn user_details(details: UserDetails) -> AdminAttributes {
    AdminAttributes {
        skype: details.skype,
        linkedin: details.linkedin,
        twitter: details.twitter,
        website_url: details.website_url,
        organization: details.organization,
        job_title: details.job_title,
        theme_id: details.theme_id,
        color_scheme_id: details.color_scheme_id,
        note: details.note,
        bio: details.bio,
        location: details.location,
        public_email: details.public_email,
        projects_limit: details.projects_limit,
        extern_uid: details.extern_uid,
        provider: details.provider,
        admin: details.admin,
        can_create_group: details.can_create_group,
        external: details.external,
        private_profile: details.private_profile,
        confirmed: None,
        created_by_id: None,
    }
}

fn new_user(body: UserCreate, created_by_id: Option<i64>) -> Result<(NewUser, AdminAttributes)> {
    let password = PasswordSource::required(body.password, body.reset_password, body.force_random_password)?;
    // The deprecated attribute requests a confirmation; the newer one skips it.
    let confirmed = body
        .skip_confirmation
        .or(body.confirm.map(|requires_confirmation| !requires_confirmation));
    let new = NewUser {
        username: body.username,
        name: body.name,
        email: body.email,
        password: password.into_chosen(),
        admin: body.user_details.admin == Some(true),
    };
    let details = AdminAttributes {
        confirmed,
        created_by_id,
        ..user_details(body.user_details)
    };
    Ok((new, details))
}

fn changes(body: UserUpdate) -> users::UserUpdate {
    let skip = body.email.is_some() && body.skip_reconfirmation == Some(true);
    users::UserUpdate {
        username: body.username,
        name: body.name,
        email: body.email,
        password: PasswordSource::from_request(
            body.password,
            body.reset_password,
            body.force_random_password,
        ),
        details: AdminAttributes {
            confirmed: skip.then_some(true),
            ..user_details(body.user_details)
        },
    }
}
