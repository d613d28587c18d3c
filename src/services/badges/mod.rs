//! Badges of projects and groups, with the addresses as they are written and as they are [`rendering`] for a project.

mod rendering;

pub use rendering::Rendering;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use storage::database::Violation;
use storage::entities::badges::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{Scope, namespaces, now, projects};

use crate::error::{Error, Result};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::kernel::patch::Patch;
use crate::services::listing::page_of;
use crate::services::places::Place;
use crate::services::{Backend, links, preconditions};

/// How many badges a project or group may have.
pub(in crate::services) const MOST: u64 = 100;

/// A badge and what its addresses are where it is shown.
#[derive(Debug, Clone)]
pub struct Row {
    /// The badge.
    pub badge: Model,
    /// Where it leads to.
    pub link_url: String,
    /// Where the picture is.
    pub image_url: String,
}

/// What a caller says of a badge; what is absent stays.
#[derive(Debug, Clone)]
pub struct Change {
    /// What it is called.
    pub name: Patch<String>,
    /// Where it leads to.
    pub link_url: Option<String>,
    /// Where the picture is.
    pub image_url: Option<String>,
}

/// A page of the badges that a place shows, in the order they were made; only those of a name where one is given.
///
/// # Errors
/// Whatever the database or the repository reports.
pub async fn list(
    backend: &Backend,
    place: &Place,
    name: Option<&str>,
    page: &PageRequest,
) -> Result<Page<Row>> {
    let mut wanted = badges::shown(place.scope(), place.namespace.id);
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        wanted = wanted.filter(Column::Name.eq(name));
    }
    let page = page_of(backend.database.read(), wanted.order_by_asc(Column::Id), page).await?;
    let texts = page
        .items
        .iter()
        .flat_map(|badge| [badge.link_url.as_str(), badge.image_url.as_str()]);
    let rendering = Rendering::new(backend, place, texts).await?;
    Ok(page.map(|badge| render(&rendering, badge)))
}

/// One badge that a place shows.
///
/// # Errors
/// 404.
pub async fn read(backend: &Backend, place: &Place, id: i64) -> Result<Row> {
    let badge = find(backend.database.read(), place, id).await?;
    rendered(backend, place, badge).await
}

/// What the addresses of a badge would be where it is shown.
///
/// # Errors
/// 400 for what is no address.
pub async fn preview(
    backend: &Backend,
    place: &Place,
    link_url: &str,
    image_url: &str,
) -> Result<[String; 2]> {
    links::check_web("link_url", link_url)?;
    links::check_web("image_url", image_url)?;
    let rendering = Rendering::new(backend, place, [link_url, image_url]).await?;
    Ok([link_url, image_url].map(|url| rendering.render(url)))
}

/// Adds a badge.
///
/// # Errors
/// 400 for what is no address, and for more badges than there may be.
pub async fn create(
    backend: &Backend,
    place: &Place,
    name: Option<String>,
    link_url: String,
    image_url: String,
) -> Result<Row> {
    let row = checked(place.scope(), name, link_url, image_url)?;
    let transaction = backend.database.transaction(async |transaction| {
        make_room(transaction, place).await?;
        row.insert(transaction).await.map_err(refused)
    });
    let made = transaction.await?;
    rendered(backend, place, made).await
}

/// The row of a badge that does.
///
/// # Errors
/// 400 for what is no address.
pub(in crate::services) fn checked(
    scope: Scope,
    name: Option<String>,
    link_url: String,
    image_url: String,
) -> Result<ActiveModel> {
    links::check_web("link_url", &link_url)?;
    links::check_web("image_url", &image_url)?;
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

/// Makes sure that there is room for one more; others who add one wait.
async fn make_room(transaction: &DatabaseTransaction, place: &Place) -> Result<()> {
    let there = match &place.project {
        Some(project) => projects::lock(transaction, project.id).await?.is_some(),
        None => namespaces::lock(transaction, place.namespace.id).await?.is_some(),
    };
    if !there {
        return Err(Error::not_found(""));
    }
    let own = Entity::find().filter(match &place.project {
        Some(project) => Column::ProjectId.eq(project.id),
        None => Column::NamespaceId.eq(place.namespace.id),
    });
    if own.count(transaction).await? >= MOST {
        return Err(Error::Refused(
            format!("The maximum number of badges ({MOST}) is reached").into(),
        ));
    }
    Ok(())
}

/// Changes a badge of the place itself.
///
/// # Errors
/// 404, 403 for a badge of a group above, and 400 for what is no address and when nothing is to change.
pub async fn update(backend: &Backend, place: &Place, id: i64, change: Change) -> Result<Row> {
    if change.name.is_keep() && change.link_url.is_none() && change.image_url.is_none() {
        return Err(Error::nothing_sent(&["link_url", "image_url", "name"]));
    }
    for (attribute, url) in [("link_url", &change.link_url), ("image_url", &change.image_url)] {
        url.as_deref()
            .map_or(Ok(()), |url| links::check_web(attribute, url))?;
    }
    let transaction = backend.database.transaction(async |transaction| {
        let mut row = lock_own(transaction, place, id).await?.into_active_model();
        if !change.name.is_keep() {
            row.name = Set(change.name.into_value().filter(|name| !name.is_empty()));
        }
        if let Some(url) = change.link_url {
            row.link_url = Set(url);
        }
        if let Some(url) = change.image_url {
            row.image_url = Set(url);
        }
        row.updated_at = Set(now());
        Ok::<_, Error>(row.update(transaction).await?)
    });
    let changed = transaction.await?;
    rendered(backend, place, changed).await
}

/// Removes a badge of the place itself.
///
/// # Errors
/// 404, 403 for a badge of a group above, and 412 when it changed after the caller's date.
pub async fn delete(backend: &Backend, place: &Place, id: i64, unmodified_since: Option<&str>) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let badge = lock_own(transaction, place, id).await?;
            preconditions::unmodified_since(unmodified_since, badge.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

async fn find(db: &impl ConnectionTrait, place: &Place, id: i64) -> Result<Model> {
    let shown = badges::shown(place.scope(), place.namespace.id).filter(Column::Id.eq(id));
    shown.one(db).await?.ok_or_else(missing)
}

/// A badge that the place shows and that is its own, locked until the transaction ends.
async fn lock_own(db: &impl ConnectionTrait, place: &Place, id: i64) -> Result<Model> {
    let shown = badges::shown(place.scope(), place.namespace.id).filter(Column::Id.eq(id));
    let badge = shown.lock_exclusive().one(db).await?.ok_or_else(missing)?;
    if badge.project_id == place.scope().project_id() {
        Ok(badge)
    } else {
        Err(Error::forbidden_because(
            "Group badges can be changed only through the group",
        ))
    }
}

fn missing() -> Error {
    Error::not_found("Badge")
}

/// Why a row was not written.
fn refused(error: DbErr) -> Error {
    match Violation::of(&error) {
        // The place went away in the meantime.
        Some(Violation::ForeignKey(_)) => Error::not_found(""),
        _ => error.into(),
    }
}

async fn rendered(backend: &Backend, place: &Place, badge: Model) -> Result<Row> {
    let texts = [badge.link_url.as_str(), badge.image_url.as_str()];
    let rendering = Rendering::new(backend, place, texts).await?;
    Ok(render(&rendering, badge))
}

fn render(rendering: &Rendering, badge: Model) -> Row {
    Row {
        link_url: rendering.render(&badge.link_url),
        image_url: rendering.render(&badge.image_url),
        badge,
    }
}
