//! Authentication of requests by tokens and sessions, and impersonation by `sudo`.

use std::sync::Arc;

use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use storage::entities::users::UserState;
use storage::entities::{access_tokens, now, scim_tokens, sessions, users};
use subtle::ConstantTimeEq;

use crate::identity::two_factor::requirement;
use crate::identity::{deploy_tokens, job_tokens, oauth};
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::caller::{Caller, Proof};
use crate::kernel::error::{Error, Result, TokenFault};
use crate::secrets;

/// Credentials of a request.
#[derive(Default)]
pub struct Credentials {
    /// A token, from any header or parameter that accepts one.
    pub token: Option<String>,
    /// Whether the token was sent where OAuth access tokens are accepted.
    pub bearer: bool,
    /// A job token from its own header or parameter. `None` where job tokens are not accepted.
    pub job: Option<String>,
    /// A deploy token from its own header. `None` where deploy tokens are not accepted.
    pub deploy: Option<String>,
    /// A token with HTTP Basic authentication. `None` where deploy tokens are not accepted.
    pub basic: Option<BasicToken>,
    /// Whether job tokens are accepted, so that a bearer token may be one.
    pub takes_jobs: bool,
    /// Whether deploy tokens are accepted, so that a bearer token may be one.
    pub takes_deploy_tokens: bool,
    /// A browser session.
    pub session: Option<SessionCookie>,
    /// ID or username of the user to impersonate.
    pub sudo: Option<String>,
}

/// A token of any kind that is sent as the password of HTTP Basic authentication.
pub struct BasicToken {
    /// The username; compared only for deploy tokens.
    pub username: String,
    /// The token.
    pub token: String,
}

/// A session cookie and its related request data.
pub struct SessionCookie {
    /// The cookie's value.
    pub secret: String,
    /// The CSRF token.
    pub csrf: Option<String>,
    /// Whether the request only reads.
    pub read_only: bool,
}

/// Identifies the caller.
///
/// # Errors
/// Returns `Error::Unauthorized` if credentials are unknown, even where none are required. Returns
/// `Error::InvalidToken` if a token is revoked or expired. Returns `Error::Forbidden` if the account is
/// blocked or deactivated, or `sudo` is not allowed. Returns `Error::NotFound` if the target of `sudo` does
/// not exist.
pub async fn identify(backend: &Backend, credentials: Credentials) -> Result<Caller> {
    let sudo_target = credentials.sudo.clone();
    let caller = find_caller(backend, credentials).await?;
    if let Some(user) = caller.as_user() {
        check_account_active(user)?;
    }
    match sudo_target {
        Some(target) => sudo(backend, &caller, &target).await,
        None => Ok(caller),
    }
}

/// Returns the caller of the first credentials of a request.
async fn find_caller(backend: &Backend, credentials: Credentials) -> Result<Caller> {
    if let Some(token) = credentials.token {
        if !credentials.bearer {
            return caller_of_access_token(backend, &token).await;
        }
        if credentials.takes_deploy_tokens && deploy_tokens::has_prefix(&token) {
            match caller_of_deploy_token(backend, None, &token).await {
                Err(Error::Unauthorized) => {}
                found => return found,
            }
        }
        return match caller_of_token(backend, &token).await {
            Err(Error::Unauthorized) if credentials.takes_jobs => caller_of_job_token(backend, &token).await,
            known => known,
        };
    }
    if let Some(job) = credentials.job {
        return caller_of_job_token(backend, &job).await;
    }
    if let Some(token) = credentials.deploy {
        return caller_of_deploy_token(backend, None, &token).await;
    }
    if let Some(BasicToken { username, token }) = credentials.basic {
        return caller_of_basic_token(backend, &username, &token).await;
    }
    match credentials.session {
        Some(session) => caller_of_session(backend, &session).await,
        None => Ok(Caller::anonymous()),
    }
}

/// Rejects accounts that are not active.
///
/// # Errors
/// Returns `Error::Forbidden` if the account is not active; the error contains the reason.
pub fn check_account_active(user: &users::Model) -> Result<()> {
    match user.state {
        UserState::Active => Ok(()),
        UserState::Blocked | UserState::LdapBlocked => {
            Err(Error::forbidden_because("Your account has been blocked."))
        }
        UserState::Deactivated => Err(Error::forbidden_because(
            "Your account has been deactivated by your administrator. Please log back in from a web browser to reactivate your account.",
        )),
    }
}

