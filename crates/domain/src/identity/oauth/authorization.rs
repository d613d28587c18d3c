//! Authorization requests of applications and the codes that follow from consent.

use std::net::IpAddr;

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::users::{self, UserState};
use storage::entities::{now, oauth_applications, oauth_grants};
use url::Url;

use super::applications::Application;
use super::{OauthError, granted_scopes, pkce};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::kernel::Backend;
use crate::kernel::error::Error;
use crate::secrets::Token;

/// Lifetime of a code.
const LIFETIME: TimeDelta = TimeDelta::minutes(10);
/// Retention of expired codes, to detect reuse.
const CODE_RETENTION: TimeDelta = TimeDelta::days(1);
/// Maximum length of the state parameter, in characters.
const MAX_STATE_LENGTH: usize = 4096;

/// Parameters of an authorization request.
#[derive(Debug, Clone, Default)]
pub struct AuthorizationRequest {
    /// The application.
    pub client_id: Option<String>,
    /// The requested redirect URI.
    pub redirect_uri: Option<String>,
    /// The response type.
    pub response_type: Option<String>,
    /// The scopes; by default all that the application may request.
    pub scope: Option<String>,
    /// The state, returned unchanged.
    pub state: Option<String>,
    /// The PKCE code challenge.
    pub code_challenge: Option<String>,
    /// The PKCE challenge method.
    pub code_challenge_method: Option<String>,
}

/// A valid request that needs the user's consent.
#[derive(Debug, Clone)]
pub struct ConsentRequest {
    /// The application.
    pub application: Application,
    /// The redirect URI, which is registered for the application.
    pub redirect_uri: Url,
    /// The scopes, separated by spaces.
    pub scopes: String,
    state: Option<String>,
    sent_uri: String,
    challenge: Option<(String, pkce::ChallengeMethod)>,
}

/// The reason why a request is invalid.
#[derive(Debug)]
pub enum AuthorizationError {
    /// The origin is not certain, so the error is displayed to the user without a redirect.
    Displayed(&'static str),
    /// The error is returned to the application; contains the redirect address.
    Redirected(String),
    /// An internal error.
    Internal(Error),
}

impl From<sea_orm::DbErr> for AuthorizationError {
    fn from(error: sea_orm::DbErr) -> Self {
        Self::Internal(error.into())
    }
}

/// Validates a request.
///
/// # Errors
/// Returns [`AuthorizationError`] if the request is invalid or an internal error occurs.
pub async fn check(
    backend: &Backend,
    request: AuthorizationRequest,
) -> Result<ConsentRequest, AuthorizationError> {
    let unknown = AuthorizationError::Displayed("The application is not registered on this server.");
    let Some(uid) = request.client_id.as_deref().filter(|uid| !uid.contains('\0')) else {
        return Err(unknown);
    };
    let application = oauth_applications::by_uid(backend.database.read(), uid).await?;
    let application = application.ok_or(unknown)?;
    let unregistered_uri = "The redirect URI is not registered for the application.";
    let sent_uri = request.redirect_uri.unwrap_or_default();
    if !application.redirect_uris().any(|known| known == sent_uri) {
        return Err(AuthorizationError::Displayed(unregistered_uri));
    }
    let redirect_uri = Url::parse(&sent_uri).map_err(|_| AuthorizationError::Displayed(unregistered_uri))?;
    let state = request.state;
    if state.as_ref().is_some_and(|state| state.len() > MAX_STATE_LENGTH) {
        return Err(AuthorizationError::Displayed(
            "The state parameter of the application is too long.",
        ));
    }
    let redirect_error = |fault: &OauthError| {
        AuthorizationError::Redirected(error_redirect(&redirect_uri, fault, state.as_deref()))
    };
    match request.response_type.as_deref() {
        Some("code") => {}
        None | Some("") => {
            return Err(redirect_error(&OauthError::InvalidRequest(
                "response_type is missing",
            )));
        }
        Some(_) => return Err(redirect_error(&OauthError::UnsupportedResponseType)),
    }
    let scopes = granted_scopes(request.scope.as_deref(), application.scopes())
        .map_err(|fault| redirect_error(&fault))?;
    let challenge = pkce::challenge(
        request.code_challenge,
        request.code_challenge_method.as_deref(),
        !application.confidential,
    )
    .map_err(|fault| redirect_error(&fault))?;
    Ok(ConsentRequest {
        redirect_uri,
        scopes,
        state,
        sent_uri,
        challenge,
        application,
    })
}

/// Records the user's consent and returns the redirect address with the code.
///
/// # Errors
/// Returns `Unauthorized` if the user was deleted or disabled, or got another password in the meantime.
pub async fn approve(
    backend: &Backend,
    user: &users::Model,
    ip_address: Option<IpAddr>,
    question: &ConsentRequest,
) -> Result<String, Error> {
    let (code, instant) = (Token::generate(""), now());
    let row = oauth_grants::ActiveModel {
        application_id: Set(question.application.id),
        user_id: Set(user.id),
        family: Set(hex::encode(rand::random::<[u8; 16]>())),
        digest: Set(code.digest()),
        redirect_uri: Set(question.sent_uri.clone()),
        scopes: Set(question.scopes.clone()),
        code_challenge: Set(question.challenge.as_ref().map(|(text, _)| text.clone())),
        code_challenge_method: Set(question
            .challenge
            .as_ref()
            .map(|(_, method)| method.name().to_owned())),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            // A new password ends the session that consented, and revokes all codes and tokens.
            let is_current = |current: users::Model| {
                current.state == UserState::Active && current.password_hash == user.password_hash
            };
            if !users::lock(transaction, user.id).await?.is_some_and(is_current) {
                return Err(Error::Unauthorized);
            }
            oauth_grants::Entity::delete_many()
                .filter(oauth_grants::Column::ExpiresAt.lt(instant - CODE_RETENTION))
                .exec(transaction)
                .await?;
            row.insert(transaction).await?;
            let (id, name) = (question.application.id, question.application.name.clone());
            let target = AuditTarget::new("OauthApplication", id, name);
            let event = AuditEvent::new(AuditKind::OauthAccessGranted, AuditEntity::user(user), target);
            let actor = Actor::user(user, ip_address);
            audit::record(transaction, actor, event.to(&question.scopes)).await
        })
        .await?;
    let code = [("code", code.expose())];
    Ok(redirect_with(
        &question.redirect_uri,
        &code,
        question.state.as_deref(),
    ))
}

/// Returns the redirect address after a denial.
#[must_use]
pub fn deny(question: &ConsentRequest) -> String {
    error_redirect(
        &question.redirect_uri,
        &OauthError::AccessDenied,
        question.state.as_deref(),
    )
}

fn error_redirect(target: &Url, fault: &OauthError, state: Option<&str>) -> String {
    let text = fault.to_string();
    redirect_with(
        target,
        &[("error", fault.code()), ("error_description", &text)],
        state,
    )
}

fn redirect_with(target: &Url, pairs: &[(&str, &str)], state: Option<&str>) -> String {
    let mut target = target.clone();
    let state = state.map(|state| ("state", state));
    target
        .query_pairs_mut()
        .extend_pairs(pairs.iter().copied().chain(state));
    target.into()
}
