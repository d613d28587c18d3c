//! The author of an audit event, and the address of the client.

use std::net::IpAddr;

use storage::entities::{deploy_tokens, users};

use crate::kernel::caller::Caller;

/// ID of authors that are not users.
const NO_USER: i64 = -1;

/// The author of an audit event.
#[derive(Debug, Clone)]
pub struct Actor {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) ip_address: Option<IpAddr>,
    /// ID and name of the administrator who acts as the user.
    pub(super) administrator: Option<(i64, String)>,
    /// ID of the access token of the request.
    pub(super) access_token_id: Option<i64>,
}

impl Actor {
    /// Returns the server itself: first start, jobs and recurring work.
    #[must_use]
    pub fn system() -> Self {
        Self::without_user("System", None)
    }

    /// Returns the operator who runs a command on the machine of the server.
    #[must_use]
    pub fn command_line() -> Self {
        Self::without_user("Command line", None)
    }

    /// Returns a client that did not prove an identity.
    #[must_use]
    pub fn unauthenticated(ip_address: Option<IpAddr>) -> Self {
        Self::without_user("Unauthenticated", ip_address)
    }

    /// Returns the identity provider of a group.
    #[must_use]
    pub fn identity_provider(ip_address: Option<IpAddr>) -> Self {
        Self::without_user("Identity provider", ip_address)
    }

    /// Returns a deploy token.
    #[must_use]
    pub fn deploy_token(token: &deploy_tokens::Model, ip_address: Option<IpAddr>) -> Self {
        Self::without_user(&format!("Deploy token {}", token.name), ip_address)
    }

    /// Returns an OAuth application.
    #[must_use]
    pub fn application(name: &str, ip_address: Option<IpAddr>) -> Self {
        Self::without_user(&format!("Application {name}"), ip_address)
    }

    /// Returns a user at an address.
    #[must_use]
    pub fn user(user: &users::Model, ip_address: Option<IpAddr>) -> Self {
        Self::new(user.id, &user.name, ip_address)
    }

    fn without_user(name: &str, ip_address: Option<IpAddr>) -> Self {
        Self::new(NO_USER, name, ip_address)
    }

    fn new(id: i64, name: &str, ip_address: Option<IpAddr>) -> Self {
        Self {
            id,
            name: name.to_owned(),
            ip_address,
            administrator: None,
            access_token_id: None,
        }
    }

    /// Returns the ID of the user, or -1.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.id
    }
}

impl From<&Caller> for Actor {
    fn from(caller: &Caller) -> Self {
        let address = caller.ip_address();
        let Some(user) = caller.as_user() else {
            return match (caller.saml_provider(), caller.deploy_token()) {
                (Some(_), _) => Self::identity_provider(address),
                (None, Some(token)) => Self::deploy_token(token, address),
                (None, None) => Self::unauthenticated(address),
            };
        };
        Self {
            administrator: caller
                .administrator()
                .map(|administrator| (administrator.id, administrator.name.clone())),
            access_token_id: caller.access_token().map(|token| token.id),
            ..Self::user(user, address)
        }
    }
}

impl From<&Self> for Actor {
    fn from(actor: &Self) -> Self {
        actor.clone()
    }
}
