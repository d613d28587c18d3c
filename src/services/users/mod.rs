//! Users: made and changed by administrators, each with a personal namespace of the same path.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    IntoActiveModel, QueryFilter,
};
use storage::database::Violation;
use storage::entities::{
    Visibility, fold, namespace_ancestors, namespaces, now, sessions, taken_emails, user_identities, users,
};

use crate::error::{Error, Result};
use crate::secrets;
use crate::services::{Backend, settings};

mod avatar;
pub mod deletion;
pub mod emails;
pub mod keys;
pub mod listing;
pub mod memberships;
pub mod names;
pub(in crate::services) mod provisioning;
mod states;
pub mod status;

pub use avatar::{avatar, set_avatar};
pub use states::{activate, block, deactivate, unblock};

/// Fewest characters of a password.
const MIN_PASSWORD: usize = 8;
/// Most characters of a password: hashing more would only cost time.
const MAX_PASSWORD: usize = 128;

/// What a new user starts with.
#[derive(Debug, Clone, Default)]
pub struct NewUser {
    /// The name in paths.
    pub username: String,
    /// The name that is shown.
    pub name: String,
    /// The address for mail.
    pub email: String,
    /// None when the user cannot sign in with one.
    pub password: Option<String>,
    /// Whether the user runs the instance.
    pub admin: bool,
}

/// What an administrator may say of a user beside the name; what is absent stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// A contact.
    pub skype: Option<String>,
    /// A contact.
    pub linkedin: Option<String>,
    /// A contact.
    pub twitter: Option<String>,
    /// A web site.
    pub website_url: Option<String>,
    /// The employer.
    pub organization: Option<String>,
    /// The role at the employer.
    pub job_title: Option<String>,
    /// What the user tells of themself.
    pub bio: Option<String>,
    /// Where the user lives.
    pub location: Option<String>,
    /// The address that others may see.
    pub public_email: Option<String>,
    /// How many projects the personal namespace may hold.
    pub projects_limit: Option<i64>,
    /// The id at an identity provider.
    pub extern_uid: Option<String>,
    /// That provider; goes with `extern_uid`.
    pub provider: Option<String>,
    /// Whether the user runs the instance.
    pub admin: Option<bool>,
    /// Whether the user may create groups at the top level.
    pub can_create_group: Option<bool>,
    /// The colour theme of the interface.
    pub theme_id: Option<i64>,
    /// The colour scheme of code.
    pub color_scheme_id: Option<i64>,
    /// A note that administrators keep about the user.
    pub note: Option<String>,
    /// Whether internal projects are private to the user.
    pub external: Option<bool>,
    /// Whether the profile is hidden.
    pub private_profile: Option<bool>,
    /// Whether the address counts as confirmed.
    pub confirmed: Option<bool>,
    /// The administrator who makes the user.
    pub created_by_id: Option<i64>,
}

/// How a user gets a password.
#[derive(Debug, Clone)]
pub enum Password {
    /// This one.
    Chosen(String),
    /// None that anybody knows: nobody signs in with one until an administrator chooses it.
    Unknown,
}

/// What is to change about a user; what is absent stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// The name in paths; the personal namespace follows.
    pub username: Option<String>,
    /// The name that is shown.
    pub name: Option<String>,
    /// The address for mail.
    pub email: Option<String>,
    /// The password; it must be changed again at the next sign-in, and open sessions end.
    pub password: Option<Password>,
    /// The rest.
    pub details: Details,
}

impl Password {
    /// The password that the attributes of a request ask for; one that nobody knows beats a chosen one.
    #[must_use]
    pub fn asked(chosen: Option<String>, reset: Option<bool>, random: Option<bool>) -> Option<Self> {
        match (reset == Some(true) || random == Some(true), chosen) {
            (true, _) => Some(Self::Unknown),
            (false, Some(password)) => Some(Self::Chosen(password)),
            (false, None) => None,
        }
    }

    /// The password of a new user, who must have one.
    ///
    /// # Errors
    /// 400 when nothing was said of it, or only what it is not.
    pub fn required(chosen: Option<String>, reset: Option<bool>, random: Option<bool>) -> Result<Self> {
        if chosen.is_none() && reset.is_none() && random.is_none() {
            return Err(Error::nothing_sent(&[
                "password",
                "reset_password",
                "force_random_password",
            ]));
        }
        Self::asked(chosen, reset, random).ok_or_else(|| Error::attribute("password", "can't be blank"))
    }

