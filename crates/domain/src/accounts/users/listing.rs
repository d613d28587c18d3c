//! Lists of users, and the level of detail that a caller can see.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, JoinType, Order, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    RelationTrait, Select,
};
use storage::entities::custom_attributes::Column as Attribute;
use storage::entities::related_rows::{PartKey, RelatedRowSets, RelatedRows};
use storage::entities::users::{self, Column, UserState};
use storage::entities::{fold, members, namespaces, projects, user_identities};

use crate::accounts::custom_attributes;
use crate::identity::password_attempts::LockableAccounts;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{batch_after, contains, uncounted_page_of};

/// A user with the level of detail that the caller can see.
#[derive(Debug, Clone)]
pub struct UserProfile {
    /// The user.
    pub user: users::Model,
    /// The level of detail.
    pub detail: ProfileDetail,
}

/// Level of detail of a user.
#[derive(Debug, Clone)]
pub enum ProfileDetail {
    /// Only the identity.
    Reference,
    /// The public profile.
    Public,
    /// The full profile.
    Full(UserExtras),
}

/// Data of a user outside the row.
#[derive(Debug, Clone, Default)]
pub struct UserExtras {
    /// Identities at providers.
    pub identities: Vec<user_identities::Model>,
    /// The personal namespace; bots have none.
    pub namespace_id: Option<i64>,
    /// Number of projects in the personal namespace.
    pub personal_projects: u64,
    /// Whether the limit of failed attempts for all addresses together is reached.
    pub locked: bool,
}

/// Filter of a list of users.
#[derive(Debug, Clone, Default)]
pub struct UserFilter {
    /// Only the user with this user name.
    pub username: Option<String>,
    /// Only users whose names contain this text or whose address equals it; an unconfirmed address matches only
    /// for administrators.
    pub search: Option<String>,
    /// Only active users.
    pub active: bool,
    /// Only blocked users.
    pub blocked: bool,
    /// Only deactivated users.
    pub deactivated: bool,
    /// Only external users; requires an administrator.
    pub external: bool,
    /// Only the user with this ID at a provider; requires an administrator.
    pub extern_uid: Option<String>,
    /// The provider of `extern_uid`.
    pub provider: Option<String>,
    /// Only administrators; ignored unless the caller is an administrator.
    pub admins: bool,
    /// Only users with or without two-factor authentication; ignored unless the caller is an administrator.
    pub two_factor: Option<bool>,
    /// Only users without personal projects and project memberships; ignored unless the caller is an
    /// administrator.
    pub without_projects: bool,
    /// Only users created after this time; ignored unless the caller is an administrator.
    pub created_after: Option<DateTime<Utc>>,
    /// Only users created before this time; ignored unless the caller is an administrator.
    pub created_before: Option<DateTime<Utc>>,
    /// Only users with all of these attributes; ignored unless the caller is an administrator.
    pub custom_attributes: BTreeMap<String, String>,
    /// The sort order, and whether it is ascending; ignored unless the caller is an administrator.
    pub order: Option<(UserOrder, bool)>,
}

/// Sort orders of users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserOrder {
    /// ID.
    Id,
    /// Display name.
    Name,
    /// User name.
    Username,
    /// Creation time.
    CreatedAt,
    /// Time of the last update.
    UpdatedAt,
}

