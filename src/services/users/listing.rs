//! Finding users, and how much of them a caller gets to see (facts on users, section 5).

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, FromQueryResult, JoinType, Order, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, RelationTrait, Select,
};
use storage::entities::users::{self, Column, State};
use storage::entities::{fold, members, namespaces, projects, user_identities};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::authentication::Caller;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::{contains, page_of};

/// A user and as much about them as the caller may see.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The user.
    pub user: users::Model,
    /// How much of it.
    pub detail: Detail,
}

/// How much of a user a caller may see.
#[derive(Debug, Clone)]
pub enum Detail {
    /// Who it is.
    Reference,
    /// What the user tells the public.
    Public,
    /// Everything.
    Full(Circumstances),
}

/// What there is to tell of a user beside the row.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// Accounts at identity providers.
    pub identities: Vec<user_identities::Model>,
    /// How many projects the personal namespace holds.
    pub personal_projects: u64,
}

/// Which users to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only the user of this name.
    pub username: Option<String>,
    /// Only users whose names hold this text, or whose address it is.
    pub search: Option<String>,
    /// Only active ones.
    pub active: bool,
    /// Only blocked ones.
    pub blocked: bool,
    /// Only external ones; administrators only.
    pub external: bool,
    /// Only the holder of this id at a provider; administrators only.
    pub extern_uid: Option<String>,
    /// The provider of `extern_uid`.
    pub provider: Option<String>,
    /// Only administrators; counts for administrators only.
    pub admins: bool,
    /// Only those with or without a second factor; counts for administrators only.
    pub two_factor: Option<bool>,
    /// Only those without projects of their own and memberships in projects; counts for administrators only.
    pub without_projects: bool,
    /// Only those made after this; counts for administrators only.
    pub created_after: Option<DateTime<Utc>>,
    /// Only those made before this; counts for administrators only.
    pub created_before: Option<DateTime<Utc>>,
    /// In which order, and whether ascending; counts for administrators only.
    pub order: Option<(Sorting, bool)>,
}

/// What users are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sorting {
    /// The id.
    Id,
    /// The shown name.
    Name,
    /// The name in paths.
    Username,
    /// The time of making.
    CreatedAt,
    /// The time of the last change.
    UpdatedAt,
}

/// A page of users.
///
/// # Errors
/// 403 for strangers who name no user, and for filters that are the administrators'; 400 for half an identity.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Profile>> {
    if filter.extern_uid.is_some() != filter.provider.is_some() {
        return Err(Error::parameter(
            "extern_uid, provider provide all or none of parameters",
        ));
    }
    if !caller.is_signed_in() && filter.username.as_deref().is_none_or(str::is_empty) {
        return Err(Error::Unauthorized);
    }
    let admin = caller.is_admin();
    if !admin && (filter.external || filter.provider.is_some()) {
        return Err(Error::forbidden());
    }
    let db = backend.database.read();
    let (sorting, ascending) = filter.order.filter(|_| admin).unwrap_or((Sorting::Id, false));
    let order = if ascending { Order::Asc } else { Order::Desc };
    let by = match sorting {
        Sorting::Id => Column::Id,
        Sorting::Name => Column::NameKey,
        Sorting::Username => Column::UsernameKey,
        Sorting::CreatedAt => Column::CreatedAt,
        Sorting::UpdatedAt => Column::UpdatedAt,
    };
    let wanted = filtered(filter, admin)
        .order_by(by, order.clone())
        .order_by(Column::Id, order);
    let found = page_of(db, wanted, page).await?;
    let ids: Vec<i64> = found.items.iter().map(|user| user.id).collect();
    let mut known = if admin {
        circumstances_of(db, &ids).await?
    } else {
        HashMap::new()
    };
    Ok(found.map(|user| {
        let detail = match admin {
            true => Detail::Full(known.remove(&user.id).unwrap_or_default()),
            false => Detail::Reference,
        };
        Profile { user, detail }
    }))
}

/// One user as the caller may see them.
///
/// # Errors
/// Whatever the database reports.
pub async fn read(backend: &Backend, caller: &Caller, user: users::Model) -> Result<Profile> {
    if caller.is_admin() {
        return whole(backend, user).await;
    }
    Ok(Profile {
        user,
        detail: Detail::Public,
    })
}

/// One user with everything there is to tell.
///
/// # Errors
/// Whatever the database reports.
pub async fn whole(backend: &Backend, user: users::Model) -> Result<Profile> {
    let known = circumstances(backend, user.id).await?;
    Ok(Profile {
        user,
        detail: Detail::Full(known),
    })
}

