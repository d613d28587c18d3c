//! The caller of a request and the limits of its credentials.

use std::net::IpAddr;
use std::sync::Arc;

use git::{ProcessorBudget, Repository, ResultMemory, SlotHolder};
use serde::{Deserialize, Serialize};
use storage::entities::access::Viewer;
use storage::entities::{access_tokens, deploy_tokens, job_tokens, oauth_tokens, saml_providers, users};

use crate::kernel::budgets::{GitTime, RateClient, RequestMemory};
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::{EffectiveAccess, Role};
use crate::secrets;

/// The caller and the limits of the credentials.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Network address of an anonymous client, if known.
    address: Option<Arc<str>>,
    user: Option<Arc<users::Model>>,
    limits: CredentialLimits,
    /// Memory of the request; `None` outside of REST requests.
    memory: Option<RequestMemory>,
    /// Processor time of the Git programs of the request; `None` for work of the server itself.
    git_time: Option<GitTime>,
    /// Administrator who acts as the user by `sudo`.
    administrator: Option<Arc<users::Model>>,
    /// Address of the client, if known.
    ip_address: Option<IpAddr>,
}

/// Limits of the credentials.
#[derive(Debug, Clone)]
enum CredentialLimits {
    /// All rights of the user, or of an anonymous client, with the proof of the authentication.
    Whole(Box<Proof>),
    /// The scopes of an access token.
    Scopes(Arc<access_tokens::Model>),
    /// The scopes a user granted to an OAuth application.
    Granted(Box<oauth_tokens::Model>),
    /// One project, for the operations that accept job tokens.
    Job(job_tokens::Model),
    /// The scopes of a deploy token, which is not a user.
    Deploy(Box<deploy_tokens::Model>),
    /// SCIM provisioning of one group by its identity provider, which is not a user.
    Provisioning(saml_providers::Model),
}

/// Scopes of job tokens where scopes are checked without the contract: Git over HTTP and the container
/// registry.
const JOB_TOKEN_SCOPES: &str = "read_repository write_registry";

/// Reference to verified credentials, from which the caller can be restored without a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proof {
    /// No credentials.
    None,
    /// The password of a user. It is no proof any more after the password was replaced.
    Password {
        /// The ID of the user.
        user_id: i64,
        /// The digest of the stored hash of the password; none if the user has no password.
        digest: Option<String>,
    },
    /// The access token with this ID.
    Token(i64),
    /// The OAuth access token with this ID.
    Granted(i64),
    /// The job token with this ID.
    Job(i64),
    /// The deploy token with this ID.
    Deploy(i64),
    /// The browser session with this ID.
    Session(i64),
    /// The token of an administrator who impersonates a user.
    Sudo {
        /// The proof of the administrator.
        administrator: Box<Proof>,
        /// The ID of the user.
        user_id: i64,
    },
    /// No credentials: the server acts on behalf of the user with this ID.
    User(i64),
}

impl Proof {
    /// Returns the proof of a user's current password.
    #[must_use]
    pub fn of_password(user: &users::Model) -> Self {
        Self::Password {
            user_id: user.id,
            digest: user.password_hash.as_deref().map(secrets::digest),
        }
    }
}

