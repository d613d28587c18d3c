//! Pictures of projects, groups and users: one object in the storage for each, and its name on the row (ADR 13).

use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::kernel::download::{Content, Download};
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

/// What has a picture, by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A project.
    Project(i64),
    /// A group, by the id of its namespace.
    Group(i64),
    /// A user.
    User(i64),
}

impl Owner {
    fn key(self) -> String {
        let folder = match self {
            Self::Project(id) => uploads::folder(id),
            Self::Group(id) => format!("groups/{id}"),
            Self::User(id) => format!("users/{id}"),
        };
        format!("{folder}/avatar")
    }
}

/// A picture that was looked at.
#[derive(Debug)]
pub struct Picture(UploadedFile);

/// Looks at what is to be a picture, if anything is.
///
/// # Errors
/// 400 for what is too large or no picture that browsers show.
pub async fn checked(picture: Option<UploadedFile>) -> Result<Option<Picture>> {
    let Some(mut picture) = picture else {
        return Ok(None);
    };
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
        Ok(Some(Picture(picture)))
    } else {
        Err(Error::attribute(
            "avatar",
            "must be a PNG, JPEG, GIF or WebP image",
        ))
    }
}

/// Keeps a picture in the place of the one before, or takes that away; the name to enter into the owner's row.
///
/// # Errors
/// Whatever the storage reports.
pub(super) async fn keep(
    backend: &Backend,
    owner: Owner,
    picture: Option<Picture>,
) -> Result<Option<String>> {
    let key = owner.key();
    match picture {
        None => {
            backend.objects.delete(&key).await?;
            Ok(None)
        }
        Some(Picture(picture)) => {
            backend.objects.put(&key, picture.file).await?;
            Ok(Some(uploads::clean_name(&picture.file_name)))
        }
    }
}

/// The picture of an owner, to be shown; `name` is the one in its row.
///
/// # Errors
/// 404 when it has none of this name.
pub(super) async fn open(
    backend: &Backend,
    owner: Owner,
    name: Option<&str>,
    file_name: &str,
) -> Result<Download> {
    let missing = || Error::not_found("File");
    let name = name.filter(|name| *name == file_name).ok_or_else(missing)?;
    let (objects, key) = (backend.objects.clone(), owner.key());
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

/// Removes the picture of an owner that goes away.
///
/// # Errors
/// Whatever the storage reports.
pub async fn remove(backend: &Backend, owner: Owner) -> Result<()> {
    Ok(backend.objects.delete(&owner.key()).await?)
}
