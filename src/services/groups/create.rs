//! Making groups.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};

use super::runners_token_place;
use crate::database::Violation;
use crate::entities::namespaces::{self, Kind, ProjectCreation, SubgroupCreation};
use crate::entities::{AccessLevel, Visibility, fold, members, namespace_ancestors, now};
use crate::error::{Error, Result};
use crate::secrets::Token;
use crate::services::access::GroupAccess;
use crate::services::authentication::Caller;
use crate::services::{Backend, naming};

/// How many groups may stand in one line, this one included.
const DEEPEST: usize = 20;
/// What is said of a name or path that something has already.
const TAKEN: &str = "has already been taken";

/// What a new group is to be; absent fields get the default.
#[derive(Debug, Clone)]
pub struct NewGroup {
    /// The name.
    pub name: String,
    /// The last part of the path.
    pub path: String,
    /// The group above.
    pub parent_id: Option<i64>,
    /// What it is for.
    pub description: Option<String>,
    /// Who may see it; members only when absent.
    pub visibility: Option<Visibility>,
    /// Whether its projects may not be shared with other groups.
    pub share_with_group_lock: Option<bool>,
    /// Whether members need a second factor.
    pub require_two_factor_authentication: Option<bool>,
    /// How many hours they may do without.
    pub two_factor_grace_period: Option<i64>,
    /// Who may make projects in it.
    pub project_creation_level: Option<ProjectCreation>,
    /// Who may make groups in it.
    pub subgroup_creation_level: Option<SubgroupCreation>,
    /// Whether pipelines are made up.
    pub auto_devops_enabled: Option<bool>,
    /// Whether mail is off.
    pub emails_disabled: Option<bool>,
    /// Whether it cannot be mentioned.
    pub mentions_disabled: Option<bool>,
    /// Whether large files may be kept apart.
    pub lfs_enabled: Option<bool>,
    /// How default branches of new projects are protected, 0 to 3.
    pub default_branch_protection: Option<i64>,
    /// Whether users may ask to join.
    pub request_access_enabled: Option<bool>,
}

/// Makes a group with the caller as Owner.
///
/// # Errors
/// 403 without the right to; 404 for a parent that is not there for the caller; 400 for what does not do.
pub async fn create(backend: &Backend, caller: &Caller, new: NewGroup) -> Result<GroupAccess> {
    let user = caller.signed_in()?;
    let parent = match new.parent_id {
        Some(id) => Some(parent(backend, caller, id).await?),
        None if user.can_create_group || user.admin => None,
        None => return Err(Error::forbidden()),
    };
    let faults = [
        ("name", naming::group_name_fault(&new.name)),
        ("path", naming::path_fault(&new.path, parent.is_none())),
    ];
    for (field, fault) in faults {
        if let Some(fault) = fault {
            return Err(refused(field, fault));
        }
    }
    let grace = new.two_factor_grace_period.map(i32::try_from).transpose();
    let grace = grace.map_err(|_| refused("two_factor_grace_period", "is not a number in range"))?;
    let user_id = user.id;
    let group = backend
        .database
        .transaction(async |transaction| {
            let parent = match parent {
                Some(parent) => Some(locked(transaction, parent.id).await?),
                None => None,
            };
            let row = row(new, grace, parent.as_ref())?;
            let group = insert(backend, transaction, parent.as_ref(), row).await?;
            let owner = members::ActiveModel {
                user_id: Set(user_id),
                namespace_id: Set(Some(group.id)),
                access_level: Set(AccessLevel::Owner),
                created_by_id: Set(Some(user_id)),
                created_at: Set(now()),
                updated_at: Set(now()),
                ..Default::default()
            };
            owner.insert(transaction).await?;
            Ok::<_, Error>(group)
        })
        .await?;
    Ok(GroupAccess {
        caller: caller.clone(),
        group,
        role: Some(AccessLevel::Owner),
    })
}

/// The failure of making a group: a text, unlike that of every other resource.
fn refused(field: &str, text: &str) -> Error {
    Error::Refused(format!("Failed to save group {{:{field}=>[\"{text}\"]}}").into())
}

/// The group to make one in, when the caller may.
async fn parent(backend: &Backend, caller: &Caller, id: i64) -> Result<namespaces::Model> {
    let access = GroupAccess::find(backend, caller.clone(), &id.to_string()).await?;
    let maintainers = access.group.subgroup_creation_level == SubgroupCreation::Maintainer;
    let least = if maintainers {
        AccessLevel::Maintainer
    } else {
        AccessLevel::Owner
    };
    if access.holds(least) {
        Ok(access.group)
    } else {
        Err(Error::forbidden())
    }
}

