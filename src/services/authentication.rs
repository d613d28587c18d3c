//! Who sends a request: tokens, sessions, and acting as somebody else (specification 5).

use subtle::ConstantTimeEq;

use crate::entities::users::State;
use crate::entities::{access_tokens, now, sessions, users};
use crate::error::{Error, Result, TokenFault};
use crate::secrets;
use crate::services::Backend;

/// What a request says of its sender.
#[derive(Default)]
pub struct Credentials {
    /// A token, wherever it stood.
    pub token: Option<String>,
    /// A browser session.
    pub session: Option<Session>,
    /// Id or name of the user to act as.
    pub sudo: Option<String>,
}

/// A session cookie and what came with it.
pub struct Session {
    /// The cookie's value.
    pub secret: String,
    /// The token against cross-site requests.
    pub csrf: Option<String>,
    /// The request only reads.
    pub read_only: bool,
}

/// Who calls, and how far the credentials reach.
#[derive(Debug, Clone)]
pub struct Caller {
    user: Option<users::Model>,
    reach: Reach,
}

/// How far credentials reach.
#[derive(Debug, Clone)]
enum Reach {
    /// Everything the user may do.
    Whole,
    /// What these scopes of a token allow.
    Scopes(Box<access_tokens::Model>),
}

impl Caller {
    /// Nobody.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            user: None,
            reach: Reach::Whole,
        }
    }

    /// A user whose credentials reach as far as their rights: a session, a password, a user acted for.
    #[must_use]
    pub fn user(user: users::Model) -> Self {
        Self {
            user: Some(user),
            reach: Reach::Whole,
        }
    }

    fn token(user: users::Model, token: access_tokens::Model) -> Self {
        Self {
            user: Some(user),
            reach: Reach::Scopes(Box::new(token)),
        }
    }

    /// Whether somebody is signed in.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.user.is_some()
    }

    /// Whether an administrator calls.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.admin)
    }

    /// The user, when there is one.
    #[must_use]
    pub fn as_user(&self) -> Option<&users::Model> {
        self.user.as_ref()
    }

    /// The user.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] when nobody is signed in.
    pub fn signed_in(&self) -> Result<&users::Model> {
        self.user.as_ref().ok_or(Error::Unauthorized)
    }

    /// The token that was sent, when there was one.
    #[must_use]
    pub fn access_token(&self) -> Option<&access_tokens::Model> {
        match &self.reach {
            Reach::Whole => None,
            Reach::Scopes(token) => Some(token),
        }
    }

    /// Whether one of these scopes is covered.
    #[must_use]
    pub fn covers(&self, scopes: &[&str]) -> bool {
        self.access_token()
            .is_none_or(|token| token.scopes().any(|scope| scopes.contains(&scope)))
    }
}

/// Finds out who calls.
///
/// # Errors
/// 401 for credentials that are unknown or no longer good, also where none are needed; 403 for accounts that
/// are shut out and for sudo that is not allowed; 404 for a sudo target that does not exist.
pub async fn identify(backend: &Backend, credentials: Credentials) -> Result<Caller> {
    let caller = match (credentials.token, credentials.session) {
        (Some(token), _) => by_token(backend, &token).await?,
        (None, Some(session)) => by_session(backend, &session).await?,
        (None, None) => Caller::anonymous(),
    };
    if let Some(user) = caller.as_user() {
        refuse_shut_out(user)?;
    }
    match credentials.sudo {
        Some(target) => sudo(backend, &caller, &target).await,
        None => Ok(caller),
    }
}

/// Refuses accounts that may not act.
///
/// # Errors
/// 403 with the reason.
pub fn refuse_shut_out(user: &users::Model) -> Result<()> {
    match user.state {
        State::Active => Ok(()),
        State::Blocked | State::LdapBlocked => {
            Err(Error::forbidden_because("Your account has been blocked."))
        }
        State::Deactivated => Err(Error::forbidden_because(
            "Your account has been deactivated by your administrator. Please log back in from a web browser to reactivate your account.",
        )),
    }
}

/// The caller a token stands for, whatever its scopes.
///
/// # Errors
/// 401 when the token is unknown, revoked or expired.
pub async fn by_token(backend: &Backend, token: &str) -> Result<Caller> {
    let found = access_tokens::by_digest(backend.database.read(), &secrets::digest(token)).await?;
    let (token, user) = found.ok_or(Error::Unauthorized)?;
    if token.revoked {
        return Err(Error::InvalidToken(TokenFault::Revoked));
    }
    if token.is_expired(now().date_naive()) {
        return Err(Error::InvalidToken(TokenFault::Expired));
    }
    access_tokens::touch(backend.database.write(), &token, now()).await?;
    Ok(Caller::token(user, token))
}

/// A session counts for reads, and for writes that carry its token against cross-site requests; a cookie that
/// counts for nothing leaves the caller anonymous, because browsers send it unasked.
async fn by_session(backend: &Backend, session: &Session) -> Result<Caller> {
    let found =
        sessions::by_digest(backend.database.read(), &secrets::digest(&session.secret), now()).await?;
    let Some((row, user)) = found else {
        return Ok(Caller::anonymous());
    };
    let wanted = csrf_token(&row);
    let proven = session
        .csrf
        .as_ref()
        .is_some_and(|sent| bool::from(sent.as_bytes().ct_eq(wanted.as_bytes())));
    if session.read_only || proven {
        Ok(Caller::user(user))
    } else {
        Ok(Caller::anonymous())
    }
}

/// The token against cross-site requests that belongs to a session.
#[must_use]
pub fn csrf_token(session: &sessions::Model) -> String {
    secrets::digest(&format!("csrf:{}:{}", session.csrf_seed, session.digest))
}

/// Lets an administrator act as another user.
async fn sudo(backend: &Backend, caller: &Caller, target: &str) -> Result<Caller> {
    caller.signed_in()?;
    if !caller.is_admin() {
        return Err(Error::forbidden_because("Must be admin to use sudo"));
    }
    let Some(token) = caller.access_token() else {
        return Err(Error::forbidden_because(
            "Must be authenticated using an OAuth or Personal Access Token to use sudo",
        ));
    };
    if !token.scopes().any(|scope| scope == "sudo") {
        return Err(Error::InsufficientScope(vec!["sudo"]));
    }
    let found = users::by_reference(backend.database.read(), target).await?;
    let user = found.ok_or_else(|| Error::not_found(format!("User with ID or username '{target}'")))?;
    refuse_shut_out(&user)?;
    Ok(Caller::user(user))
}