impl Caller {
    /// Returns the anonymous caller.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            address: None,
            user: None,
            limits: CredentialLimits::Whole(Box::new(Proof::None)),
            memory: None,
            git_time: None,
            administrator: None,
            ip_address: None,
        }
    }

    /// Returns a user on whose behalf the server acts, with all rights of the user.
    #[must_use]
    pub fn user(user: users::Model) -> Self {
        let proof = Proof::User(user.id);
        Self::with_proof(user, proof)
    }

    /// Returns the caller with a user's password.
    pub(crate) fn password(user: users::Model) -> Self {
        let proof = Proof::of_password(&user);
        Self::with_proof(user, proof)
    }

    /// Returns the caller of a browser session.
    pub(crate) fn session(user: users::Model, session_id: i64) -> Self {
        Self::with_proof(user, Proof::Session(session_id))
    }

    /// Returns a user that an administrator impersonates.
    pub(crate) fn impersonated(user: users::Model, administrator: &Self) -> Self {
        let proof = Proof::Sudo {
            administrator: Box::new(administrator.proof()),
            user_id: user.id,
        };
        Self {
            administrator: administrator.user.clone(),
            ..Self::with_proof(user, proof)
        }
    }

    fn with_proof(user: users::Model, proof: Proof) -> Self {
        Self {
            address: None,
            user: Some(Arc::new(user)),
            limits: CredentialLimits::Whole(Box::new(proof)),
            memory: None,
            git_time: None,
            administrator: None,
            ip_address: None,
        }
    }

    /// Returns this caller, who was identified again, with the address and the memory of the request.
    #[must_use]
    pub(crate) fn continuing(self, request: &Self) -> Self {
        Self {
            address: request.address.clone(),
            ip_address: request.ip_address,
            memory: request.memory.clone(),
            git_time: request.git_time.clone(),
            ..self
        }
    }

    /// Returns the caller of an access token.
    pub(crate) fn token(user: &Arc<users::Model>, token: &Arc<access_tokens::Model>) -> Self {
        Self {
            address: None,
            user: Some(Arc::clone(user)),
            limits: CredentialLimits::Scopes(Arc::clone(token)),
            memory: None,
            git_time: None,
            administrator: None,
            ip_address: None,
        }
    }

    /// Returns the caller of an OAuth access token.
    pub(crate) fn granted((token, user): (oauth_tokens::Model, users::Model)) -> Self {
        Self {
            address: None,
            user: Some(Arc::new(user)),
            limits: CredentialLimits::Granted(Box::new(token)),
            memory: None,
            git_time: None,
            administrator: None,
            ip_address: None,
        }
    }

    /// Returns the caller of a job token.
    pub(crate) fn job((token, user): (job_tokens::Model, users::Model)) -> Self {
        Self {
            address: None,
            user: Some(Arc::new(user)),
            limits: CredentialLimits::Job(token),
            memory: None,
            git_time: None,
            administrator: None,
            ip_address: None,
        }
    }

    /// Returns the caller of a deploy token.
    pub(crate) fn deploy(token: deploy_tokens::Model) -> Self {
        Self {
            limits: CredentialLimits::Deploy(Box::new(token)),
            ..Self::anonymous()
        }
    }

    /// Returns the identity provider of a group as the caller.
    pub(crate) fn identity_provider(provider: saml_providers::Model) -> Self {
        Self {
            address: None,
            user: None,
            limits: CredentialLimits::Provisioning(provider),
            memory: None,
            git_time: None,
            administrator: None,
            ip_address: None,
        }
    }

    /// Returns the client whose requests are counted: the user whose credentials the request contains, who with `sudo`
    /// is the administrator; or the deploy token or the identity provider. Returns `None` for an anonymous caller.
    #[must_use]
    pub fn rate_client(&self) -> Option<RateClient> {
        let user = self.administrator.as_ref().or(self.user.as_ref());
        let user_id = user.map(|user| user.id);
        let token = || self.deploy_token().map(|token| token.id);
        let provider = || self.saml_provider().map(|provider| provider.id);
        user_id
            .map(RateClient::User)
            .or_else(|| token().map(RateClient::DeployToken))
            .or_else(|| provider().map(RateClient::IdentityProvider))
    }

    /// Returns the caller with the memory of the request.
    #[must_use]
    pub fn with_memory(mut self, memory: RequestMemory) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Returns the caller with the processor time of the Git programs of the request.
    #[must_use]
    pub fn with_git_time(mut self, git_time: GitTime) -> Self {
        self.git_time = Some(git_time);
        self
    }

    /// Returns the caller without the memory of the request, to load the response of a write that is committed. The
    /// request must not fail afterwards because memory is in use, or because the processor time of the client is used: the
    /// client would repeat the write.
    #[must_use]
    pub fn after_commit(&self) -> Self {
        if let Some(git_time) = &self.git_time {
            git_time.admit();
        }
        Self {
            memory: None,
            ..self.clone()
        }
    }

    /// Reserves memory for the response before large content is loaded.
    ///
    /// # Errors
    /// Returns [`Error::Overloaded`] if too little is left for the client or the process.
    pub fn reserve_memory(&self, bytes: u64) -> Result<()> {
        self.memory
            .as_ref()
            .map_or(Ok(()), |memory| memory.reserve(bytes))
    }

    /// Reserves memory for content of the response before it is read from the database.
    ///
    /// # Errors
    /// Returns [`Error::Overloaded`] if too little is left for the client or the process.
    pub fn reserve_content(&self, size: u64) -> Result<()> {
        self.memory
            .as_ref()
            .map_or(Ok(()), |memory| memory.reserve_content(size))
    }

    /// Releases memory that was reserved for the response and is no longer in use.
    pub fn release_memory(&self, bytes: u64) {
        if let Some(memory) = &self.memory {
            memory.release(bytes);
        }
    }

    /// Returns the caller with the network address of the client, which distinguishes anonymous callers.
    #[must_use]
    pub fn at_address(mut self, address: Option<String>) -> Self {
        if !self.is_signed_in() {
            self.address = address.map(Arc::from);
        }
        self
    }

    /// Returns the caller with the address of the client, which audit events contain.
    #[must_use]
    pub fn at_ip_address(mut self, ip_address: Option<IpAddr>) -> Self {
        self.ip_address = ip_address;
        self
    }

    /// Returns the address of the client, if known.
    #[must_use]
    pub fn ip_address(&self) -> Option<IpAddr> {
        self.ip_address
    }

    /// Returns the administrator who acts as the user by `sudo`.
    #[must_use]
    pub fn administrator(&self) -> Option<&users::Model> {
        self.administrator.as_deref()
    }

    /// Returns the holder of the slots of the caller's Git operations.
    #[must_use]
    pub fn slot_holder(&self) -> SlotHolder {
        match (&self.user, self.deploy_token(), &self.address) {
            (Some(user), _, _) => SlotHolder::User(user.id),
            (None, Some(token), _) => SlotHolder::DeployToken(token.id),
            (None, None, Some(address)) => SlotHolder::Address(Arc::clone(address)),
            (None, None, None) => SlotHolder::Anonymous,
        }
    }

    /// Returns a handle of a repository whose operations use the caller's shares of slots, memory and processor time.
    #[must_use]
    pub fn with_shares(&self, repository: Repository) -> Repository {
        let memory = self.memory.clone();
        let memory = memory.map(|memory| Arc::new(memory) as Arc<dyn ResultMemory>);
        let git_time = self.git_time.clone();
        let git_time = git_time.map(|git_time| Arc::new(git_time) as Arc<dyn ProcessorBudget>);
        repository
            .on_behalf_of(self.slot_holder())
            .with_memory(memory)
            .with_processor_budget(git_time)
    }

    /// Returns whether a user is signed in.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.user.is_some()
    }

    /// Returns whether the caller is authenticated, as a user, a deploy token or an identity provider.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.is_signed_in() || self.deploy_token().is_some() || self.saml_provider().is_some()
    }

    /// Returns the deploy token that is the caller, if any.
    #[must_use]
    pub fn deploy_token(&self) -> Option<&deploy_tokens::Model> {
        match &self.limits {
            CredentialLimits::Deploy(token) => Some(token),
            CredentialLimits::Whole(_)
            | CredentialLimits::Scopes(_)
            | CredentialLimits::Granted(_)
            | CredentialLimits::Job(_)
            | CredentialLimits::Provisioning(_) => None,
        }
    }

    /// Returns the SAML provider whose identity provider is the caller, if any.
    #[must_use]
    pub fn saml_provider(&self) -> Option<&saml_providers::Model> {
        match &self.limits {
            CredentialLimits::Provisioning(provider) => Some(provider),
            CredentialLimits::Whole(_)
            | CredentialLimits::Scopes(_)
            | CredentialLimits::Granted(_)
            | CredentialLimits::Job(_)
            | CredentialLimits::Deploy(_) => None,
        }
    }

    /// Returns whether the caller is an administrator.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.as_user().is_some_and(|user| user.admin)
    }

    /// Returns the user, if any.
    #[must_use]
    pub fn as_user(&self) -> Option<&users::Model> {
        self.user.as_deref()
    }

    /// Returns the user.
    ///
    /// # Errors
    /// Returns [`Error::Unauthorized`] if no user is signed in.
    pub fn signed_in(&self) -> Result<&users::Model> {
        self.as_user().ok_or(Error::Unauthorized)
    }

    /// Returns the access token that authenticated the request, if any.
    #[must_use]
    pub fn access_token(&self) -> Option<&access_tokens::Model> {
        match &self.limits {
            CredentialLimits::Whole(_)
            | CredentialLimits::Granted(_)
            | CredentialLimits::Job(_)
            | CredentialLimits::Deploy(_)
            | CredentialLimits::Provisioning(_) => None,
            CredentialLimits::Scopes(token) => Some(token),
        }
    }

    /// Returns the proof of the caller's authentication.
    #[must_use]
    pub fn proof(&self) -> Proof {
        match &self.limits {
            CredentialLimits::Whole(proof) => Proof::clone(proof),
            CredentialLimits::Scopes(token) => Proof::Token(token.id),
            CredentialLimits::Granted(token) => Proof::Granted(token.id),
            CredentialLimits::Job(token) => Proof::Job(token.id),
            CredentialLimits::Deploy(token) => Proof::Deploy(token.id),
            // An identity provider is anonymous outside of SCIM.
            CredentialLimits::Provisioning(_) => Proof::None,
        }
    }

    /// Returns the space-separated scopes that limit the credentials, or `None` without a limit.
    #[must_use]
    pub fn scopes(&self) -> Option<&str> {
        match &self.limits {
            CredentialLimits::Whole(_) => None,
            CredentialLimits::Scopes(token) => Some(&token.scopes),
            CredentialLimits::Granted(token) => Some(&token.scopes),
            CredentialLimits::Job(_) => Some(JOB_TOKEN_SCOPES),
            CredentialLimits::Deploy(token) => Some(&token.scopes),
            CredentialLimits::Provisioning(_) => Some(""),
        }
    }

    /// Returns the project of the job, if the credentials are a job token.
    #[must_use]
    pub fn job_project(&self) -> Option<i64> {
        match &self.limits {
            CredentialLimits::Job(token) => Some(token.project_id),
            CredentialLimits::Whole(_)
            | CredentialLimits::Scopes(_)
            | CredentialLimits::Granted(_)
            | CredentialLimits::Deploy(_)
            | CredentialLimits::Provisioning(_) => None,
        }
    }

    /// Returns whether the credentials cover one of these scopes.
    #[must_use]
    pub fn covers(&self, scopes: &[&str]) -> bool {
        self.scopes()
            .is_none_or(|own| own.split_ascii_whitespace().any(|scope| scopes.contains(&scope)))
    }

    /// Returns the effective access of the caller to a resource in which they have `role`.
    #[must_use]
    pub fn effective_access(&self, role: Option<Role>) -> EffectiveAccess {
        EffectiveAccess {
            signed_in: self.is_signed_in(),
            external: self.as_user().is_some_and(|user| user.external),
            admin: self.is_admin(),
            role,
        }
    }

    /// Returns the viewer for the database's visibility conditions.
    #[must_use]
    pub fn viewer(&self) -> Viewer {
        match self.as_user() {
            None => Viewer::Anonymous,
            Some(user) if user.admin => Viewer::Admin,
            Some(user) => Viewer::User {
                id: user.id,
                external: user.external,
            },
        }
    }
}
