//! Users, created and updated by administrators. Each has a personal namespace with the same path.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, QueryFilter,
};
use storage::database::Violation;
use storage::entities::{
    Visibility, fold, former_paths, namespace_ancestors, namespaces, now, row_changes, taken_emails,
    user_identities, users,
};

use crate::audit::{self, Actor};
use crate::identity::access_tokens::{self, NewToken};
use crate::identity::passwords::hash_password;
use crate::identity::sessions;
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::assign;
use crate::kernel::settings::InstanceSettings;

mod auditing;
mod avatar;
pub mod deletion;
pub mod emails;
pub mod gpg_keys;
mod identicon;
pub mod identities;
pub mod key_lookups;
pub mod keys;
pub mod listing;
pub mod memberships;
pub mod names;
pub(crate) mod provisioning;
mod state;
pub mod status;

pub use crate::accounts::users::state::{activate, block, block_as, deactivate, unblock, unblock_as, unlock};
pub use avatar::avatar;

/// Attributes of a new user.
#[derive(Debug, Clone, Default)]
pub struct NewUser {
    /// The user name.
    pub username: String,
    /// The display name.
    pub name: String,
    /// The email address.
    pub email: String,
    /// The password; `None` disables signing in with one.
    pub password: Option<String>,
    /// Whether the user is an administrator.
    pub admin: bool,
}

/// Further attributes that administrators set; absent ones are unchanged.
#[derive(Debug, Clone, Default)]
pub struct AdminAttributes {
    /// The Skype name.
    pub skype: Option<String>,
    /// The LinkedIn account.
    pub linkedin: Option<String>,
    /// The Twitter account.
    pub twitter: Option<String>,
    /// The website.
    pub website_url: Option<String>,
    /// The organization.
    pub organization: Option<String>,
    /// The job title.
    pub job_title: Option<String>,
    /// The biography.
    pub bio: Option<String>,
    /// The location.
    pub location: Option<String>,
    /// The public email address.
    pub public_email: Option<String>,
    /// Maximum number of projects in the personal namespace.
    pub projects_limit: Option<i64>,
    /// The ID at an identity provider.
    pub extern_uid: Option<String>,
    /// The provider; required with `extern_uid`.
    pub provider: Option<String>,
    /// Whether the user is an administrator.
    pub admin: Option<bool>,
    /// Whether the user may create top-level groups.
    pub can_create_group: Option<bool>,
    /// The color theme of the interface.
    pub theme_id: Option<i64>,
    /// The color scheme of code.
    pub color_scheme_id: Option<i64>,
    /// An administrators' note about the user.
    pub note: Option<String>,
    /// Whether the user is external: internal projects are not visible.
    pub external: Option<bool>,
    /// Whether the profile is private.
    pub private_profile: Option<bool>,
    /// Whether the address is confirmed.
    pub confirmed: Option<bool>,
    /// The administrator who creates the user.
    pub created_by_id: Option<i64>,
}

/// Source of a user's password.
#[derive(Debug, Clone)]
pub enum PasswordSource {
    /// The given password.
    Chosen(String),
    /// A random, undisclosed password: signing in with one is impossible until an administrator sets another.
    Unknown,
}

/// Changes of a user; absent ones are unchanged.
#[derive(Debug, Clone, Default)]
pub struct UserUpdate {
    /// The user name; the path of the personal namespace follows.
    pub username: Option<String>,
    /// The display name.
    pub name: Option<String>,
    /// The email address.
    pub email: Option<String>,
    /// The password. It must be changed at the next sign-in, and all sessions end.
    pub password: Option<PasswordSource>,
    /// Further attributes.
    pub details: AdminAttributes,
}

impl PasswordSource {
    /// Returns the password for the attributes of a request; a random one takes precedence over a given one.
    #[must_use]
    pub fn from_request(chosen: Option<String>, reset: Option<bool>, random: Option<bool>) -> Option<Self> {
        match (reset == Some(true) || random == Some(true), chosen) {
            (true, _) => Some(Self::Unknown),
            (false, Some(password)) => Some(Self::Chosen(password)),
            (false, None) => None,
        }
    }

    /// Returns the password of a new user, which is required.
    ///
    /// # Errors
    /// Returns a validation error if no attribute requests a password.
    pub fn required(chosen: Option<String>, reset: Option<bool>, random: Option<bool>) -> Result<Self> {
        if chosen.is_none() && reset.is_none() && random.is_none() {
            return Err(Error::no_parameters(&[
                "password",
                "reset_password",
                "force_random_password",
            ]));
        }
        Self::from_request(chosen, reset, random)
            .ok_or_else(|| Error::attribute("password", "can't be blank"))
    }

