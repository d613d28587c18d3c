//! Users: made by administrators, each with a personal namespace of the same path.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, DbErr, IntoActiveModel};

use crate::database::Violation;
use crate::entities::{Visibility, fold, namespace_ancestors, namespaces, now, users};
use crate::error::{Error, Result};
use crate::secrets;
use crate::services::Backend;

/// Fewest characters of a password.
const MIN_PASSWORD: usize = 8;

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

/// Makes a user and the personal namespace.
///
/// # Errors
/// 409 when the name or address is taken, 400 when the password is too short or the name no path.
pub async fn create(backend: &Backend, new: NewUser) -> Result<users::Model> {
    let hash = match &new.password {
        Some(password) => Some(hash_password(password.clone()).await?),
        None => None,
    };
    let row = users::ActiveModel {
        username: Set(new.username.clone()),
        username_key: Set(fold(&new.username)),
        name: Set(new.name),
        email: Set(new.email.clone()),
        email_key: Set(fold(&new.email)),
        password_hash: Set(hash),
        admin: Set(new.admin),
        confirmed_at: Set(Some(now())),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| insert(transaction, row).await)
        .await
}

async fn insert(transaction: &DatabaseTransaction, row: users::ActiveModel) -> Result<users::Model> {
    let user = row.insert(transaction).await.map_err(taken)?;
    let namespace = namespaces::ActiveModel {
        kind: Set(namespaces::Kind::User),
        owner_id: Set(Some(user.id)),
        name: Set(user.name.clone()),
        name_key: Set(fold(&user.username)),
        path: Set(user.username.clone()),
        full_path: Set(user.username.clone()),
        full_path_key: Set(user.username_key.clone()),
        description: Set(String::new()),
        visibility: Set(Visibility::Public),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    let namespace = namespace.insert(transaction).await.map_err(taken)?;
    namespace_ancestors::insert(transaction, namespace.id, None).await?;
    Ok(user)
}

/// Says which of the unique attributes is taken.
fn taken(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.contains("email") => {
            Error::Conflict("Email has already been taken".into())
        }
        Some(Violation::Unique(_)) => Error::Conflict("Username has already been taken".into()),
        _ => error.into(),
    }
}

/// Hashes a password off the async threads.
///
/// # Errors
/// 400 when it is too short.
pub async fn hash_password(password: String) -> Result<String> {
    if password.chars().count() < MIN_PASSWORD {
        let text = format!("is too short (minimum is {MIN_PASSWORD} characters)");
        return Err(Error::attribute("password", text));
    }
    let hash = tokio::task::spawn_blocking(move || secrets::hash_password(&password));
    Ok(hash.await.map_err(Error::internal)??)
}

/// Replaces a user's password.
///
/// # Errors
/// As [`hash_password`].
pub async fn set_password(backend: &Backend, user: users::Model, password: String) -> Result<users::Model> {
    let mut row = user.into_active_model();
    row.password_hash = Set(Some(hash_password(password).await?));
    row.updated_at = Set(now());
    Ok(row.update(backend.database.write()).await?)
}
