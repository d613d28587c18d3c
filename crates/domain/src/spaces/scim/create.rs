//! Provisions new users.

use parsers::scim::check_uid;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel, PaginatorTrait};
use storage::entities::{fold, now, scim_identities, users};

use super::{ScimUser, addresses, usernames};
use crate::accounts::users::provisioning::{self, ProvidedEmail};
use crate::accounts::users::{NewUser, USERNAME_TAKEN};
use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ScimAccess;
use crate::instance::settings;
use crate::kernel::error::{Error, Result, ScimErrorType};
use crate::kernel::settings::InstanceSettings;
use crate::kernel::{Backend, names};
use crate::spaces::members;
use crate::spaces::single_sign_on::lock;

/// Attributes of a new user from an identity provider.
#[derive(Debug, Clone)]
pub struct NewScimUser {
    /// The ID at the provider.
    pub extern_uid: String,
    /// The requested user name.
    pub username: String,
    /// The display name.
    pub name: String,
    /// The email address.
    pub email: String,
}

/// Maximum number of attempts to find a user name that no other group takes concurrently.
const ATTEMPTS: usize = 5;

/// Provisions a user: creates an account and adds it to the group. A user who is provisioned under this ID is
/// unchanged, and is added to the group again if needed. An account that the provider created earlier, under
/// this ID and with the address, is provisioned again. The address is confirmed if its domain is verified for
/// the group.
///
/// # Errors
/// Returns `Conflict` for an address that is taken, and `InvalidScimRequest` for a blank name or an invalid
/// address. Returns `Forbidden` if groups cannot create accounts, or if the provider has reached its maximum
/// number of accounts.
pub async fn create(backend: &Backend, access: &ScimAccess, new: NewScimUser) -> Result<ScimUser> {
    check_uid(&new.extern_uid)?;
    check(&new)?;
    let in_force = settings::get(backend).await?;
    let description = format!("userName {:?}, email {:?}", new.username, new.email);
    let mut outrun = 0;
    loop {
        let attempt = ProvisioningAttempt {
            backend,
            access,
            in_force: &in_force,
            new: &new,
            outrun: outrun > 0,
        };
        match attempt.run().await {
            Err(Error::Conflict(text)) if text == USERNAME_TAKEN && outrun < ATTEMPTS => outrun += 1,
            Err(Error::Conflict(text)) => {
                let text = format!("Error saving user with {description}: {text}");
                return Err(Error::Conflict(text.into()));
            }
            outcome => return outcome,
        }
    }
}

/// One atomic attempt to provision a user.
struct ProvisioningAttempt<'a> {
    backend: &'a Backend,
    access: &'a ScimAccess,
    in_force: &'a InstanceSettings,
    new: &'a NewScimUser,
    /// Whether another group took the user name concurrently.
    outrun: bool,
}

fn check(new: &NewScimUser) -> Result<()> {
    let invalid_value = |text: String| Err(Error::invalid_scim_request(ScimErrorType::Value, text));
    for (attribute, value) in [("Email", &new.email), ("Name", &new.name)] {
        if value.trim().is_empty() {
            return invalid_value(format!("{attribute} can't be blank"));
        }
        if let Some(fault) = names::length_fault(value) {
            return invalid_value(format!("{attribute} {fault}"));
        }
    }
    Ok(())
}

