//! The picture of a project: one object in the storage, and its name on the row.

use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::api::types::{Content, Download};
use crate::entities::{now, projects};
use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::uploads::{self, UploadedFile};

/// The largest picture, in bytes.
const LARGEST: u64 = 200 << 10;
/// How pictures begin, and the types they have then.
const BEGINNINGS: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// Gives a project a picture, or takes it away.
///
/// # Errors
/// 400 for what is too large or no picture that browsers show.
pub async fn set_avatar(
    backend: &Backend,
    access: ProjectAccess,
    picture: Option<UploadedFile>,
) -> Result<ProjectAccess> {
    let key = key(access.project.id);
    let name = match picture {
        None => {
            backend.objects.delete(&key).await?;
            None
        }
        Some(mut picture) => {
            check(&mut picture).await?;
            backend.objects.put(&key, picture.file).await?;
            Some(uploads::clean_name(&picture.file_name))
        }
    };
    let db = backend.database.write();
    projects::Entity::update_many()
        .col_expr(projects::Column::Avatar, Expr::value(name))
        .col_expr(projects::Column::UpdatedAt, Expr::value(now()))
        .filter(projects::Column::Id.eq(access.project.id))
        .exec(db)
        .await?;
    let project = projects::live()
        .filter(projects::Column::Id.eq(access.project.id))
        .one(db)
        .await?;
    let project = project.ok_or_else(|| Error::not_found("Project"))?;
    Ok(ProjectAccess { project, ..access })
}

async fn check(picture: &mut UploadedFile) -> Result<()> {
    if picture.size > LARGEST {
        return Err(Error::attribute(
            "avatar",
            "is too big (should be at most 200 KiB)",
        ));
    }
    let mut start = Vec::new();
    (&mut picture.file)
        .take(16)
        .read_to_end(&mut start)
        .await
        .map_err(Error::internal)?;
    picture.file.rewind().await.map_err(Error::internal)?;
    let kind = uploads::picture_type(&picture.file_name);
    let named = |(beginning, name): &(&[u8], &str)| Some(*name) == kind && start.starts_with(beginning);
    if BEGINNINGS.iter().any(named) {
        Ok(())
    } else {
        Err(Error::attribute(
            "avatar",
            "must be a PNG, JPEG, GIF or WebP picture",
        ))
    }
}

/// The picture of a project, to be shown.
///
/// # Errors
/// 404 when it has none of this name.
pub async fn avatar(backend: &Backend, access: &ProjectAccess, file_name: &str) -> Result<Download> {
    let missing = || Error::not_found("File");
    let name = access.project.avatar.as_deref().filter(|name| *name == file_name);
    let name = name.ok_or_else(missing)?;
    let (objects, key) = (backend.objects.clone(), key(access.project.id));
    let size = objects.size(&key).await?.ok_or_else(missing)?;
    let kind = uploads::picture_type(name).unwrap_or("application/octet-stream");
    Ok(Download {
        content_type: kind.to_owned(),
        file_name: name.to_owned(),
        attachment: false,
        etag: None,
        headers: uploads::safe_headers(),
        content: Content::Seekable {
            size,
            open: Box::new(move |start, end| objects.read(&key, start, end)),
        },
    })
}

fn key(project_id: i64) -> String {
    format!("{}/avatar", uploads::folder(project_id))
}