/// The parent, locked against what else would be made in it.
async fn locked(transaction: &DatabaseTransaction, id: i64) -> Result<namespaces::Model> {
    let parent = namespaces::lock(transaction, id).await?;
    let parent = parent.filter(|parent| parent.deletion_started_at.is_none());
    let parent = parent.ok_or_else(|| Error::not_found("Group"))?;
    if namespace_ancestors::of(transaction, id).await?.len() >= DEEPEST {
        return Err(refused("parent_id", "has too deep level of nesting"));
    }
    Ok(parent)
}

fn row(
    new: NewGroup,
    grace: Option<i32>,
    parent: Option<&namespaces::Model>,
) -> Result<namespaces::ActiveModel> {
    let visibility = new.visibility.unwrap_or(Visibility::Private);
    if let Some(parent) = parent.filter(|parent| visibility > parent.visibility) {
        let word = |visibility| crate::api::contract::Visibility::from(visibility).as_str();
        let text = format!(
            "{} is not allowed since the parent group has a {} visibility.",
            word(visibility),
            word(parent.visibility)
        );
        return Err(refused("visibility_level", &text));
    }
    let full_path = match parent {
        Some(parent) => format!("{}/{}", parent.full_path, new.path),
        None => new.path.clone(),
    };
    let mut row = namespaces::ActiveModel {
        kind: Set(Kind::Group),
        parent_id: Set(parent.map(|parent| parent.id)),
        name_key: Set(fold(&new.name)),
        name: Set(new.name),
        path: Set(new.path),
        full_path_key: Set(fold(&full_path)),
        full_path: Set(full_path),
        description: Set(new.description.unwrap_or_default()),
        visibility: Set(visibility),
        auto_devops_enabled: Set(new.auto_devops_enabled),
        emails_disabled: Set(new.emails_disabled),
        mentions_disabled: Set(new.mentions_disabled),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    macro_rules! apply {
        ($($field:ident = $value:expr),* $(,)?) => {$(
            if let Some(value) = $value {
                row.$field = Set(value);
            }
        )*};
    }
    apply!(
        share_with_group_lock = new.share_with_group_lock,
        require_two_factor_authentication = new.require_two_factor_authentication,
        two_factor_grace_period = grace,
        project_creation_level = new.project_creation_level,
        subgroup_creation_level = new.subgroup_creation_level,
        lfs_enabled = new.lfs_enabled,
        default_branch_protection = new
            .default_branch_protection
            .and_then(|protection| i32::try_from(protection).ok()),
        request_access_enabled = new.request_access_enabled,
    );
    Ok(row)
}

async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    parent: Option<&namespaces::Model>,
    row: namespaces::ActiveModel,
) -> Result<namespaces::Model> {
    if namespaces::path_taken(transaction, row.full_path.as_ref()).await? {
        return Err(refused("path", TAKEN));
    }
    refuse_name_beside(transaction, parent, row.name_key.as_ref()).await?;
    let group = row.insert(transaction).await.map_err(taken)?;
    namespace_ancestors::insert(transaction, group.id, group.parent_id).await?;
    let token = Token::generate("");
    let encrypted = backend
        .keyring
        .encrypt(token.expose(), &runners_token_place(group.id))?;
    let mut row = group.into_active_model();
    row.runners_token_encrypted = Set(Some(encrypted));
    Ok(row.update(transaction).await?)
}

/// Refuses the name of a group beside it, so that the fault is told before the database finds it.
async fn refuse_name_beside(
    db: &impl ConnectionTrait,
    parent: Option<&namespaces::Model>,
    name_key: &str,
) -> Result<()> {
    let beside = match parent {
        Some(parent) => namespaces::Column::ParentId.eq(parent.id),
        None => namespaces::Column::ParentId.is_null(),
    };
    let taken = namespaces::Entity::find()
        .filter(namespaces::Column::Kind.eq(Kind::Group))
        .filter(namespaces::Column::NameKey.eq(name_key))
        .filter(beside)
        .count(db)
        .await?;
    if taken > 0 {
        Err(refused("name", TAKEN))
    } else {
        Ok(())
    }
}

/// Says which of the unique attributes is taken.
fn taken(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(name)) if name.ends_with("path_key") => refused("path", TAKEN),
        Some(Violation::Unique(_)) => refused("name", TAKEN),
        _ => error.into(),
    }
}
