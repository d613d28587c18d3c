//! Authorization of Git clients that fetch from and push to a project over HTTP.
//!
//! A client without credentials is asked for them for every resource that is not public, whether or not it
//! exists. An authenticated client gets a 404 for resources that it cannot see.

use std::net::IpAddr;

use git::TransportService;
use storage::entities::users;

use crate::audit::{Actor, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::identity::authentication::{caller_of_basic_token, check_account_active};
use crate::identity::password_attempts::{AttemptSource, CredentialContext};
use crate::identity::reauthorization::renew_access;
use crate::identity::two_factor::requirement;
use crate::identity::{attempt_events, known_addresses, password_attempts};
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Username and password of HTTP Basic authentication.
pub struct BasicCredentials {
    /// Username or email address. Ignored if the password is a token, including job tokens, but not deploy tokens.
    pub name: String,
    /// A token, or the user's password.
    pub password: String,
    /// Network address of the client, under which failures are counted.
    pub address: Option<String>,
    /// The same address for audit events.
    pub ip_address: Option<IpAddr>,
}

/// Maximum length of a password, in bytes.
const MAX_PASSWORD_BYTES: usize = 1024;

/// Identifies the caller.
///
/// # Errors
/// Returns `Error::Unauthorized` if credentials are invalid. Returns `Error::InvalidToken` if a token is revoked or
/// expired. Returns `Error::Forbidden` if the account is not active, its password must be changed, or the password is
/// not sufficient because of two-factor authentication. Returns [`Error::RateLimited`] after too many failed passwords.
pub async fn identify(backend: &Backend, credentials: Option<BasicCredentials>) -> Result<Caller> {
    let Some(basic) = credentials else {
        return Ok(Caller::anonymous());
    };
    if basic.password.len() > MAX_PASSWORD_BYTES {
        return Err(Error::Unauthorized);
    }
    let caller = match caller_of_basic_token(backend, &basic.name, &basic.password).await {
        Err(Error::Unauthorized) => by_password(backend, basic).await?,
        found => found?,
    };
    if let Some(user) = caller.as_user() {
        check_account_active(user)?;
    }
    Ok(caller)
}

async fn by_password(backend: &Backend, basic: BasicCredentials) -> Result<Caller> {
    let BasicCredentials {
        name,
        password,
        address,
        ip_address,
    } = basic;
    // No username contains NUL, and PostgreSQL does not accept it in a query.
    if name.is_empty() || name.contains('\0') {
        return Err(Error::Unauthorized);
    }
    if !settings::get(backend)
        .await?
        .password_authentication_enabled_for_git
    {
        return Err(Error::Unauthorized);
    }
    let database = backend.database.read();
    let user = match users::by_username(database, &name).await? {
        Some(user) => Some(user),
        None => users::by_email(database, &name).await?,
    };
    let address = address.as_deref();
    let named = user.clone();
    let source =
        AttemptSource::of_login(backend, CredentialContext::Git, &name, user.as_ref(), address).await?;
    password_attempts::check_limits(backend, &source).await?;
    // Released after the outcome is recorded, which bounds the concurrent attempts. Failures are not recorded
    // beforehand, because one client may send many valid requests at once.
    let permit = password_attempts::acquire_permit().await?;
    password_attempts::check_limits(backend, &source).await?;
    let (verified, permit) = password_attempts::verify(backend, permit, password, user).await?;
    let Some(user) = verified else {
        password_attempts::record_failure(backend, &source).await?;
        let client = Actor::unauthenticated(ip_address);
        attempt_events::record_failure(backend, client, AuditKind::GitPasswordFailed, named.as_ref()).await?;
        return Err(Error::Unauthorized);
    };
    drop(permit);
    if user.password_change_required {
        return Err(Error::forbidden_because(
            "Your password must be changed. Sign in with a web browser and choose a new one, or use a token.",
        ));
    }
    requirement::check_password_suffices(backend, &user).await?;
    if let Some(address) = address
        && check_account_active(&user).is_ok()
        && known_addresses::is_new_use(backend, &user, address).await?
        && attempt_events::has_room(backend, AuditKind::GitPasswordUsed, Some(&user)).await?
    {
        known_addresses::record_use(backend, &user, address, ip_address).await?;
    }
    Ok(Caller::password(user))
}

/// Authorizes a caller for one of the two services on the project with this path.
///
/// # Errors
/// Returns `Error::Unauthorized` if the caller is anonymous and credentials might help. Returns
/// `Error::NotFound` if the caller cannot see the project. Returns `Error::Forbidden` if the caller may not
/// use the service; the text is for the user.
pub async fn authorize(
    backend: &Backend,
    caller: Caller,
    full_path: &str,
    service: TransportService,
) -> Result<ProjectAccess> {
    if service == TransportService::ReceivePack && caller.deploy_token().is_some() {
        return Err(Error::forbidden_because("You are not allowed to upload code."));
    }
    let scopes: &[&str] = match service {
        TransportService::UploadPack => &["api", "read_repository", "write_repository"],
        TransportService::ReceivePack => &["api", "write_repository"],
    };
    if !caller.covers(scopes) {
        let reason = format!("The token needs one of these scopes: {}", scopes.join(", "));
        return Err(Error::forbidden_because(reason));
    }
    let known = caller.is_known();
    if service == TransportService::ReceivePack && !known || full_path.contains('\0') {
        return Err(if known { hidden() } else { Error::Unauthorized });
    }
    let outcome = match ProjectAccess::find(backend, caller, full_path).await {
        Ok(access) => check_service(&access, service).map(|()| access),
        Err(error) => Err(error),
    };
    match outcome {
        Err(Error::NotFound(_) | Error::Forbidden(_)) if !known => Err(Error::Unauthorized),
        outcome => outcome,
    }
}

/// Authorizes a caller again for changes of the repository, by the current state of the database.
///
/// # Errors
/// Returns the errors of [`renew_access`], and `Error::Forbidden` if the caller may not change the repository; the text
/// is for the user.
pub async fn authorize_push_again(backend: &Backend, access: &ProjectAccess) -> Result<ProjectAccess> {
    // The scopes of a token never change.
    let access = renew_access(backend, access).await?;
    check_service(&access, TransportService::ReceivePack)?;
    Ok(access)
}

fn hidden() -> Error {
    Error::not_found("Project")
}

/// Checks feature, role and archived state, in this order.
fn check_service(access: &ProjectAccess, service: TransportService) -> Result<()> {
    let project = &access.project;
    let effective_access = access.effective_access();
    if !effective_access.has_feature(project.repository_access_level) {
        return Err(Error::forbidden_because(
            "The repository of this project is not available to you.",
        ));
    }
    if !effective_access.can_read_code(project.repository_access_level, project.visibility) {
        return Err(Error::forbidden_because(
            "You are not allowed to download code from this project.",
        ));
    }
    if service == TransportService::UploadPack {
        return Ok(());
    }
    if !access.has_role(Role::Developer) {
        return Err(Error::forbidden_because(
            "You are not allowed to push code to this project.",
        ));
    }
    if project.archived {
        return Err(Error::forbidden_because(
            "You cannot push to this project: it is archived and therefore read-only.",
        ));
    }
    Ok(())
}
