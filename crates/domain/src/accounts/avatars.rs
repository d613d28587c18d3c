//! Avatars of projects, groups and users. Each is one object in the storage, with its file name in the
//! owner's row (ADR 13).

use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::accounts::uploads::{self, UploadedFile};
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};

/// Maximum size of an avatar, in bytes.
const MAX_BYTES: u64 = 200 << 10;
/// Maximum number of attempts to store or delete an avatar that concurrent requests change.
const MAX_ATTEMPTS: usize = 5;
/// Leading bytes of supported image formats, and their media types.
const IMAGE_SIGNATURES: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// Owner of an avatar, by ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AvatarOwner {
    /// A project.
    Project(i64),
    /// A group, by the ID of its namespace.
    Group(i64),
    /// A user.
    User(i64),
}

impl AvatarOwner {
    /// Returns the key of the avatar in the object storage.
    pub(crate) fn object_key(self) -> String {
        let folder = match self {
            Self::Project(id) => uploads::folder(id),
            Self::Group(id) => format!("groups/{id}"),
            Self::User(id) => format!("users/{id}"),
        };
        format!("{folder}/avatar")
    }
}

/// An image that was validated.
#[derive(Debug)]
pub struct AvatarImage(UploadedFile);

/// Validates an uploaded avatar, if there is one.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the file is too large or not an image that browsers display.
pub async fn validate(picture: Option<UploadedFile>) -> Result<Option<AvatarImage>> {
    let Some(mut picture) = picture else {
        return Ok(None);
    };
    if picture.size > MAX_BYTES {
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
    let kind = uploads::image_type(&picture.file_name);
    let named = |(beginning, name): &(&[u8], &str)| Some(*name) == kind && start.starts_with(beginning);
    if IMAGE_SIGNATURES.iter().any(named) {
        Ok(Some(AvatarImage(picture)))
    } else {
        Err(Error::attribute(
            "avatar",
            "must be a PNG, JPEG, GIF or WebP image",
        ))
    }
}

/// A project, group or user with an avatar.
pub trait HasAvatar: Sized + Send {
    /// Returns the owner of the avatar.
    fn owner(&self) -> AvatarOwner;
    /// Returns the file name of the avatar, if there is one.
    fn file_name(&self) -> Option<&str>;
    /// Stores the file name in the owner's row.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if the owner is being deleted.
    fn save(self, backend: &Backend, file_name: Option<String>) -> impl Future<Output = Result<Self>> + Send;
    /// Reads the owner's row again.
    ///
    /// # Errors
    /// Returns `Error::NotFound` if the owner is being deleted.
    fn reload(self, backend: &Backend) -> impl Future<Output = Result<Self>> + Send;
}

/// Stores an avatar in place of the previous one, or deletes it. Does nothing if there is none to delete. After
/// concurrent calls, the row names an avatar if and only if its object exists.
///
/// # Errors
/// Returns an error if the storage fails, `Error::NotFound` if the owner is being deleted, and `Error::Contention`
/// after repeated concurrent changes.
pub async fn set<T: HasAvatar>(backend: &Backend, owner: T, picture: Option<AvatarImage>) -> Result<T> {
    match picture {
        None if owner.file_name().is_none() => Ok(owner),
        None => delete(backend, owner).await,
        Some(AvatarImage(picture)) => store(backend, owner, picture).await,
    }
}

async fn store<T: HasAvatar>(backend: &Backend, mut owner: T, mut picture: UploadedFile) -> Result<T> {
    let key = owner.owner().object_key();
    let name = uploads::clean_name(&picture.file_name);
    for _ in 0..MAX_ATTEMPTS {
        picture.file.rewind().await.map_err(Error::internal)?;
        let file = picture.file.try_clone().await.map_err(Error::internal)?;
        backend.objects.put(&key, file).await?;
        owner = match owner.save(backend, Some(name.clone())).await {
            Err(error @ Error::NotFound(_)) => {
                backend.objects.delete(&key).await?;
                return Err(error);
            }
            saved => saved?,
        };
        // A concurrent call can have deleted the object before the row named it.
        if backend.objects.size(&key).await?.is_some() {
            return Ok(owner);
        }
    }
    delete(backend, owner).await?;
    Err(Error::Contention)
}

async fn delete<T: HasAvatar>(backend: &Backend, mut owner: T) -> Result<T> {
    let key = owner.owner().object_key();
    for _ in 0..MAX_ATTEMPTS {
        // The row first: a server that is killed in between leaves no avatar without an object.
        owner = owner.save(backend, None).await?;
        backend.objects.delete(&key).await?;
        owner = owner.reload(backend).await?;
        // A concurrent call can have stored an avatar whose object was deleted here.
        if owner.file_name().is_none() || backend.objects.size(&key).await?.is_some() {
            return Ok(owner);
        }
    }
    Err(Error::Contention)
}

/// Opens the avatar of an owner for download.
///
/// # Errors
/// Returns `Error::NotFound` if the owner has no avatar with this file name.
pub async fn open(backend: &Backend, owner: &impl HasAvatar, file_name: &str) -> Result<Download> {
    let missing = || Error::not_found("File");
    let name = owner
        .file_name()
        .filter(|name| *name == file_name)
        .ok_or_else(missing)?;
    let (objects, key) = (backend.objects.clone(), owner.owner().object_key());
    let size = objects.size(&key).await?.ok_or_else(missing)?;
    let kind = uploads::image_type(name).unwrap_or("application/octet-stream");
    Ok(Download {
        content_type: kind.to_owned(),
        file_name: name.to_owned(),
        attachment: false,
        etag: None,
        headers: uploads::safe_headers(),
        content: DownloadContent::Seekable {
            size,
            open: Box::new(move |start, end| objects.read(&key, start, end)),
        },
    })
}

/// Deletes the avatar of a deleted owner.
///
/// # Errors
/// Returns an error if the storage fails.
pub async fn remove(backend: &Backend, owner: AvatarOwner) -> Result<()> {
    Ok(backend.objects.discard(&owner.object_key()).await?)
}