    /// Returns the password if it was given.
    #[must_use]
    pub fn into_chosen(self) -> Option<String> {
        match self {
            Self::Chosen(password) => Some(password),
            Self::Unknown => None,
        }
    }

    async fn hash(self) -> Result<Option<String>> {
        match self {
            Self::Chosen(password) => hash_password(password).await.map(Some),
            Self::Unknown => Ok(None),
        }
    }
}

/// Creates a user with a personal namespace and a confirmed address.
///
/// # Errors
/// Returns `Conflict` if the name or address is taken. Returns a validation error if the password is too
/// short or the name is not a valid path.
pub async fn create(backend: &Backend, actor: &Actor, new: NewUser) -> Result<users::Model> {
    register(backend, actor, new, confirmed()).await
}

/// As [`create`], with an access token of the user. Either both are created or neither. `token` receives the ID of the
/// user. Returns the secret of the token.
///
/// # Errors
/// Returns the errors of [`create`], and those of [`access_tokens::create`].
pub async fn create_with_token(
    backend: &Backend,
    actor: &Actor,
    new: NewUser,
    token: impl FnOnce(i64) -> NewToken + Send,
) -> Result<String> {
    let (row, identity) = prepare(backend, new, confirmed()).await?;
    backend
        .database
        .transaction(async |transaction| {
            let user = insert_recorded(transaction, actor, row, identity).await?;
            let (row, secret) = access_tokens::prepare(token(user.id))?;
            access_tokens::insert(transaction, actor, &user, row).await?;
            Ok(secret)
        })
        .await
}

/// Returns the attributes of a user with a confirmed address.
fn confirmed() -> AdminAttributes {
    AdminAttributes {
        confirmed: Some(true),
        ..AdminAttributes::default()
    }
}

/// Creates a user with the attributes set by an administrator, and a personal namespace.
///
/// # Errors
/// Returns the errors of [`create`], and a validation error for an incomplete or duplicate identity and for
/// numbers out of range.
pub async fn register(
    backend: &Backend,
    actor: &Actor,
    new: NewUser,
    details: AdminAttributes,
) -> Result<users::Model> {
    let (row, identity) = prepare(backend, new, details).await?;
    backend
        .database
        .transaction(async |transaction| insert_recorded(transaction, actor, row, identity).await)
        .await
}

/// Returns the row and the identity of a new user, provider first.
async fn prepare(
    backend: &Backend,
    mut new: NewUser,
    details: AdminAttributes,
) -> Result<(users::ActiveModel, Option<(String, String)>)> {
    names::check_username(&new.username)?;
    names::check_email(&new.email)?;
    let hash = match new.password.take() {
        Some(password) => PasswordSource::Chosen(password).hash().await?,
        None => None,
    };
    let in_force = settings::get(backend).await?;
    let mut row = new_row(&in_force, new, hash);
    row.created_by_id = Set(details.created_by_id);
    let identity = apply(&mut row, details)?;
    Ok((row, identity))
}

/// Inserts a new user with an identity, and records the events.
async fn insert_recorded(
    transaction: &DatabaseTransaction,
    actor: &Actor,
    row: users::ActiveModel,
    identity: Option<(String, String)>,
) -> Result<users::Model> {
    let user = insert(transaction, row).await?;
    let mut events = vec![auditing::created(&user)];
    events.extend(auditing::identity_added(&user, identity.as_ref()));
    store_identity(transaction, user.id, identity).await?;
    audit::record_all(transaction, actor, events).await?;
    Ok(user)
}

/// Returns the row of a new user with the defaults of the settings.
fn new_row(in_force: &InstanceSettings, new: NewUser, password_hash: Option<String>) -> users::ActiveModel {
    let at = now();
    users::ActiveModel {
        username_key: Set(fold(&new.username)),
        username: Set(new.username),
        name: Set(new.name),
        email_key: Set(fold(&new.email)),
        email: Set(new.email),
        password_hash: Set(password_hash),
        admin: Set(new.admin),
        projects_limit: Set(in_force.default_projects_limit),
        external: Set(in_force.user_default_external),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    }
}

async fn insert(transaction: &DatabaseTransaction, row: users::ActiveModel) -> Result<users::Model> {
    let user = row.insert(transaction).await.map_err(map_unique_violation)?;
    taken_emails::take(transaction, &user.email_key, user.id)
        .await
        .map_err(map_unique_violation)?;
    let namespace = namespaces::ActiveModel {
        kind: Set(namespaces::NamespaceKind::User),
        owner_id: Set(Some(user.id)),
        visibility: Set(Visibility::Public),
        description: Set(String::new()),
        created_at: Set(now()),
        ..namespace_columns(&user)
    };
    let namespace = namespace
        .insert(transaction)
        .await
        .map_err(map_unique_violation)?;
    namespace_ancestors::insert(transaction, namespace.id, None).await?;
    Ok(user)
}