impl ProvisioningAttempt<'_> {
    async fn run(&self) -> Result<ScimUser> {
        self.backend
            .database
            .transaction(async |transaction| {
                // The lock serializes requests: of two with the same ID, the second finds the first user.
                let group = lock(transaction, self.access.group.id).await?;
                let actor = Actor::from(&self.access.caller);
                let provisioned = match self.find_provisioned(transaction).await? {
                    Some(known) => known,
                    None => {
                        let user = self.provision(transaction).await?;
                        let target = AuditTarget::user(&user.user);
                        let entity = AuditEntity::namespace(&group);
                        let event = AuditEvent::new(AuditKind::ScimUserProvisioned, entity, target);
                        audit::record(transaction, &actor, event).await?;
                        user
                    }
                };
                let role = self.access.provider.default_membership_role;
                members::add_provisioned(transaction, &actor, &group, &provisioned.user, role).await?;
                Ok(provisioned)
            })
            .await
    }

    /// Returns the user who is provisioned under this ID, locked against concurrent deletion.
    async fn find_provisioned(&self, transaction: &DatabaseTransaction) -> Result<Option<ScimUser>> {
        let (provider, uid) = (self.access.provider.id, &self.new.extern_uid);
        let found = scim_identities::by_extern_uid(transaction, provider, uid).await?;
        let Some((identity, user)) = found else {
            return Ok(None);
        };
        let user = users::lock(transaction, user.id).await?;
        Ok(user.map(|user| ScimUser { identity, user }))
    }

    /// Provisions a former user again, or else creates an account.
    async fn provision(&self, transaction: &DatabaseTransaction) -> Result<ScimUser> {
        let confirmed = addresses::claim(transaction, self.access, None, &self.new.email).await?;
        if let Some(user) = users::by_email(transaction, &self.new.email).await?
            && let Some(user) = users::lock(transaction, user.id).await?
        {
            return self.restore(transaction, user, confirmed).await;
        }
        self.create_account(transaction, confirmed).await
    }

    /// Provisions a user with the address again, who was provisioned under this ID before.
    async fn restore(
        &self,
        transaction: &DatabaseTransaction,
        user: users::Model,
        confirmed: bool,
    ) -> Result<ScimUser> {
        let (provider, uid) = (self.access.provider.id, &self.new.extern_uid);
        let former = scim_identities::find_former(transaction, provider, user.id, uid).await?;
        let already_taken = || Error::Conflict("Email has already been taken".into());
        let mut row = former.ok_or_else(already_taken)?.into_active_model();
        row.extern_uid = Set(Some(uid.clone()));
        row.former_uid_key = Set(None);
        row.user_name_key = Set(fold(&self.new.username));
        row.updated_at = Set(now());
        let identity = row.update(transaction).await?;
        if !confirmed || user.admin || user.confirmed_at.is_some() {
            return Ok(ScimUser { identity, user });
        }
        let email = ProvidedEmail {
            address: user.email.clone(),
            confirmed,
        };
        let actor = Actor::from(&self.access.caller);
        let user = provisioning::update(transaction, &actor, user, None, None, Some(email)).await?;
        Ok(ScimUser { identity, user })
    }

    async fn create_account(&self, transaction: &DatabaseTransaction, confirmed: bool) -> Result<ScimUser> {
        if !self.in_force.allow_account_creation_by_groups {
            let text = "Groups cannot create accounts on this instance";
            return Err(Error::forbidden_because(text).because_of("allow_account_creation_by_groups"));
        }
        let (provider, new) = (self.access.provider.id, self.new.clone());
        let most = u64::from(self.backend.instance.max_scim_users);
        if scim_identities::created_by(provider).count(transaction).await? >= most {
            let text = format!("The group has reached the maximum number of provisioned users ({most})");
            return Err(Error::forbidden_because(text).because_of("max_scim_users"));
        }
        let account = NewUser {
            username: usernames::find_available(transaction, &new.username, self.outrun).await?,
            name: new.name,
            email: new.email,
            password: None,
            admin: false,
        };
        let actor = Actor::from(&self.access.caller);
        let user = provisioning::create(transaction, &actor, self.in_force, account, confirmed).await?;
        let at = now();
        let row = scim_identities::ActiveModel {
            saml_provider_id: Set(provider),
            user_id: Set(user.id),
            extern_uid: Set(Some(new.extern_uid)),
            user_name_key: Set(fold(&new.username)),
            created_at: Set(at),
            updated_at: Set(at),
            ..Default::default()
        };
        let identity = row.insert(transaction).await?;
        Ok(ScimUser { identity, user })
    }
}