/// Returns the caller of a token of any kind and scope.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown. Returns `Error::InvalidToken` if it is revoked or
/// expired.
pub async fn caller_of_token(backend: &Backend, token: &str) -> Result<Caller> {
    match caller_of_access_token(backend, token).await {
        Err(Error::Unauthorized) => {}
        known => return known,
    }
    let (token, user) = oauth::tokens::find(backend, token).await?;
    users::record_activity(backend.database.write(), &user, now().date_naive()).await?;
    Ok(Caller::granted((token, user)))
}

/// Returns the caller of an earlier proof, if it is still valid.
///
/// # Errors
/// Returns `Error::Unauthorized` if the proof is not valid any more. Returns `Error::Forbidden` if the
/// account is not active, or if a password is not sufficient any more.
pub async fn caller_of_proof(backend: &Backend, proof: Proof) -> Result<Caller> {
    let db = backend.database.read();
    let caller = match proof {
        Proof::None => return Ok(Caller::anonymous()),
        Proof::Password { user_id, .. } => {
            let found = users::not_deleted()
                .filter(users::Column::Id.eq(user_id))
                .one(db)
                .await?;
            let current = found.filter(|user| Proof::of_password(user) == proof);
            let user = current.filter(|user| !user.password_change_required);
            let user = user.ok_or(Error::Unauthorized)?;
            requirement::check_password_suffices(backend, &user).await?;
            Caller::password(user)
        }
        Proof::Token(id) => {
            let found = access_tokens::by_id(db, id).await?;
            let (token, user) = found.ok_or(Error::Unauthorized)?;
            check_token_valid(backend, &token).await?;
            Caller::token(&Arc::new(user), &Arc::new(token))
        }
        Proof::Granted(id) => Caller::granted(oauth::tokens::find_by_id(backend, id).await?),
        Proof::Job(id) => Caller::job(job_tokens::find_by_id(db, id).await?),
        // A deploy token has no account.
        Proof::Deploy(id) => return Ok(Caller::deploy(deploy_tokens::find_by_id(db, id).await?)),
        Proof::Session(id) => {
            let found = sessions::by_id(db, id, now()).await?;
            let (session, user) = found.ok_or(Error::Unauthorized)?;
            Caller::session(user, session.id)
        }
        Proof::Sudo {
            administrator,
            user_id,
        } => {
            let administrator = Box::pin(caller_of_proof(backend, *administrator)).await?;
            check_sudo(&administrator)?;
            Caller::impersonated(existing_user(db, user_id).await?, &administrator)
        }
        Proof::User(user_id) => Caller::user(existing_user(db, user_id).await?),
    };
    check_account_active(caller.signed_in()?)?;
    Ok(caller)
}

/// Identifies the caller of a request again, by the current state of the database.
///
/// # Errors
/// As [`caller_of_proof`].
pub async fn identify_again(backend: &Backend, caller: &Caller) -> Result<Caller> {
    let again = caller_of_proof(backend, caller.proof()).await?;
    Ok(again.continuing(caller))
}

/// Returns a user who is not deleted.
async fn existing_user(db: &impl ConnectionTrait, id: i64) -> Result<users::Model> {
    let found = users::not_deleted()
        .filter(users::Column::Id.eq(id))
        .one(db)
        .await?;
    found.ok_or(Error::Unauthorized)
}

/// Returns the caller of a token that is not an OAuth access token.
async fn caller_of_access_token(backend: &Backend, token: &str) -> Result<Caller> {
    let digest = secrets::digest(token);
    let found = async {
        let found = access_tokens::by_digest(backend.database.read(), &digest).await?;
        let (token, user) = found.ok_or(Error::Unauthorized)?;
        Ok::<_, Error>((Arc::new(token), Arc::new(user)))
    };
    let tokens = &backend.caches.tokens;
    let (token, user) = tokens
        .get_or_load(&backend.database, digest.clone(), found)
        .await?;
    check_token_valid(backend, &token).await?;
    let (db, instant) = (backend.database.write(), now());
    if access_tokens::record_use(db, &token, instant).await? {
        users::record_activity(db, &user, instant.date_naive()).await?;
    }
    Ok(Caller::token(&user, &token))
}

/// Rejects a known token that is no longer valid.
async fn check_token_valid(backend: &Backend, token: &access_tokens::Model) -> Result<()> {
    if token.revoked {
        return Err(Error::InvalidToken(TokenFault::Revoked));
    }
    if token.is_expired(now().date_naive()) {
        return Err(Error::InvalidToken(TokenFault::Expired));
    }
    if token.kind == access_tokens::TokenKind::Impersonation
        && !settings::get(backend).await?.impersonation_enabled
    {
        return Err(Error::InvalidToken(TokenFault::ImpersonationDisabled));
    }
    Ok(())
}