/// Returns the columns of the personal namespace that follow its user.
fn namespace_columns(user: &users::Model) -> namespaces::ActiveModel {
    namespaces::ActiveModel {
        name: Set(user.name.clone()),
        name_key: Set(user.username_key.clone()),
        path: Set(user.username.clone()),
        path_key: Set(user.username_key.clone()),
        full_path: Set(user.username.clone()),
        full_path_key: Set(user.username_key.clone()),
        updated_at: Set(now()),
        ..Default::default()
    }
}

/// Updates a user. A new user name renames the personal namespace in the same transaction. Does nothing if no value
/// differs.
///
/// # Errors
/// Returns the errors of [`register`], `NotFound` if the user was deleted in the meantime, and `Conflict` if the last
/// administrator would be none any more.
pub async fn update(
    backend: &Backend,
    actor: &Actor,
    user: users::Model,
    changes: UserUpdate,
) -> Result<users::Model> {
    let id = user.id;
    // Checked before the password is hashed, which takes time.
    changes
        .username
        .as_deref()
        .map_or(Ok(()), names::check_username)?;
    changes.email.as_deref().map_or(Ok(()), names::check_email)?;
    let new_password = changes.password.is_some();
    let demotes = changes.details.admin == Some(false);
    let new_password_hash = match changes.password {
        Some(password) => password.hash().await?,
        None => None,
    };
    backend
        .database
        .transaction(async |transaction| {
            // Locked together, so that two administrators cannot demote each other.
            if demotes && state::is_last(&users::lock_administrators(transaction).await?, id) {
                let text = "The last administrator must remain one; make another user an administrator first";
                return Err(Error::Conflict(text.into()));
            }
            // Applied to the locked row: the address and its confirmation may have changed since the row was loaded,
            // and the user may have been deleted.
            let current = users::lock(transaction, id).await?;
            let former = current.ok_or_else(|| Error::not_found("User"))?;
            let mut row = former.clone().into_active_model();
            rename(&mut row, changes.username, changes.name, changes.email)?;
            if new_password {
                row.password_hash = Set(new_password_hash);
                row.password_change_required = Set(true);
            }
            let identity = apply(&mut row, changes.details)?;
            let identity = new_identity(transaction, id, identity).await?;
            if !new_password && identity.is_none() && !row_changes::is_changed(&row, &former) {
                return Ok(former);
            }
            row.updated_at = Set(now());
            let user = save(transaction, row, &former).await?;
            let mut events = auditing::changes(&former, &user, new_password);
            events.extend(auditing::identity_added(&user, identity.as_ref()));
            store_identity(transaction, id, identity).await?;
            if new_password {
                sessions::revoke_former_password(transaction, actor, &user).await?;
            }
            audit::record_all(transaction, actor, events).await?;
            Ok(user)
        })
        .await
}

/// Applies names and address to a row.
fn rename(
    row: &mut users::ActiveModel,
    username: Option<String>,
    name: Option<String>,
    email: Option<String>,
) -> Result<()> {
    if let Some(username) = username {
        names::check_username(&username)?;
        row.username_key = Set(fold(&username));
        row.username = Set(username);
    }
    if let Some(email) = email {
        names::check_email(&email)?;
        // A new address is unconfirmed unless stated otherwise.
        if row.email_key.as_ref() != &fold(&email) {
            row.confirmed_at = Set(None);
        }
        row.email_key = Set(fold(&email));
        row.email = Set(email);
    }
    if let Some(name) = name {
        row.name = Set(name);
    }
    Ok(())
}

/// Updates the row of a user, the reserved addresses, the personal namespace and its former paths.
async fn save(
    transaction: &DatabaseTransaction,
    row: users::ActiveModel,
    former: &users::Model,
) -> Result<users::Model> {
    let user = row.update(transaction).await.map_err(map_unique_violation)?;
    if user.email_key != former.email_key {
        emails::make_primary(transaction, user.id, &user.email_key)
            .await
            .map_err(map_unique_violation)?;
        taken_emails::release(transaction, &former.email_key, user.id).await?;
    }
    namespaces::Entity::update_many()
        .set(namespace_columns(&user))
        .filter(namespaces::Column::OwnerId.eq(user.id))
        .exec(transaction)
        .await
        .map_err(map_unique_violation)?;
    if user.username_key != former.username_key
        && let Some(namespace) = namespaces::of_user(transaction, user.id).await?
    {
        former_paths::record_namespace(transaction, None, &former.username, namespace.id).await?;
    }
    Ok(user)
}