/// Lists users.
///
/// # Errors
/// Returns `Forbidden` for anonymous callers without a user name filter, and for filters that require an
/// administrator. Returns a validation error if only one part of an identity is given, and for too many custom
/// attributes.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    filter: UserFilter,
    page: &PageRequest,
) -> Result<Page<UserProfile>> {
    if filter.extern_uid.is_some() != filter.provider.is_some() {
        return Err(Error::parameter(
            "extern_uid, provider provide all or none of parameters",
        ));
    }
    custom_attributes::check_filter(&filter.custom_attributes)?;
    if !caller.is_signed_in() && filter.username.as_deref().is_none_or(str::is_empty) {
        return Err(Error::Unauthorized);
    }
    let admin = caller.is_admin();
    if !admin && (filter.external || filter.provider.is_some()) {
        return Err(Error::forbidden());
    }
    let db = backend.database.read();
    let (sorting, ascending) = filter.order.filter(|_| admin).unwrap_or((UserOrder::Id, false));
    let order = if ascending { Order::Asc } else { Order::Desc };
    let by = match sorting {
        UserOrder::Id => Column::Id,
        UserOrder::Name => Column::NameKey,
        UserOrder::Username => Column::UsernameKey,
        UserOrder::CreatedAt => Column::CreatedAt,
        UserOrder::UpdatedAt => Column::UpdatedAt,
    };
    let query = select(filter, admin, SearchableAddresses::of(caller))
        .order_by(by, order.clone())
        .order_by(Column::Id, order);
    let (found, total) = uncounted_page_of(db, query, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let parts = admin.then(|| ExtraParts::add(&mut related, backend, &found));
    let mut rows = related.load(db).await?;
    let mut known = parts.map(|parts| parts.take(&mut rows)).unwrap_or_default();
    let items = found.into_iter().map(|user| {
        let detail = match admin {
            true => ProfileDetail::Full(known.remove(&user.id).unwrap_or_default()),
            false => ProfileDetail::Reference,
        };
        UserProfile { user, detail }
    });
    Ok(Page {
        items: items.collect(),
        rest: total.position(&rows.take(counted)),
    })
}

/// Returns up to `limit` users with IDs above `after`, in the order of their IDs, with all filters of administrators.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn list_after(
    backend: &Backend,
    filter: UserFilter,
    after: i64,
    limit: u64,
) -> Result<Vec<users::Model>> {
    batch_after(
        backend.database.read(),
        select(filter, true, SearchableAddresses::All),
        Column::Id,
        after,
        limit,
    )
    .await
}

/// Returns a user with the level of detail that the caller can see.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn get(backend: &Backend, caller: &Caller, user: users::Model) -> Result<UserProfile> {
    if caller.is_admin() {
        return full_profile(backend, user).await;
    }
    Ok(UserProfile {
        user,
        detail: ProfileDetail::Public,
    })
}

/// Returns the full profile of a user.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn full_profile(backend: &Backend, user: users::Model) -> Result<UserProfile> {
    let known = extras(backend, &user).await?;
    Ok(UserProfile {
        user,
        detail: ProfileDetail::Full(known),
    })
}

/// Loads the data of a user outside the row.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn extras(backend: &Backend, user: &users::Model) -> Result<UserExtras> {
    let db = backend.database.read();
    let mut related = RelatedRows::default();
    let parts = ExtraParts::add(&mut related, backend, std::slice::from_ref(user));
    let mut known = parts.take(&mut related.load(db).await?);
    Ok(known.remove(&user.id).unwrap_or_default())
}

fn select(filter: UserFilter, admin: bool, addresses: SearchableAddresses) -> Select<users::Entity> {
    let mut query = users::not_deleted();
    if let Some(username) = filter.username.filter(|name| !name.is_empty()) {
        query = query.filter(Column::UsernameKey.eq(fold(&username)));
    }
    if let Some(text) = filter.search.filter(|text| !text.is_empty()) {
        query = query.filter(matching(&text, addresses));
    }
    if filter.active {
        query = query.filter(Column::State.eq(UserState::Active));
    }
    if filter.blocked {
        query = query.filter(Column::State.is_in([UserState::Blocked, UserState::LdapBlocked]));
    }
    if filter.deactivated {
        query = query.filter(Column::State.eq(UserState::Deactivated));
    }
    if filter.external {
        query = query.filter(Column::External.eq(true));
    }
    if let (Some(uid), Some(provider)) = (filter.extern_uid, filter.provider) {
        let holder = user_identities::Entity::find()
            .select_only()
            .column(user_identities::Column::UserId)
            .filter(user_identities::Column::Provider.eq(provider))
            .filter(user_identities::Column::ExternUid.eq(uid));
        query = query.filter(Column::Id.in_subquery(holder.into_query()));
    }
    if admin {
        let attributes = &filter.custom_attributes;
        if let Some(condition) = custom_attributes::has_all(attributes, Column::Id, Attribute::UserId) {
            query = query.filter(condition);
        }
        if filter.admins {
            query = query.filter(Column::Admin.eq(true));
        }
        if let Some(enabled) = filter.two_factor {
            query = query.filter(Column::TwoFactorEnabled.eq(enabled));
        }
        if filter.without_projects {
            query = query.filter(without_projects());
        }
        if let Some(instant) = filter.created_after {
            query = query.filter(Column::CreatedAt.gt(instant));
        }
        if let Some(instant) = filter.created_before {
            query = query.filter(Column::CreatedAt.lt(instant));
        }
    }
    query
}

