//! Making groups.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::namespaces::{self, Kind};
use storage::entities::{AccessLevel, Visibility, fold, members, namespace_ancestors, now};

use super::rules::{self, DEEPEST, Settings};
use super::runners_token_place;
use crate::error::{Error, Result};
use crate::secrets::Token;
use crate::services::Backend;
use crate::services::access::GroupAccess;
use crate::services::authentication::Caller;
use crate::services::settings;

/// What a new group is to be.
#[derive(Debug, Clone)]
pub struct NewGroup {
    /// The name.
    pub name: String,
    /// The last part of the path.
    pub path: String,
    /// The group above.
    pub parent_id: Option<i64>,
    /// Who may see it; what the instance's settings say when absent.
    pub visibility: Option<Visibility>,
    /// All else; absent fields get the default.
    pub settings: Settings,
}

/// Makes a group with the caller as Owner.
///
/// # Errors
/// 403 without the right to; 404 for a parent that is not there for the caller; 400 for what does not do.
pub async fn create(backend: &Backend, caller: &Caller, new: NewGroup) -> Result<GroupAccess> {
    let admitted = admit(backend, caller, new).await?;
    make(backend, caller, admitted, async |_, _| Ok(())).await
}

/// A group that may be made, as far as can be told before it is.
#[derive(Debug)]
pub(in crate::services) struct Admitted {
    new: NewGroup,
    parent: Option<namespaces::Model>,
    in_force: settings::Settings,
}

impl Admitted {
    /// The same, seen as far as groups are that come out of archives: private at the top level, else as far as the parent, or
    /// less where the instance restricts that.
    pub fn out_of_archive(mut self, caller: &Caller) -> Self {
        let widest = self
            .parent
            .as_ref()
            .map_or(Visibility::Private, |parent| parent.visibility);
        self.new.visibility = Some(self.in_force.closest_visibility(caller, widest));
        self
    }
}

/// Whether a group may be made, as far as that can be told without making it.
///
/// # Errors
/// As [`create`], but for what is taken.
pub(in crate::services) async fn admit(
    backend: &Backend,
    caller: &Caller,
    new: NewGroup,
) -> Result<Admitted> {
    let parent = rules::new_parent(backend, caller, new.parent_id).await?;
    rules::check_names(Some(&new.name), Some(&new.path), parent.is_none()).map_err(unsaved)?;
    let in_force = settings::read(backend).await?;
    Ok(Admitted {
        new,
        parent,
        in_force,
    })
}

/// Makes a group with the caller as Owner, and does something more with it in the same transaction.
///
/// # Errors
/// As [`create`].
pub(in crate::services) async fn make(
    backend: &Backend,
    caller: &Caller,
    admitted: Admitted,
    further: impl AsyncFnOnce(&DatabaseTransaction, &namespaces::Model) -> Result<()>,
) -> Result<GroupAccess> {
    let user_id = caller.signed_in()?.id;
    let Admitted {
        new,
        parent,
        in_force,
    } = admitted;
    let group = backend
        .database
        .transaction(async |transaction| {
            namespaces::keep_shape(transaction).await?;
            let parent = match parent {
                Some(parent) => Some(locked(transaction, parent.id).await?),
                None => None,
            };
            if new.settings.share_with_group_lock == Some(false) {
                rules::refuse_to_unlock_sharing(transaction, caller, parent.as_ref()).await?;
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
            further(transaction, &group).await?;
            Ok(group)
        })
        .await
        .map_err(unsaved)?;
    Ok(GroupAccess {
        caller: caller.clone(),
        group,
        role: Some(AccessLevel::Owner),
        above: false,
    })
}

/// Makes a group below another one that the transaction has made or locked, without a member of its own.
///
/// # Errors
/// 400 for what does not do or is taken.
pub(in crate::services) async fn make_below(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    parent: &namespaces::Model,
    new: NewGroup,
) -> Result<namespaces::Model> {
    rules::check_names(Some(&new.name), Some(&new.path), false)?;
    let row = row(backend, new, Some(parent), parent.visibility)?;
    insert(backend, transaction, row).await
}

/// The failure of making a group: a text, unlike that of every other resource.
fn unsaved(error: Error) -> Error {
    let Error::InvalidAttributes(faults) = error else {
        return error;
    };
    let faults = faults.iter().map(|(field, texts)| {
        let texts = texts.iter().map(|text| format!("\"{text}\""));
        format!(":{field}=>[{}]", texts.collect::<Vec<_>>().join(", "))
    });
    let faults = faults.collect::<Vec<_>>().join(", ");
    Error::Refused(format!("Failed to save group {{{faults}}}").into())
}

/// The parent, locked against what else would be made in it.
async fn locked(transaction: &DatabaseTransaction, id: i64) -> Result<namespaces::Model> {
    let parent = rules::locked(transaction, id).await?;
    if namespace_ancestors::of(transaction, id).await?.len() >= DEEPEST {
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
        kind: Set(Kind::Group),
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
    rules::refuse_path(transaction, row.full_path.as_ref()).await?;
    rules::refuse_name(transaction, *row.parent_id.as_ref(), row.name_key.as_ref()).await?;
    let group = row.insert(transaction).await.map_err(rules::taken)?;
    namespace_ancestors::insert(transaction, group.id, group.parent_id).await?;
    let token = Token::generate("");
    let encrypted = backend
        .keyring
        .encrypt(token.expose(), &runners_token_place(group.id))?;
    let mut row = group.into_active_model();
    row.runners_token_encrypted = Set(Some(encrypted));
    Ok(row.update(transaction).await?)
}
