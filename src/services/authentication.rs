//! Who sends a request: tokens, sessions, and acting as somebody else (specification 5).

use std::sync::Arc;

use sea_orm::{ColumnTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::users::State;
use storage::entities::{
    access_tokens, job_tokens as job_token_rows, now, oauth_tokens, saml_providers, scim_tokens, sessions,
    users,
};
use subtle::ConstantTimeEq;

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
    /// The provisioning of one group, by its identity provider, which is nobody's user.
    Provisioning(saml_providers::Model),
}

/// What a job may do where scopes are asked for, and not the contract: on Git's own protocol, and with images.
const SCOPES_OF_JOBS: &str = "read_repository write_registry";

/// What a caller was known by, for being known by it again without a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// By nothing.
    None,
    /// By the password of the user with this id.
    User(i64),
    /// By the access token with this id.
    Token(i64),
    /// By the token of an OAuth application with this id.
    Granted(i64),
    /// By the token of a job with this id.
    Job(i64),
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

    fn granted((token, user): (oauth_tokens::Model, users::Model)) -> Self {
        Self {
            user: Some(Arc::new(user)),
            reach: Reach::Granted(Box::new(token)),
        }
    }

    fn job((token, user): (job_token_rows::Model, users::Model)) -> Self {
        Self {
            user: Some(Arc::new(user)),
            reach: Reach::Job(token),
        }
    }

    /// Whether somebody is signed in.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.user.is_some()
    }

    /// Whether anybody proved who they are: a user, or an identity provider.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_signed_in() || self.provisions().is_some()
    }

    /// The single sign-on whose identity provider calls, when one does.
    #[must_use]
    pub fn provisions(&self) -> Option<&saml_providers::Model> {
        match &self.reach {
            Reach::Provisioning(provider) => Some(provider),
            Reach::Whole | Reach::Scopes(_) | Reach::Granted(_) | Reach::Job(_) => None,
        }
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
            Reach::Whole | Reach::Granted(_) | Reach::Job(_) | Reach::Provisioning(_) => None,
            Reach::Scopes(token) => Some(token),
        }
    }

    /// What the caller was known by.
    #[must_use]
    pub fn proof(&self) -> Proof {
        match &self.reach {
            Reach::Whole => self.as_user().map_or(Proof::None, |user| Proof::User(user.id)),
            Reach::Scopes(token) => Proof::Token(token.id),
            Reach::Granted(token) => Proof::Granted(token.id),
            Reach::Job(token) => Proof::Job(token.id),
            // Who provisions a group is nobody anywhere else.
            Reach::Provisioning(_) => Proof::None,
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
            Reach::Provisioning(_) => Some(""),
        }
    }

    /// The only project that the credentials are good for, when they are a job's.
    #[must_use]
    pub fn only_project(&self) -> Option<i64> {
        match &self.reach {
            Reach::Job(token) => Some(token.project_id),
            Reach::Whole | Reach::Scopes(_) | Reach::Granted(_) | Reach::Provisioning(_) => None,
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
    Ok(Caller::granted(oauth::tokens::find(backend, token).await?))
}

/// The caller who was known by this before, as long as that is still good.
///
/// # Errors
/// 401 when it is not, 403 for accounts that are shut out.
pub async fn by_proof(backend: &Backend, proof: Proof) -> Result<Caller> {
    let db = backend.database.read();
    let caller = match proof {
        Proof::None => return Ok(Caller::anonymous()),
        Proof::User(id) => {
            let found = users::live().filter(users::Column::Id.eq(id)).one(db).await?;
            Caller::user(found.ok_or(Error::Unauthorized)?)
        }
        Proof::Token(id) => {
            let found = access_tokens::by_id(db, id).await?;
            let (token, user) = found.ok_or(Error::Unauthorized)?;
            refuse_ended(backend, &token).await?;
            Caller::token(&Arc::new(user), &Arc::new(token))
        }
        Proof::Granted(id) => Caller::granted(oauth::tokens::find_by_id(backend, id).await?),
        Proof::Job(id) => Caller::job(job_tokens::find_by_id(db, id).await?),
    };
    refuse_shut_out(caller.signed_in()?)?;
    Ok(caller)
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
    refuse_ended(backend, &token).await?;
    access_tokens::touch(backend.database.write(), &token, now()).await?;
    Ok(Caller::token(&user, &token))
}

/// Refuses a token that is known but no longer good.
async fn refuse_ended(backend: &Backend, token: &access_tokens::Model) -> Result<()> {
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
    Ok(())
}

/// The caller a job's token stands for.
///
/// # Errors
/// 401 when the token is unknown or has ended.
pub async fn by_job_token(backend: &Backend, token: &str) -> Result<Caller> {
    Ok(Caller::job(
        job_tokens::find(backend.database.read(), token).await?,
    ))
}

/// The caller a SCIM token stands for, who is nobody's user and may provision one group. No other token counts where this one
/// does, and this one counts nowhere else.
///
/// # Errors
/// 401 when the token is unknown.
pub async fn by_scim_token(backend: &Backend, token: &str) -> Result<Caller> {
    let found = scim_tokens::opens(backend.database.read(), &secrets::digest(token)).await?;
    Ok(Caller {
        user: None,
        reach: Reach::Provisioning(found.ok_or(Error::Unauthorized)?),
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
