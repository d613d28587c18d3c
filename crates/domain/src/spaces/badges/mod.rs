//! Badges of projects and groups. [`rendering`] fills in the placeholders of their URLs.

mod rendering;

pub use rendering::PlaceholderValues;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use storage::database::Violation;
use storage::entities::badges::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{Scope, now, row_changes};

use crate::identity::space_access::{self, SpaceAccess};
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::patch::Patch;
use crate::kernel::query::page_of;
use crate::kernel::{Backend, preconditions, urls};

/// Maximum badges of a project or group.
pub(crate) const MAX_BADGES: u64 = 100;

/// A badge and its rendered URLs.
#[derive(Debug, Clone)]
pub struct RenderedBadge {
    /// The badge.
    pub badge: Model,
    /// Rendered URL of the link.
    pub link_url: String,
    /// Rendered URL of the image.
    pub image_url: String,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone)]
pub struct BadgeUpdate {
    /// Name of the badge.
    pub name: Patch<String>,
    /// URL of the link.
    pub link_url: Option<String>,
    /// URL of the image.
    pub image_url: Option<String>,
}

/// Returns a page of the badges of a project or group in order of creation, optionally filtered by name.
///
/// # Errors
/// Returns an error if the database or the repository fails.
pub async fn list(
    backend: &Backend,
    space: &SpaceAccess,
    name: Option<&str>,
    page: &PageRequest,
) -> Result<Page<RenderedBadge>> {
    let mut query = badges::inherited_by(space.scope(), space.namespace.id);
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        query = query.filter(Column::Name.eq(name));
    }
    let page = page_of(backend.database.read(), query.order_by_asc(Column::Id), page).await?;
    let texts = page
        .items
        .iter()
        .flat_map(|badge| [badge.link_url.as_str(), badge.image_url.as_str()]);
    let rendering = PlaceholderValues::new(backend, space, texts).await?;
    Ok(page.map(|badge| render(&rendering, badge)))
}

/// Returns one badge that is shown in a project or group.
///
/// # Errors
/// Returns `Error::NotFound` if no such badge is shown there.
pub async fn get(backend: &Backend, space: &SpaceAccess, id: i64) -> Result<RenderedBadge> {
    let badge = find(backend.database.read(), space, id).await?;
    render_one(backend, space, badge).await
}

/// Returns the URLs of a badge as they would be rendered.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if a URL is invalid.
pub async fn preview(
    backend: &Backend,
    space: &SpaceAccess,
    link_url: &str,
    image_url: &str,
) -> Result<[String; 2]> {
    urls::check_http_url("link_url", link_url)?;
    urls::check_http_url("image_url", image_url)?;
    let rendering = PlaceholderValues::new(backend, space, [link_url, image_url]).await?;
    Ok([link_url, image_url].map(|url| rendering.render(url)))
}

/// Creates a badge.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if a URL is invalid. Returns `Error::Rejected` if there are `MAX_BADGES`
/// badges already.
pub async fn create(
    backend: &Backend,
    space: &SpaceAccess,
    name: Option<String>,
    link_url: String,
    image_url: String,
) -> Result<RenderedBadge> {
    let row = valid_row(space.scope(), name, link_url, image_url)?;
    let transaction = backend.database.transaction(async |transaction| {
        check_limit(transaction, space).await?;
        row.insert(transaction).await.map_err(map_insert_error)
    });
    let badge = transaction.await?;
    render_one(backend, space, badge).await
}

/// Returns the row of a valid badge.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if a URL is invalid.
pub(crate) fn valid_row(
    scope: Scope,
    name: Option<String>,
    link_url: String,
    image_url: String,
) -> Result<ActiveModel> {
    urls::check_http_url("link_url", &link_url)?;
    urls::check_http_url("image_url", &image_url)?;
    let at = now();
    Ok(ActiveModel {
        project_id: Set(scope.project_id()),
        namespace_id: Set(scope.namespace_id()),
        name: Set(name.filter(|name| !name.is_empty())),
        link_url: Set(link_url),
        image_url: Set(image_url),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    })
}

