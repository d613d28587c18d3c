//! OAuth applications, registered by administrators.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel, QueryOrder, QuerySelect};
use storage::entities::now;
use storage::entities::oauth_applications::{self, Column, Entity};
use storage::entities::oauth_tokens;
use url::Url;

use super::OauthError;
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access_tokens::check_scopes;
use crate::identity::password_attempts::{self, AttemptSource};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::TOKEN_SCOPES;
use crate::kernel::preconditions::check_unmodified_since;
use crate::kernel::query::page_of;
use crate::secrets::{self, Token};

pub use storage::entities::oauth_applications::Model as Application;

/// Prefix of secrets, which secret scanners recognize.
const PREFIX: &str = "hfoas-";
/// Maximum number of redirect URIs of an application.
const MAX_REDIRECT_URIS: usize = 20;
/// Schemes that would run code in, or read data of, the redirected browser.
const FORBIDDEN_SCHEMES: [&str; 8] = [
    "javascript",
    "data",
    "vbscript",
    "file",
    "blob",
    "about",
    "view-source",
    "filesystem",
];

/// Attributes of a new application.
#[derive(Debug, Clone)]
pub struct NewApplication {
    /// The name that is displayed to users.
    pub name: String,
    /// The redirect URIs, separated by whitespace.
    pub redirect_uri: String,
    /// The scopes it may request, separated by whitespace.
    pub scopes: String,
    /// Whether it can store a secret safely.
    pub confidential: bool,
}

/// Registers an application. Its secret is returned only here.
///
/// # Errors
/// Returns a validation error for `redirect_uri` or `scopes`.
pub async fn create(backend: &Backend, actor: &Actor, new: NewApplication) -> Result<(Application, String)> {
    let addresses: Vec<&str> = new.redirect_uri.split_ascii_whitespace().collect();
    if addresses.is_empty() {
        return Err(Error::attribute("redirect_uri", "can't be blank"));
    }
    if addresses.len() > MAX_REDIRECT_URIS {
        let text = format!("has too many URIs (maximum is {MAX_REDIRECT_URIS})");
        return Err(Error::attribute("redirect_uri", text));
    }
    if let Some(fault) = addresses.iter().find_map(|address| redirect_uri_fault(address)) {
        return Err(Error::attribute("redirect_uri", fault));
    }
    let scopes: Vec<String> = new.scopes.split_ascii_whitespace().map(str::to_owned).collect();
    let secret = Token::generate(PREFIX);
    let at = now();
    let row = oauth_applications::ActiveModel {
        uid: Set(hex::encode(rand::random::<[u8; 32]>())),
        secret_digest: Set(secret.digest()),
        name: Set(new.name),
        redirect_uri: Set(addresses.join("\n")),
        scopes: Set(check_scopes(&scopes, &TOKEN_SCOPES)?),
        confidential: Set(new.confidential),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let application = backend
        .database
        .transaction(async |transaction| {
            let application = row.insert(transaction).await?;
            let event = event(AuditKind::OauthApplicationCreated, &application);
            audit::record(transaction, actor, event.to(&application.scopes)).await?;
            Ok::<_, Error>(application)
        })
        .await?;
    Ok((application, secret.expose().to_owned()))
}

fn event(kind: AuditKind, application: &Application) -> AuditEvent {
    let target = AuditTarget::new("OauthApplication", application.id, application.name.clone());
    AuditEvent::new(kind, AuditEntity::instance(), target)
}

/// Returns the fault of a redirect URI, if any.
fn redirect_uri_fault(address: &str) -> Option<&'static str> {
    let Ok(url) = Url::parse(address) else {
        return Some("must be an absolute URI.");
    };
    let web = matches!(url.scheme(), "http" | "https");
    if FORBIDDEN_SCHEMES.contains(&url.scheme()) || !url.username().is_empty() || url.password().is_some() {
        return Some("is forbidden by the server.");
    }
    if url.fragment().is_some() {
        return Some("cannot contain a fragment.");
    }
    let absolute = !web || url.has_host() && address.contains("://");
    let plain = address
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    (!absolute || !plain).then_some("must be an absolute URI.")
}

/// Lists the applications in the order of registration.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list(backend: &Backend, page: &PageRequest) -> Result<Page<Application>> {
    let all = Entity::find().order_by_asc(Column::Id);
    page_of(backend.database.read(), all, page).await
}

