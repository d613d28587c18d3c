//! What an application asks a user for, and the code it gets when the user agrees.

use chrono::TimeDelta;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{now, oauth_applications, oauth_grants, users};
use url::Url;

use super::applications::Application;
use super::{Fault, narrowed, pkce};
use crate::error::Error;
use crate::secrets::Token;
use crate::services::Backend;

/// How long a code is good for.
const LIFETIME: TimeDelta = TimeDelta::minutes(10);
/// How long a code that has ended is kept, to tell when it is used again.
const KEPT: TimeDelta = TimeDelta::days(1);
/// Most characters of the state that goes back with the user.
const LONGEST_STATE: usize = 4096;

/// What an application asks for, as it stands in the address.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Who asks.
    pub client_id: Option<String>,
    /// Where to send the user back to.
    pub redirect_uri: Option<String>,
    /// What to send back.
    pub response_type: Option<String>,
    /// What for; all the application may ask for when absent.
    pub scope: Option<String>,
    /// What goes back as it came.
    pub state: Option<String>,
    /// What the exchange must answer.
    pub code_challenge: Option<String>,
    /// How.
    pub code_challenge_method: Option<String>,
}

/// A request that can be put to the user.
#[derive(Debug, Clone)]
pub struct Question {
    /// Who asks.
    pub application: Application,
    /// Where the user goes next; one of the application's addresses.
    pub redirect_uri: Url,
    /// What for, separated by spaces.
    pub scopes: String,
    state: Option<String>,
    sent_uri: String,
    challenge: Option<(String, pkce::Method)>,
}

/// Why a request cannot be put to the user.
#[derive(Debug)]
pub enum Refusal {
    /// It is not certain where it came from, so the user must be told and sent nowhere.
    Told(&'static str),
    /// The application is told; holds where the user goes.
    SentBack(String),
    /// A failure of ours.
    Internal(Error),
}

impl From<sea_orm::DbErr> for Refusal {
    fn from(error: sea_orm::DbErr) -> Self {
        Self::Internal(error.into())
    }
}

/// Checks a request.
///
/// # Errors
/// [`Refusal`].
pub async fn check(backend: &Backend, request: Request) -> Result<Question, Refusal> {
    let unknown = Refusal::Told("The application is not registered on this server.");
    let Some(uid) = request.client_id.as_deref().filter(|uid| !uid.contains('\0')) else {
        return Err(unknown);
    };
    let found = oauth_applications::by_uid(backend.database.read(), uid).await?;
    let application = found.ok_or(unknown)?;
    let misled = "The redirect URI is not registered for the application.";
    let sent_uri = request.redirect_uri.unwrap_or_default();
    if !application.redirect_uris().any(|known| known == sent_uri) {
        return Err(Refusal::Told(misled));
    }
    let redirect_uri = Url::parse(&sent_uri).map_err(|_| Refusal::Told(misled))?;
    let state = request.state;
    if state.as_ref().is_some_and(|state| state.len() > LONGEST_STATE) {
        return Err(Refusal::Told(
            "The state parameter of the application is too long.",
        ));
    }
    let refuse = |fault: &Fault| Refusal::SentBack(fault_address(&redirect_uri, fault, state.as_deref()));
    match request.response_type.as_deref() {
        Some("code") => {}
        None | Some("") => return Err(refuse(&Fault::InvalidRequest("response_type is missing"))),
        Some(_) => return Err(refuse(&Fault::UnsupportedResponseType)),
    }
    let scopes = narrowed(request.scope.as_deref(), application.scopes()).map_err(|fault| refuse(&fault))?;
    let challenge = pkce::challenge(
        request.code_challenge,
        request.code_challenge_method.as_deref(),
        !application.confidential,
    )
    .map_err(|fault| refuse(&fault))?;
    Ok(Question {
        redirect_uri,
        scopes,
        state,
        sent_uri,
        challenge,
        application,
    })
}

/// Notes that a user agrees; gives the address, with the code, that they go to next.
///
/// # Errors
/// Whatever the database reports.
pub async fn agree(backend: &Backend, user: &users::Model, question: &Question) -> Result<String, Error> {
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
            .map(|(_, method)| method.word().to_owned())),
        created_at: Set(instant),
        expires_at: Set(instant + LIFETIME),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            oauth_grants::Entity::delete_many()
                .filter(oauth_grants::Column::ExpiresAt.lt(instant - KEPT))
                .exec(transaction)
                .await?;
            row.insert(transaction).await?;
            Ok::<_, Error>(())
        })
        .await?;
    let code = [("code", code.expose())];
    Ok(address(&question.redirect_uri, &code, question.state.as_deref()))
}

/// The address that a user who says no goes to.
#[must_use]
pub fn deny(question: &Question) -> String {
    fault_address(
        &question.redirect_uri,
        &Fault::AccessDenied,
        question.state.as_deref(),
    )
}

fn fault_address(target: &Url, fault: &Fault, state: Option<&str>) -> String {
    let text = fault.to_string();
    address(
        target,
        &[("error", fault.code()), ("error_description", &text)],
        state,
    )
}

fn address(target: &Url, pairs: &[(&str, &str)], state: Option<&str>) -> String {
    let mut target = target.clone();
    let state = state.map(|state| ("state", state));
    target
        .query_pairs_mut()
        .extend_pairs(pairs.iter().copied().chain(state));
    target.into()
}