/// Applies the given attributes to a row; returns the identity, provider first, which is stored separately.
fn apply(row: &mut users::ActiveModel, details: AdminAttributes) -> Result<Option<(String, String)>> {
    let identity = match (details.provider, details.extern_uid) {
        (Some(provider), Some(uid)) => Some((provider, uid)),
        (None, None) => None,
        _ => {
            return Err(Error::parameter(
                "extern_uid, provider provide all or none of parameters",
            ));
        }
    };
    if let Some(limit) = details.projects_limit {
        let too_many = || {
            let text = format!("must be less than or equal to {}", i32::MAX);
            Error::attribute("projects_limit", text)
        };
        row.projects_limit = Set(i32::try_from(limit).map_err(|_| too_many())?);
    }
    let number = |id: i64, field: &'static str| {
        i32::try_from(id).map_err(|_| Error::attribute(field, "is not included in the list"))
    };
    if let Some(id) = details.theme_id {
        row.theme_id = Set(number(id, "theme_id")?);
    }
    if let Some(id) = details.color_scheme_id {
        row.color_scheme_id = Set(number(id, "color_scheme_id")?);
    }
    assign(&mut row.skype, details.skype);
    assign(&mut row.linkedin, details.linkedin);
    assign(&mut row.twitter, details.twitter);
    assign(&mut row.website_url, details.website_url);
    assign(&mut row.admin, details.admin);
    assign(&mut row.can_create_group, details.can_create_group);
    assign(&mut row.external, details.external);
    assign(&mut row.private_profile, details.private_profile);
    assign(&mut row.organization, details.organization.map(Some));
    assign(&mut row.job_title, details.job_title.map(Some));
    assign(&mut row.bio, details.bio.map(Some));
    assign(&mut row.location, details.location.map(Some));
    assign(&mut row.public_email, details.public_email.map(Some));
    assign(&mut row.note, details.note.map(Some));
    let is_confirmed = row.confirmed_at.try_as_ref().is_some_and(Option::is_some);
    if let Some(confirmed) = details.confirmed.filter(|confirmed| *confirmed != is_confirmed) {
        row.confirmed_at = Set(confirmed.then(now));
    }
    Ok(identity)
}

/// Returns the identity, given as provider and ID, unless the user has it.
async fn new_identity(
    transaction: &DatabaseTransaction,
    user_id: i64,
    identity: Option<(String, String)>,
) -> Result<Option<(String, String)>> {
    let Some((provider, extern_uid)) = identity else {
        return Ok(None);
    };
    let known = user_identities::Entity::find()
        .filter(user_identities::Column::UserId.eq(user_id))
        .filter(user_identities::Column::Provider.eq(provider.as_str()))
        .filter(user_identities::Column::ExternUid.eq(extern_uid.as_str()))
        .one(transaction)
        .await?;
    Ok(known.is_none().then_some((provider, extern_uid)))
}

/// Stores the identity at a provider; a user has one for each provider.
async fn store_identity(
    transaction: &DatabaseTransaction,
    user_id: i64,
    identity: Option<(String, String)>,
) -> Result<()> {
    let Some((provider, extern_uid)) = identity else {
        return Ok(());
    };
    user_identities::Entity::delete_many()
        .filter(user_identities::Column::UserId.eq(user_id))
        .filter(user_identities::Column::Provider.eq(provider.as_str()))
        .exec(transaction)
        .await?;
    let row = user_identities::ActiveModel {
        user_id: Set(user_id),
        provider: Set(provider),
        extern_uid: Set(extern_uid),
        ..Default::default()
    };
    row.insert(transaction).await.map_err(|error| {
        match Violation::is_unique(&error, "uq_user_identities_provider_extern_uid") {
            true => Error::attribute("identities.extern_uid", "has already been taken"),
            false => error.into(),
        }
    })?;
    Ok(())
}

/// Error text of a user name that is taken.
pub(crate) const USERNAME_TAKEN: &str = "Username has already been taken";

/// Maps a unique violation to its attribute.
fn map_unique_violation(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.contains("email") => {
            Error::Conflict("Email has already been taken".into())
        }
        Some(Violation::Unique(_)) => Error::Conflict(USERNAME_TAKEN.into()),
        _ if matches!(error, DbErr::RecordNotUpdated) => Error::not_found("User"),
        _ => error.into(),
    }
}