/// Generates a new secret for an application. It is returned only here.
///
/// # Errors
/// Returns `NotFound` if the application does not exist.
pub async fn renew_secret(backend: &Backend, actor: &Actor, id: i64) -> Result<(Application, String)> {
    let secret = Token::generate(PREFIX);
    let changed = backend
        .database
        .transaction(async |transaction| {
            // Locked, so that the application is not deleted before the update.
            let found = Entity::find_by_id(id).lock_exclusive().one(transaction).await?;
            let mut row = found.ok_or_else(not_found)?.into_active_model();
            row.secret_digest = Set(secret.digest());
            row.updated_at = Set(now());
            let changed = row.update(transaction).await?;
            audit::record(transaction, actor, event(AuditKind::OauthSecretRenewed, &changed)).await?;
            Ok::<_, Error>(changed)
        })
        .await?;
    Ok((changed, secret.expose().to_owned()))
}

/// Deletes an application with its authorization codes and tokens.
///
/// # Errors
/// Returns `NotFound` if the application does not exist, or `PreconditionFailed` if it was modified after the
/// given date.
pub async fn delete(backend: &Backend, actor: &Actor, id: i64, since: Option<&str>) -> Result<()> {
    let application = get(backend, id).await?;
    check_unmodified_since(since, application.updated_at)?;
    backend
        .database
        .transaction(async |transaction| {
            let deleted = Entity::delete_by_id(id).exec(transaction).await?;
            if deleted.rows_affected > 0 {
                let event = event(AuditKind::OauthApplicationDeleted, &application);
                audit::record(transaction, actor, event).await?;
            }
            Ok(())
        })
        .await
}

async fn get(backend: &Backend, id: i64) -> Result<Application> {
    let found = Entity::find_by_id(id).one(backend.database.read()).await?;
    found.ok_or_else(not_found)
}

fn not_found() -> Error {
    Error::not_found("Application")
}

/// Returns the application of a token.
///
/// # Errors
/// Returns `Unauthorized` if the application was deleted, and the token with it.
pub async fn application_of_token(backend: &Backend, token: &oauth_tokens::Model) -> Result<Application> {
    let found = Entity::find_by_id(token.application_id)
        .one(backend.database.read())
        .await?;
    found.ok_or(Error::Unauthorized)
}

/// Returns the application of these credentials. A confidential application must prove its secret. A public
/// one need not, but a wrong secret is refused.
///
/// Failures are counted by application and by address. A secret is long and random, so it cannot be guessed.
/// The correct secret is accepted in spite of earlier failures: otherwise the public ID would be enough to
/// lock an application out.
///
/// # Errors
/// Returns [`OauthError::InvalidClient`] for unknown or wrong credentials, or [`Error::RateLimited`] after too
/// many failures.
pub async fn authenticate(
    backend: &Backend,
    uid: &str,
    secret: Option<&str>,
    address: Option<&str>,
) -> Result<Application, OauthError> {
    let found = oauth_applications::by_uid(backend.database.read(), uid).await?;
    let proven = found.filter(|application| match secret {
        Some(secret) => secrets::constant_time_eq(&secrets::digest(secret), &application.secret_digest),
        None => !application.confidential,
    });
    if let Some(application) = proven {
        return Ok(application);
    }
    let source = AttemptSource::of_application(backend, uid, address).await?;
    password_attempts::check_limits(backend, &source).await?;
    password_attempts::record_attempt(backend, &source).await?;
    Err(OauthError::InvalidClient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_uri_must_be_absolute_and_safe() {
        for good in [
            "https://app.example/callback",
            "http://127.0.0.1:8000/cb?x=1",
            "com.example.app:/callback",
            "http://localhost/",
            "https://app.example",
        ] {
            assert_eq!(redirect_uri_fault(good), None, "{good}");
        }
        for bad in [
            "",
            "/callback",
            "app.example/callback",
            "https://",
            "https:app.example",
            "https://app.example/#x",
            "javascript:alert(1)",
            "JavaScript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "https://ada:x@app.example/",
            "https://app.example\\@evil.example/",
        ] {
            assert!(redirect_uri_fault(bad).is_some(), "{bad}");
        }
    }
}