/// Checks that one more badge is allowed. The lock serializes concurrent inserts.
async fn check_limit(transaction: &DatabaseTransaction, space: &SpaceAccess) -> Result<()> {
    space_access::lock(transaction, space.scope()).await?;
    let existing = Entity::find().filter(match &space.project {
        Some(project) => Column::ProjectId.eq(project.id),
        None => Column::NamespaceId.eq(space.namespace.id),
    });
    if existing.count(transaction).await? >= MAX_BADGES {
        return Err(Error::Rejected(
            format!("The maximum number of badges ({MAX_BADGES}) is reached").into(),
        ));
    }
    Ok(())
}

/// Updates a badge of the project or group itself.
///
/// # Errors
/// Returns `Error::NotFound` if the badge does not exist. Returns `Error::Forbidden` if it belongs to an
/// ancestor group. Returns `Error::InvalidAttributes` if a URL is invalid. Returns `Error::InvalidParameters`
/// if no attribute is given.
pub async fn update(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    change: BadgeUpdate,
) -> Result<RenderedBadge> {
    if change.name.is_keep() && change.link_url.is_none() && change.image_url.is_none() {
        return Err(Error::no_parameters(&["link_url", "image_url", "name"]));
    }
    for (attribute, url) in [("link_url", &change.link_url), ("image_url", &change.image_url)] {
        url.as_deref()
            .map_or(Ok(()), |url| urls::check_http_url(attribute, url))?;
    }
    let transaction = backend.database.transaction(async |transaction| {
        let former = lock_own(transaction, space, id).await?;
        let mut row = former.clone().into_active_model();
        if !change.name.is_keep() {
            row.name = Set(change.name.into_value().filter(|name| !name.is_empty()));
        }
        if let Some(url) = change.link_url {
            row.link_url = Set(url);
        }
        if let Some(url) = change.image_url {
            row.image_url = Set(url);
        }
        Ok::<_, Error>(row_changes::update_if_changed(transaction, &former, row).await?)
    });
    let changed = transaction.await?;
    render_one(backend, space, changed).await
}

/// Deletes a badge of the project or group itself.
///
/// # Errors
/// Returns `Error::NotFound` if the badge does not exist. Returns `Error::Forbidden` if it belongs to an
/// ancestor group. Returns `Error::PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    space: &SpaceAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let badge = lock_own(transaction, space, id).await?;
            preconditions::check_unmodified_since(unmodified_since, badge.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

async fn find(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    let visible = badges::inherited_by(space.scope(), space.namespace.id).filter(Column::Id.eq(id));
    visible.one(db).await?.ok_or_else(not_found)
}

/// Locks a badge of the project or group itself until the transaction ends.
async fn lock_own(db: &impl ConnectionTrait, space: &SpaceAccess, id: i64) -> Result<Model> {
    let visible = badges::inherited_by(space.scope(), space.namespace.id).filter(Column::Id.eq(id));
    let badge = visible.lock_exclusive().one(db).await?.ok_or_else(not_found)?;
    if badge.project_id == space.scope().project_id() {
        Ok(badge)
    } else {
        Err(Error::forbidden_because(
            "Group badges can be changed only through the group",
        ))
    }
}

fn not_found() -> Error {
    Error::not_found("Badge")
}

/// Maps a database error of an insert.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        // The project or group was deleted meanwhile.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}

async fn render_one(backend: &Backend, space: &SpaceAccess, badge: Model) -> Result<RenderedBadge> {
    let texts = [badge.link_url.as_str(), badge.image_url.as_str()];
    let rendering = PlaceholderValues::new(backend, space, texts).await?;
    Ok(render(&rendering, badge))
}

fn render(rendering: &PlaceholderValues, badge: Model) -> RenderedBadge {
    RenderedBadge {
        link_url: rendering.render(&badge.link_url),
        image_url: rendering.render(&badge.image_url),
        badge,
    }
}
