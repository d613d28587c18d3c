//! Tokens of the registry: what a client gets for its credentials, and shows with each request.
//!
//! A token says by which credentials the caller is known and what was granted at most. It is encrypted with the key of the
//! instance, so that every node reads it and nobody makes one. Each request looks at the credentials and the role again, so
//! that who lost either cannot go on.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use storage::entities::now;

use super::fault::{Code, Fault};
use super::names::Name;
use super::repositories::{self, Place};
use super::rights::{Action, Actions, may_pull, refusal};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::authentication::{Caller, Proof, by_proof};

/// What is encrypted, as the keyring takes it.
const PLACE: &str = "registry.token";
/// How long a token is good.
const LIFETIME: TimeDelta = TimeDelta::minutes(15);
/// The most scopes that are asked for at a time.
const SCOPES: usize = 64;

/// A token for a client.
pub struct Issued {
    /// The token.
    pub token: String,
    /// When it was made.
    pub issued_at: DateTime<Utc>,
    /// How long it is good, in seconds.
    pub expires_in: i64,
}

/// What a token says. The names are short because the token stands in a header.
#[derive(Debug, Serialize, Deserialize)]
struct Claims {
    #[serde(rename = "p")]
    proof: Proof,
    #[serde(rename = "a")]
    access: Vec<(String, Actions)>,
    #[serde(rename = "e")]
    expires_at: i64,
}

/// Who sends a request, and what their token grants.
pub struct Bearer {
    caller: Caller,
    access: Vec<(String, Actions)>,
}

/// Why a request needs another token.
#[derive(Debug, PartialEq, Eq)]
pub enum Challenge {
    /// There is none, or it is not good any more.
    Missing,
    /// It does not grant this, though the caller might get one that does.
    Insufficient,
}

/// Why a bearer is not let in.
pub enum Refusal {
    /// Another token may help.
    Challenge(Challenge),
    /// Nothing helps.
    Fault(Fault),
}

impl<E: Into<Fault>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Fault(error.into())
    }
}

/// Makes a token that grants what is both asked for and allowed; what is not allowed is left out without a word, as it is
/// from what does not exist. Scopes are `repository:NAME:ACTION,ACTION`; others grant nothing.
///
/// # Errors
/// 400 for very many scopes.
pub async fn issue(backend: &Backend, caller: &Caller, scopes: &[&str]) -> Result<Issued> {
    if scopes.len() > SCOPES {
        return Err(Error::parameter(format!("too many scopes (maximum is {SCOPES})")));
    }
    let mut access: Vec<(String, Actions)> = Vec::new();
    for scope in scopes {
        let Some((name, asked)) = read_scope(scope) else {
            continue;
        };
        let Some(place) = Place::find(backend, caller, &name).await? else {
            continue;
        };
        let granted = asked.allowed(&place.access);
        match access.iter_mut().find(|(known, _)| known == name.as_str()) {
            Some((_, known)) => *known = known.and(granted),
            None if granted.is_empty() => {}
            None => access.push((name.to_string(), granted)),
        }
    }
    let issued_at = now();
    let claims = Claims {
        proof: caller.proof(),
        access,
        expires_at: (issued_at + LIFETIME).timestamp(),
    };
    let text = serde_json::to_string(&claims).map_err(Error::internal)?;
    Ok(Issued {
        token: backend.keyring.encrypt(&text, PLACE)?,
        issued_at,
        expires_in: LIFETIME.num_seconds(),
    })
}

/// The name and the actions of a scope; none for what is no scope of a repository.
fn read_scope(scope: &str) -> Option<(Name, Actions)> {
    let (kind, rest) = scope.split_once(':')?;
    let (name, actions) = rest.rsplit_once(':')?;
    let kind = kind.split('(').next()?;
    let name = Name::parse(name).ok().filter(|_| kind == "repository")?;
    Some((name, Actions::named(actions)))
}

impl Bearer {
    /// Who shows this token.
    ///
    /// # Errors
    /// [`Challenge::Missing`] for one that is not ours, has expired, or whose credentials are not good any more.
    pub async fn of(backend: &Backend, token: &str) -> Result<Self, Refusal> {
        let missing = || Refusal::Challenge(Challenge::Missing);
        let text = backend.keyring.decrypt(token, PLACE).map_err(|_| missing())?;
        let claims: Claims = serde_json::from_str(text.expose()).map_err(|_| missing())?;
        if claims.expires_at <= now().timestamp() {
            return Err(missing());
        }
        match by_proof(backend, claims.proof).await {
            Ok(caller) => Ok(Self {
                caller,
                access: claims.access,
            }),
            Err(Error::Unauthorized | Error::InvalidToken(_) | Error::Forbidden(_)) => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the bearer do something with the images of this name. What they may not pull is not there for them, the same
    /// whether it exists or not.
    ///
    /// # Errors
    /// A challenge where another token may help; `NAME_UNKNOWN` and `DENIED` where none does.
    pub async fn admit(&self, backend: &Backend, name: &Name, action: Action) -> Result<Place, Refusal> {
        let anonymous = !self.caller.is_signed_in();
        let hidden = || match anonymous {
            true => Refusal::Challenge(Challenge::Missing),
            false => Refusal::Fault(repositories::unknown(name)),
        };
        let place = Place::find(backend, &self.caller, name)
            .await?
            .ok_or_else(hidden)?;
        // What the credentials do not cover is not hidden: the person may pull it with others.
        if !may_pull(&place.access) && place.access.role.is_none() {
            return Err(hidden());
        }
        match refusal(&place.access, action) {
            Some(_) if anonymous => return Err(Refusal::Challenge(Challenge::Missing)),
            Some(reason) => return Err(Refusal::Fault(Fault::new(Code::Denied, reason))),
            None => {}
        }
        let granted = self.access.iter().find(|(known, _)| known == name.as_str());
        match granted {
            Some((_, granted)) if granted.contain(action) => Ok(place),
            _ => Err(Refusal::Challenge(Challenge::Insufficient)),
        }
    }

    /// The place of this name, if the bearer may pull from there.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn source(&self, backend: &Backend, name: &Name) -> Result<Option<Place>, Fault> {
        match self.admit(backend, name, Action::Pull).await {
            Ok(place) => Ok(Some(place)),
            Err(Refusal::Fault(fault @ Fault::Rule(_))) => Err(fault),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_name_a_repository_and_actions() {
        let (name, actions) = read_scope("repository:a/b/c:pull,push").expect("a scope");
        assert_eq!((name.as_str(), actions), ("a/b/c", Actions::named("pull,push")));
        assert!(read_scope("repository(plugin):a/b:pull").is_some());
        for other in [
            "",
            "repository",
            "repository:a/b",
            "registry:catalog:*",
            "repository:A/b:pull",
            "repository:host:5000/a/b:pull",
        ] {
            assert!(read_scope(other).is_none(), "{other}");
        }
    }
}
