//! Creates groups.

use super::auditing;
use crate::audit::{self, AuditEntity};
use crate::spaces::members::auditing::added;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::namespaces::{self, NamespaceKind};
use storage::entities::{AccessLevel, Visibility, fold, members, namespace_ancestors, now, users};

use super::rules::{self, GroupSettings, MAX_DEPTH};
use super::runners_token_context;
use crate::identity::access::GroupAccess;
use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::InstanceSettings;
use crate::secrets::Token;

/// Attributes of a new group.
#[derive(Debug, Clone)]
pub struct NewGroup {
    /// Name of the group.
    pub name: String,
    /// Last part of the path.
    pub path: String,
    /// ID of the parent group.
    pub parent_id: Option<i64>,
    /// Visibility; the default of the instance if absent.
    pub visibility: Option<Visibility>,
    /// Other settings; absent ones get their defaults.
    pub settings: GroupSettings,
}

/// Creates a group with the caller as Owner.
///
/// # Errors
/// Returns `Error::Forbidden` if the caller may not create groups there. Returns `Error::NotFound` if the
/// parent is not visible to the caller. Returns `Error::Rejected` if an attribute is invalid. Returns
/// `Error::Unauthorized` if the caller was deleted concurrently.
pub async fn create(backend: &Backend, caller: &Caller, new: NewGroup) -> Result<GroupAccess> {
    let admitted = check(backend, caller, new).await?;
    insert_with(backend, caller, admitted, async |_, _| Ok(())).await
}

/// A new group that passed the checks before the transaction.
#[derive(Debug)]
pub(crate) struct CheckedGroup {
    new: NewGroup,
    parent: Option<namespaces::Model>,
    in_force: InstanceSettings,
}

impl CheckedGroup {
    /// Sets the visibility of an imported group: private at the top level, else that of the parent, reduced
    /// to what the instance allows.
    pub fn with_imported_visibility(mut self, caller: &Caller) -> Self {
        let widest = self
            .parent
            .as_ref()
            .map_or(Visibility::Private, |parent| parent.visibility);
        self.new.visibility = Some(self.in_force.closest_visibility(caller, widest));
        self
    }
}

/// Checks whether a group may be created, as far as possible outside of the transaction.
///
/// # Errors
/// Fails like [`create`], but does not check for duplicates.
pub(crate) async fn check(backend: &Backend, caller: &Caller, new: NewGroup) -> Result<CheckedGroup> {
    let parent = rules::find_parent(backend, caller, new.parent_id).await?;
    rules::check_names(Some(&new.name), Some(&new.path), parent.is_none()).map_err(single_text_error)?;
    let in_force = settings::get(backend).await?;
    Ok(CheckedGroup {
        new,
        parent,
        in_force,
    })
}

/// Creates a group with the caller as Owner, and runs `further` in the same transaction.
///
/// # Errors
/// Fails like [`create`].
pub(crate) async fn insert_with(
    backend: &Backend,
    caller: &Caller,
    admitted: CheckedGroup,
    further: impl AsyncFnOnce(&DatabaseTransaction, &namespaces::Model) -> Result<()>,
) -> Result<GroupAccess> {
    let user = caller.signed_in()?;
    let user_id = user.id;
    let CheckedGroup {
        new,
        parent,
        in_force,
    } = admitted;
    let group = backend
        .database
        .transaction(async |transaction| {
            namespaces::lock_trees_shared(transaction).await?;
            let parent = match parent {
                Some(parent) => Some(lock_parent(transaction, parent.id).await?),
                None => None,
            };
            if new.settings.share_with_group_lock == Some(false) {
                rules::check_unlock_sharing(transaction, caller, parent.as_ref()).await?;
            }
            // Locked after the groups, like in a deletion, which otherwise would not find the membership.
            if users::lock(transaction, user_id).await?.is_none() {
                return Err(Error::Unauthorized);
            }
            let row = row(backend, new, parent.as_ref(), in_force.default_group_visibility)?;
            in_force.check_visibility(caller, *row.visibility.as_ref())?;
            let group = insert(backend, transaction, row).await?;
            let at = now();
            let owner = members::ActiveModel {
                user_id: Set(user_id),
                namespace_id: Set(Some(group.id)),
                access_level: Set(AccessLevel::Owner),
                created_by_id: Set(Some(user_id)),
                created_at: Set(at),
                updated_at: Set(at),
                ..Default::default()
            };
            owner.insert(transaction).await?;
            let member = added(AuditEntity::namespace(&group), user, AccessLevel::Owner, None);
            audit::record_all(transaction, caller, vec![auditing::created(&group), member]).await?;
            further(transaction, &group).await?;
            Ok(group)
        })
        .await
        .map_err(single_text_error)?;
    Ok(GroupAccess {
        caller: caller.clone(),
        group,
        role: Some(AccessLevel::Owner),
        above: false,
    })
}