    /// The password, where one was chosen.
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

/// Makes a user and the personal namespace; the address counts as confirmed.
///
/// # Errors
/// 409 when the name or address is taken, 400 when the password is too short or the name no path.
pub async fn create(backend: &Backend, new: NewUser) -> Result<users::Model> {
    let confirmed = Details {
        confirmed: Some(true),
        ..Details::default()
    };
    register(backend, new, confirmed).await
}

/// Makes a user, as an administrator describes them, and the personal namespace.
///
/// # Errors
/// As [`create`]; 400 also for half an identity or one that somebody has, and for numbers out of range.
pub async fn register(backend: &Backend, mut new: NewUser, details: Details) -> Result<users::Model> {
    names::check_username(&new.username)?;
    names::check_email(&new.email)?;
    let hash = match new.password.take() {
        Some(password) => Password::Chosen(password).hash().await?,
        None => None,
    };
    let in_force = settings::read(backend).await?;
    let mut row = drafted(&in_force, new, hash);
    row.created_by_id = Set(details.created_by_id);
    let identity = apply(&mut row, details)?;
    backend
        .database
        .transaction(async |transaction| {
            let user = insert(transaction, row).await?;
            identify(transaction, user.id, identity).await?;
            Ok(user)
        })
        .await
}

/// The row of a new user with what the settings say of all.
fn drafted(in_force: &settings::Settings, new: NewUser, password_hash: Option<String>) -> users::ActiveModel {
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
    let user = row.insert(transaction).await.map_err(taken)?;
    taken_emails::take(transaction, &user.email_key, user.id)
        .await
        .map_err(taken)?;
    let namespace = namespaces::ActiveModel {
        kind: Set(namespaces::Kind::User),
        owner_id: Set(Some(user.id)),
        visibility: Set(Visibility::Public),
        description: Set(String::new()),
        created_at: Set(now()),
        ..named(&user)
    };
    let namespace = namespace.insert(transaction).await.map_err(taken)?;
    namespace_ancestors::insert(transaction, namespace.id, None).await?;
    Ok(user)
}

/// What the personal namespace takes over from its user.
fn named(user: &users::Model) -> namespaces::ActiveModel {
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

/// Changes a user; a new name moves the personal namespace in the same transaction.
///
/// # Errors
/// As [`register`].
pub async fn update(backend: &Backend, user: users::Model, changes: Changes) -> Result<users::Model> {
    let former = user.email_key.clone();
    let mut row = user.into_active_model();
    rename(&mut row, changes.username, changes.name, changes.email)?;
    let new_password = changes.password.is_some();
    if let Some(password) = changes.password {
        row.password_hash = Set(password.hash().await?);
        row.password_change_required = Set(true);
    }
    let identity = apply(&mut row, changes.details)?;
    row.updated_at = Set(now());
    backend
        .database
        .transaction(async |transaction| {
            let user = save(transaction, row, &former).await?;
            let id = user.id;
            identify(transaction, id, identity).await?;
            if new_password {
                end_sessions(transaction, id).await?;
            }
            Ok(user)
        })
        .await
}

/// Sets on a row what a user is called, and where mail goes.
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
        // Without a word on it, a new address is one that nobody has confirmed.
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

/// Changes the row of a user who had this address, and what follows from it: who has which address, and the personal namespace.
async fn save(
    transaction: &DatabaseTransaction,
    row: users::ActiveModel,
    former: &str,
) -> Result<users::Model> {
    let user = row.update(transaction).await.map_err(taken)?;
    if user.email_key != former {
        emails::make_primary(transaction, user.id, &user.email_key)
            .await
            .map_err(taken)?;
        taken_emails::release(transaction, former, user.id).await?;
    }
    namespaces::Entity::update_many()
        .set(named(&user))
        .filter(namespaces::Column::OwnerId.eq(user.id))
        .exec(transaction)
        .await
        .map_err(taken)?;
    Ok(user)
}

/// Sets what is given on a row; gives the identity, provider first, that belongs beside it.
fn apply(row: &mut users::ActiveModel, details: Details) -> Result<Option<(String, String)>> {
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
    macro_rules! set {
        ($($field:ident),*; $($optional:ident),*) => {
            $(if let Some(value) = details.$field { row.$field = Set(value); })*
            $(if let Some(value) = details.$optional { row.$optional = Set(Some(value)); })*
        };
    }
    set!(skype, linkedin, twitter, website_url, admin, can_create_group, external, private_profile;
        organization, job_title, bio, location, public_email, note);
    if let Some(confirmed) = details.confirmed {
        row.confirmed_at = Set(confirmed.then(now));
    }
    Ok(identity)
}

/// Notes an account at a provider; a user has one at each.
async fn identify(
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

/// What is said of a user name that somebody has.
pub(in crate::services) const USERNAME_TAKEN: &str = "Username has already been taken";

/// Says which of the unique attributes is taken.
fn taken(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.contains("email") => {
            Error::Conflict("Email has already been taken".into())
        }
        Some(Violation::Unique(_)) => Error::Conflict(USERNAME_TAKEN.into()),
        _ if matches!(error, DbErr::RecordNotUpdated) => Error::not_found("User"),
        _ => error.into(),
    }
}

async fn end_sessions(transaction: &DatabaseTransaction, user_id: i64) -> Result<()> {
    sessions::Entity::delete_many()
        .filter(sessions::Column::UserId.eq(user_id))
        .exec(transaction)
        .await?;
    Ok(())
}

/// Hashes a password off the async threads.
///
/// # Errors
/// 400 when it is too short or too long.
pub async fn hash_password(password: String) -> Result<String> {
    let length = password.chars().count();
    if length < MIN_PASSWORD {
        let text = format!("is too short (minimum is {MIN_PASSWORD} characters)");
        return Err(Error::attribute("password", text));
    }
    if length > MAX_PASSWORD {
        let text = format!("is too long (maximum is {MAX_PASSWORD} characters)");
        return Err(Error::attribute("password", text));
    }
    let hash = tokio::task::spawn_blocking(move || secrets::hash_password(&password));
    Ok(hash.await.map_err(Error::internal)??)
}

/// Replaces a user's password by one that the user chose.
///
/// # Errors
/// As [`hash_password`].
pub async fn set_password(backend: &Backend, user: users::Model, password: String) -> Result<users::Model> {
    let mut row = user.into_active_model();
    row.password_hash = Set(Some(hash_password(password).await?));
    row.password_change_required = Set(false);
    row.updated_at = Set(now());
    Ok(row.update(backend.database.write()).await?)
}