/// Matches users without personal projects and without project memberships.
fn without_projects() -> Condition {
    let members = members::Entity::find()
        .select_only()
        .column(members::Column::UserId)
        .filter(members::Column::ProjectId.is_not_null());
    let owners = projects::not_deleted()
        .select_only()
        .column(namespaces::Column::OwnerId)
        .join(JoinType::InnerJoin, projects::Relation::Namespace.def())
        .filter(namespaces::Column::OwnerId.is_not_null());
    Condition::all()
        .add(Column::Id.not_in_subquery(members.into_query()))
        .add(Column::Id.not_in_subquery(owners.into_query()))
}

/// Primary addresses by which a caller finds users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchableAddresses {
    /// No addresses: an anonymous caller must not learn which address belongs to a user.
    None,
    /// Confirmed addresses: the caller cannot see whether an address is confirmed, and would take the user for the
    /// owner of the address.
    Confirmed,
    /// All addresses, for administrators.
    All,
}

impl SearchableAddresses {
    /// Returns the addresses by which a caller finds users.
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller.is_signed_in() {
            false => Self::None,
            true if caller.is_admin() => Self::All,
            true => Self::Confirmed,
        }
    }
}

/// Matches names that contain the text, or an equal primary address. Wildcards in the text are escaped.
pub(crate) fn matching(text: &str, addresses: SearchableAddresses) -> Condition {
    let key = fold(text);
    let address = || Condition::all().add(Column::EmailKey.eq(key.as_str()));
    let address = match addresses {
        SearchableAddresses::None => None,
        SearchableAddresses::Confirmed => Some(address().add(Column::ConfirmedAt.is_not_null())),
        SearchableAddresses::All => Some(address()),
    };
    Condition::any()
        .add(contains(Column::NameKey, &key))
        .add(contains(Column::UsernameKey, &key))
        .add_option(address)
}

/// The parts of a statement with the data of users outside their rows.
struct ExtraParts {
    identities: PartKey,
    namespaces: PartKey,
    personal_projects: PartKey,
    accounts: LockableAccounts,
    failures: PartKey,
}

impl ExtraParts {
    fn add(related: &mut RelatedRows, backend: &Backend, users: &[users::Model]) -> Self {
        let database = backend.database.read().get_database_backend();
        let ids: Vec<i64> = users.iter().map(|user| user.id).collect();
        let accounts = LockableAccounts::of_users(backend, users);
        Self {
            identities: related.add(user_identities::part(database, &ids)),
            namespaces: related.add(namespaces::personal_part(database, &ids)),
            personal_projects: related.add(projects::personal_counts_part(database, &ids)),
            failures: related.add(accounts.part(database)),
            accounts,
        }
    }

    /// Returns the data by the ID of the user.
    fn take(self, rows: &mut RelatedRowSets) -> HashMap<i64, UserExtras> {
        let mut known: HashMap<i64, UserExtras> = HashMap::new();
        for row in rows.take(self.identities) {
            let extras = known.entry(row.owner_id).or_default();
            extras.identities.push(user_identities::read(row));
        }
        for row in rows.take(self.namespaces) {
            known.entry(row.owner_id).or_default().namespace_id = Some(row.id);
        }
        for row in rows.take(self.personal_projects) {
            let count = u64::try_from(row.number.unwrap_or_default());
            known.entry(row.owner_id).or_default().personal_projects = count.unwrap_or_default();
        }
        for user_id in self.accounts.locked(rows.take(self.failures)) {
            known.entry(user_id).or_default().locked = true;
        }
        known
    }
}
