//! Who sends a request: tokens, sessions, and acting as somebody else (specification 5).

use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::entities::users::State;
use crate::entities::{access_tokens, job_tokens as job_token_rows, now, oauth_tokens, sessions, users};
use crate::error::{Error, Result, TokenFault};
use crate::secrets;
use crate::services::{Backend, job_tokens, oauth, settings};

/// What a request says of its sender.
#[derive(Default)]
pub struct Credentials {
    /// A token, wherever it stood.
    pub token: Option<String>,
    /// The token stood where those of OAuth applications may stand.
    pub bearer: bool,
    /// A token of a job, in a place of its own. None where such tokens count for nothing.
    pub job: Option<String>,
    /// Tokens of jobs count here, so that a bearer's may be one.
    pub takes_jobs: bool,
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
    user: Option<Arc<users::Model>>,
    reach: Reach,
}

/// How far credentials reach.
#[derive(Debug, Clone)]
enum Reach {
    /// Everything the user may do.
    Whole,
    /// What these scopes of a token allow.
    Scopes(Arc<access_tokens::Model>),
    /// What a user granted an OAuth application.
    Granted(Box<oauth_tokens::Model>),
    /// One project, as far as the contract lets jobs go.
    Job(job_token_rows::Model),
}

/// What a job may do where scopes are asked for, and not the contract: on Git's own protocol.
const SCOPES_OF_JOBS: &str = "read_repository";

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
            user: Some(Arc::new(user)),
            reach: Reach::Whole,
        }
    }

    fn token(user: &Arc<users::Model>, token: &Arc<access_tokens::Model>) -> Self {
        Self {
            user: Some(Arc::clone(user)),
            reach: Reach::Scopes(Arc::clone(token)),
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
        self.as_user().is_some_and(|user| user.admin)
    }

    /// The user, when there is one.
    #[must_use]
    pub fn as_user(&self) -> Option<&users::Model> {
        self.user.as_deref()
    }

    /// The user.
    ///
    /// # Errors
    /// [`Error::Unauthorized`] when nobody is signed in.
    pub fn signed_in(&self) -> Result<&users::Model> {
        self.as_user().ok_or(Error::Unauthorized)
    }

    /// The token that was sent, when there was one.
    #[must_use]
    pub fn access_token(&self) -> Option<&access_tokens::Model> {
        match &self.reach {
            Reach::Whole | Reach::Granted(_) | Reach::Job(_) => None,
            Reach::Scopes(token) => Some(token),
        }
    }

    /// The scopes that limit the credentials, separated by spaces; none when nothing does.
    #[must_use]
    pub fn scopes(&self) -> Option<&str> {
        match &self.reach {
            Reach::Whole => None,
            Reach::Scopes(token) => Some(&token.scopes),
            Reach::Granted(token) => Some(&token.scopes),
            Reach::Job(_) => Some(SCOPES_OF_JOBS),
        }
    }

    /// The only project that the credentials are good for, when they are a job's.
    #[must_use]
    pub fn only_project(&self) -> Option<i64> {
        match &self.reach {
            Reach::Job(token) => Some(token.project_id),
            Reach::Whole | Reach::Scopes(_) | Reach::Granted(_) => None,
        }
    }

    /// Whether one of these scopes is covered.
    #[must_use]
    pub fn covers(&self, scopes: &[&str]) -> bool {
        self.scopes()
            .is_none_or(|own| own.split_ascii_whitespace().any(|scope| scopes.contains(&scope)))
    }
}

/// Finds out who calls.
///
/// # Errors
/// 401 for credentials that are unknown or no longer good, also where none are needed; 403 for accounts that
/// are shut out and for sudo that is not allowed; 404 for a sudo target that does not exist.
pub async fn identify(backend: &Backend, credentials: Credentials) -> Result<Caller> {
    let caller = match (credentials.token, credentials.job, credentials.session) {
        (Some(token), _, _) if credentials.bearer => match by_token(backend, &token).await {
            Err(Error::Unauthorized) if credentials.takes_jobs => by_job_token(backend, &token).await?,
            known => known?,
        },
        (Some(token), _, _) => by_access_token(backend, &token).await?,
        (None, Some(job), _) => by_job_token(backend, &job).await?,
        (None, None, Some(session)) => by_session(backend, &session).await?,
        (None, None, None) => Caller::anonymous(),
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

/// The caller a token stands for, whatever its kind and scopes.
///
/// # Errors
/// 401 when the token is unknown, revoked or expired.
pub async fn by_token(backend: &Backend, token: &str) -> Result<Caller> {
    match by_access_token(backend, token).await {
        Err(Error::Unauthorized) => {}
        known => return known,
    }
    let (token, user) = oauth::tokens::find(backend, token).await?;
    Ok(Caller {
        user: Some(Arc::new(user)),
        reach: Reach::Granted(Box::new(token)),
    })
}

/// The caller a token stands for that is none of an OAuth application.
async fn by_access_token(backend: &Backend, token: &str) -> Result<Caller> {
    let digest = secrets::digest(token);
    let found = async {
        let found = access_tokens::by_digest(backend.database.read(), &digest).await?;
        let (token, user) = found.ok_or(Error::Unauthorized)?;
        Ok::<_, Error>((Arc::new(token), Arc::new(user)))
    };
    let tokens = &backend.memory.tokens;
    let (token, user) = tokens.recall(&backend.database, digest.clone(), found).await?;
    if token.revoked {
        return Err(Error::InvalidToken(TokenFault::Revoked));
    }
    if token.is_expired(now().date_naive()) {
        return Err(Error::InvalidToken(TokenFault::Expired));
    }
    if token.kind == access_tokens::Kind::Impersonation
        && !settings::read(backend).await?.impersonation_enabled
    {
        return Err(Error::InvalidToken(TokenFault::ImpersonationDisabled));
    }
    access_tokens::touch(backend.database.write(), &token, now()).await?;
    Ok(Caller::token(&user, &token))
}

/// The caller a job's token stands for.
///
/// # Errors
/// 401 when the token is unknown or has ended.
pub async fn by_job_token(backend: &Backend, token: &str) -> Result<Caller> {
    let (token, user) = job_tokens::find(backend.database.read(), token).await?;
    Ok(Caller {
        user: Some(Arc::new(user)),
        reach: Reach::Job(token),
    })
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
    let Some(scopes) = caller.scopes() else {
        return Err(Error::forbidden_because(
            "Must be authenticated using an OAuth or Personal Access Token to use sudo",
        ));
    };
    if !scopes.split_ascii_whitespace().any(|scope| scope == "sudo") {
        return Err(Error::InsufficientScope(vec!["sudo"]));
    }
    let found = users::by_reference(backend.database.read(), target).await?;
    let user = found.ok_or_else(|| Error::not_found(format!("User with ID or username '{target}'")))?;
    refuse_shut_out(&user)?;
    Ok(Caller::user(user))
}