/// What there is to tell of one user beside the row.
///
/// # Errors
/// Whatever the database reports.
pub async fn circumstances(backend: &Backend, user_id: i64) -> Result<Circumstances> {
    let mut known = circumstances_of(backend.database.read(), &[user_id]).await?;
    Ok(known.remove(&user_id).unwrap_or_default())
}

fn filtered(filter: Filter, admin: bool) -> Select<users::Entity> {
    let mut wanted = users::live();
    if let Some(username) = filter.username.filter(|name| !name.is_empty()) {
        wanted = wanted.filter(Column::UsernameKey.eq(fold(&username)));
    }
    if let Some(text) = filter.search.filter(|text| !text.is_empty()) {
        wanted = wanted.filter(matching(&text));
    }
    if filter.active {
        wanted = wanted.filter(Column::State.eq(State::Active));
    }
    if filter.blocked {
        wanted = wanted.filter(Column::State.is_in([State::Blocked, State::LdapBlocked]));
    }
    if filter.external {
        wanted = wanted.filter(Column::External.eq(true));
    }
    if let (Some(uid), Some(provider)) = (filter.extern_uid, filter.provider) {
        let holder = user_identities::Entity::find()
            .select_only()
            .column(user_identities::Column::UserId)
            .filter(user_identities::Column::Provider.eq(provider))
            .filter(user_identities::Column::ExternUid.eq(uid));
        wanted = wanted.filter(Column::Id.in_subquery(holder.into_query()));
    }
    if admin {
        if filter.admins {
            wanted = wanted.filter(Column::Admin.eq(true));
        }
        if filter.two_factor == Some(true) {
            // The server knows no second factor, so nobody has one.
            wanted = wanted.filter(Column::Id.is_in(Vec::<i64>::new()));
        }
        if filter.without_projects {
            wanted = wanted.filter(without_projects());
        }
        if let Some(instant) = filter.created_after {
            wanted = wanted.filter(Column::CreatedAt.gt(instant));
        }
        if let Some(instant) = filter.created_before {
            wanted = wanted.filter(Column::CreatedAt.lt(instant));
        }
    }
    wanted
}

/// Users without projects of their own and without memberships in projects.
fn without_projects() -> Condition {
    let members = members::Entity::find()
        .select_only()
        .column(members::Column::UserId)
        .filter(members::Column::ProjectId.is_not_null());
    let owners = projects::live()
        .select_only()
        .column(namespaces::Column::OwnerId)
        .join(JoinType::InnerJoin, projects::Relation::Namespace.def())
        .filter(namespaces::Column::OwnerId.is_not_null());
    Condition::all()
        .add(Column::Id.not_in_subquery(members.into_query()))
        .add(Column::Id.not_in_subquery(owners.into_query()))
}

/// Names that hold the text, or the address it is. What the caller typed has no wildcards.
fn matching(text: &str) -> Condition {
    let key = fold(text);
    Condition::any()
        .add(contains(Column::NameKey, &key))
        .add(contains(Column::UsernameKey, &key))
        .add(Column::EmailKey.eq(key))
}

#[derive(Debug, FromQueryResult)]
struct Owned {
    owner_id: Option<i64>,
    projects: i64,
}

/// What there is to tell of these users beside their rows, in one statement a kind.
async fn circumstances_of(db: &impl ConnectionTrait, ids: &[i64]) -> Result<HashMap<i64, Circumstances>> {
    let mut known: HashMap<i64, Circumstances> = HashMap::new();
    if ids.is_empty() {
        return Ok(known);
    }
    let identities = user_identities::Entity::find()
        .filter(user_identities::Column::UserId.is_in(ids.iter().copied()))
        .order_by_asc(user_identities::Column::Id)
        .all(db)
        .await?;
    for identity in identities {
        known
            .entry(identity.user_id)
            .or_default()
            .identities
            .push(identity);
    }
    let owned = projects::live()
        .select_only()
        .column(namespaces::Column::OwnerId)
        .column_as(projects::Column::Id.count(), "projects")
        .join(JoinType::InnerJoin, projects::Relation::Namespace.def())
        .filter(namespaces::Column::OwnerId.is_in(ids.iter().copied()))
        .group_by(namespaces::Column::OwnerId)
        .into_model::<Owned>()
        .all(db)
        .await?;
    for row in owned {
        if let Some(owner) = row.owner_id {
            known.entry(owner).or_default().personal_projects = u64::try_from(row.projects).unwrap_or(0);
        }
    }
    Ok(known)
}