/// Creates a subgroup of a group that the transaction has created or locked, without direct members.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if an attribute is invalid or taken.
pub(crate) async fn insert_subgroup(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    parent: &namespaces::Model,
    new: NewGroup,
) -> Result<namespaces::Model> {
    rules::check_names(Some(&new.name), Some(&new.path), false)?;
    let row = row(backend, new, Some(parent), parent.visibility)?;
    insert(backend, transaction, row).await
}

/// Converts an error of a group creation. Clients expect a single text, unlike for other resources.
fn single_text_error(error: Error) -> Error {
    let Error::InvalidAttributes(errors) = error else {
        return error;
    };
    let errors = errors.iter().map(|(field, texts)| {
        let texts = texts.iter().map(|text| format!("\"{text}\""));
        format!(":{field}=>[{}]", texts.collect::<Vec<_>>().join(", "))
    });
    let errors = errors.collect::<Vec<_>>().join(", ");
    Error::Rejected(format!("Failed to save group {{{errors}}}").into())
}

/// Locks the parent against concurrent creations in it.
async fn lock_parent(transaction: &DatabaseTransaction, id: i64) -> Result<namespaces::Model> {
    let parent = rules::lock(transaction, id).await?;
    if namespace_ancestors::of(transaction, id).await?.len() >= MAX_DEPTH {
        return Err(Error::attribute("parent_id", "has too deep level of nesting"));
    }
    Ok(parent)
}

fn row(
    backend: &Backend,
    new: NewGroup,
    parent: Option<&namespaces::Model>,
    default: Visibility,
) -> Result<namespaces::ActiveModel> {
    let widest = parent.map_or(Visibility::Public, |parent| parent.visibility);
    let visibility = new.visibility.unwrap_or(default.min(widest));
    rules::check_visibility(parent, visibility)?;
    let full_path = rules::full_path(parent, &new.path);
    let at = now();
    let mut row = namespaces::ActiveModel {
        kind: Set(NamespaceKind::Group),
        parent_id: Set(parent.map(|parent| parent.id)),
        name_key: Set(fold(&new.name)),
        name: Set(new.name),
        path: Set(new.path),
        full_path_key: Set(fold(&full_path)),
        full_path: Set(full_path),
        description: Set(String::new()),
        visibility: Set(visibility),
        share_with_group_lock: Set(parent.is_some_and(|parent| parent.share_with_group_lock)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    new.settings.apply(backend, &mut row)?;
    Ok(row)
}

async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    row: namespaces::ActiveModel,
) -> Result<namespaces::Model> {
    rules::check_path_available(transaction, row.full_path.as_ref()).await?;
    rules::check_name_available(transaction, *row.parent_id.as_ref(), row.name_key.as_ref()).await?;
    let group = row
        .insert(transaction)
        .await
        .map_err(rules::map_unique_violation)?;
    namespace_ancestors::insert(transaction, group.id, group.parent_id).await?;
    let token = Token::generate("");
    let encryptor = backend.keyring.encryptor(transaction).await?;
    let encrypted = encryptor.encrypt(token.expose(), &runners_token_context(group.id))?;
    let mut row = group.into_active_model();
    row.runners_token_encrypted = Set(Some(encrypted));
    Ok(row.update(transaction).await?)
}