/// Returns the caller of a job token.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown or has ended.
pub async fn caller_of_job_token(backend: &Backend, token: &str) -> Result<Caller> {
    Ok(Caller::job(
        job_tokens::find(backend.database.read(), token).await?,
    ))
}

/// Returns the caller of a token of any kind that is the password of HTTP Basic authentication.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown, or is a deploy token with another username. Returns
/// `Error::InvalidToken` if it is revoked or expired.
pub async fn caller_of_basic_token(backend: &Backend, username: &str, token: &str) -> Result<Caller> {
    if deploy_tokens::has_prefix(token) {
        match caller_of_deploy_token(backend, Some(username), token).await {
            // An operator can choose any text as the token of the administrator.
            Err(Error::Unauthorized) => {}
            found => return found,
        }
    }
    match caller_of_token(backend, token).await {
        Err(Error::Unauthorized) => caller_of_job_token(backend, token).await,
        found => found,
    }
}

/// Returns the caller of a deploy token, who is no user. Only Git over HTTP, the container registry and the operations
/// for package clients accept deploy tokens.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown or has another username than the given one. Returns
/// `Error::InvalidToken` if it has expired.
pub async fn caller_of_deploy_token(
    backend: &Backend,
    username: Option<&str>,
    token: &str,
) -> Result<Caller> {
    let found = deploy_tokens::find(backend.database.read(), username, token).await?;
    Ok(Caller::deploy(found))
}

/// Returns the caller of a SCIM token, who is no user and may only provision one group. SCIM accepts no other
/// tokens, and SCIM tokens are accepted nowhere else.
///
/// # Errors
/// Returns `Error::Unauthorized` if the token is unknown.
pub async fn caller_of_scim_token(backend: &Backend, token: &str) -> Result<Caller> {
    let found = scim_tokens::find_provider(backend.database.read(), &secrets::digest(token)).await?;
    Ok(Caller::identity_provider(found.ok_or(Error::Unauthorized)?))
}

/// Returns the caller of a session. Reads need only the cookie, writes also need its CSRF token. An invalid
/// cookie yields an anonymous caller, because browsers send cookies unprompted.
///
/// # Errors
/// Returns `Error::Forbidden` if the account is not active, or if the user had to set up a second factor.
async fn caller_of_session(backend: &Backend, session: &SessionCookie) -> Result<Caller> {
    let found =
        sessions::by_digest(backend.database.read(), &secrets::digest(&session.secret), now()).await?;
    let Some((row, user)) = found else {
        return Ok(Caller::anonymous());
    };
    let expected = csrf_token(&row);
    let proven = session
        .csrf
        .as_ref()
        .is_some_and(|sent| bool::from(sent.as_bytes().ct_eq(expected.as_bytes())));
    if !session.read_only && !proven {
        return Ok(Caller::anonymous());
    }
    check_account_active(&user)?;
    requirement::check_session_suffices(backend, &user).await?;
    Ok(Caller::session(user, row.id))
}

/// Returns the CSRF token of a session.
#[must_use]
pub fn csrf_token(session: &sessions::Model) -> String {
    secrets::digest(&format!("csrf:{}:{}", session.csrf_seed, session.digest))
}

/// Returns the user that an administrator impersonates.
async fn sudo(backend: &Backend, caller: &Caller, target: &str) -> Result<Caller> {
    check_sudo(caller)?;
    let found = users::by_reference(backend.database.read(), target).await?;
    let user = found.ok_or_else(|| Error::not_found(format!("User with ID or username '{target}'")))?;
    check_account_active(&user)?;
    Ok(Caller::impersonated(user, caller))
}

/// Checks that the caller may impersonate users.
fn check_sudo(caller: &Caller) -> Result<()> {
    caller.signed_in()?;
    if !caller.is_admin() {
        return Err(Error::forbidden_because("Must be admin to use sudo"));
    }
    let Some(scopes) = caller.scopes() else {
        return Err(Error::forbidden_because(
            "Must be authenticated using an OAuth or Personal Access Token to use sudo",
        ));
    };
    if !scopes.split_ascii_whitespace().any(|scope| scope == "sudo") {
        return Err(Error::InsufficientScope(vec!["sudo"]));
    }
    Ok(())
}
