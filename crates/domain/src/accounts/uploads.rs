//! Files uploaded to projects: content in the object storage, metadata in the database.
//!
//! The row is inserted first and marks the file as incomplete. Then the content is stored, and the row is
//! updated. The remains of a killed server can therefore be found and deleted.

use chrono::TimeDelta;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use storage::database::Violation;
use storage::entities::now;
use storage::entities::project_uploads::{self, ActiveModel, Column, Entity, Model};
use tokio::fs::File;

use crate::identity::access::ProjectAccess;
use crate::instance::settings;
use crate::integrations::object_storage::SweepProgress;
use crate::kernel::Backend;
use crate::kernel::download::{Download, DownloadContent};
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::ATTACHMENT_SIZE;

/// Folder of the files of all projects in the storage.
pub(crate) const FOLDER: &str = "projects";
/// Maximum length of a name in bytes, which most file systems support.
const MAX_NAME_BYTES: usize = 255;
/// Age at which an incomplete file is deleted; longer than any upload.
const ABANDONED_AFTER: TimeDelta = TimeDelta::hours(24);
/// Maximum number of files that one sweep deletes.
const MAX_SWEPT: u64 = 1_000;
/// Extensions and types of images that browsers display without running code in them.
const SAFE_IMAGE_TYPES: [(&str, &str); 5] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];
/// Extensions that Markdown embeds instead of linking.
const MEDIA: [&str; 17] = [
    "png", "jpg", "jpeg", "gif", "bmp", "tiff", "ico", "webp", "mp4", "m4v", "mov", "webm", "ogv", "mp3",
    "oga", "ogg", "wav",
];

/// A received file: an unnamed file on disk, positioned at its start.
#[derive(Debug)]
pub struct UploadedFile {
    /// The original name.
    pub file_name: String,
    /// The size in bytes.
    pub size: u64,
    /// The content.
    pub file: File,
}

/// Stores a file of a project.
///
/// # Errors
/// Returns `TooLarge` if it exceeds the maximum size in the instance settings.
pub async fn create(backend: &Backend, access: &ProjectAccess, upload: UploadedFile) -> Result<Model> {
    if upload.size > settings::get(backend).await?.max_attachment_bytes() {
        return Err(Error::TooLarge.because_of(ATTACHMENT_SIZE));
    }
    let db = backend.database.write();
    let row = ActiveModel {
        project_id: Set(access.project.id),
        uploader_id: Set(access.caller.as_user().map(|user| user.id)),
        secret: Set(hex::encode(rand::random::<[u8; 16]>())),
        file_name: Set(clean_name(&upload.file_name)),
        size: Set(i64::try_from(upload.size).map_err(Error::internal)?),
        created_at: Set(now()),
        ..Default::default()
    };
    let row = row
        .insert(db)
        .await
        .map_err(|error| match Violation::of(&error) {
            // The project was deleted concurrently.
            Some(Violation::ForeignKey(_)) => Error::not_found("Project"),
            _ => error.into(),
        })?;
    if let Err(error) = backend.objects.put(&key(&row), upload.file).await {
        // The storage may have stored the object although it reported an error.
        match backend.objects.delete(&key(&row)).await {
            Ok(()) => {
                Entity::delete_by_id(row.id).exec(db).await?;
            }
            // The row remains, so that the sweep deletes the object later.
            Err(error) => tracing::warn!(%error, "failed to delete the object of a failed upload"),
        }
        return Err(error.into());
    }
    let stored = Entity::update_many()
        .col_expr(Column::StoredAt, Expr::value(now()))
        .filter(Column::Id.eq(row.id))
        .exec(db)
        .await?;
    if stored.rows_affected == 0 {
        backend.objects.delete(&key(&row)).await?;
        return Err(Error::not_found("Project"));
    }
    Ok(row)
}

/// Opens a file of a project for download, so that no code in it runs in the origin of the server. Only safe
/// images are displayed inline, other files are attachments, and all have a sandbox policy.
///
/// # Errors
/// Returns `NotFound` if no file has this secret and name.
pub async fn open(
    backend: &Backend,
    access: &ProjectAccess,
    secret: &str,
    file_name: &str,
) -> Result<Download> {
    let found = project_uploads::stored(backend.database.read(), access.project.id, secret).await?;
    let row = found
        .filter(|row| row.file_name == file_name)
        .ok_or_else(|| Error::not_found("File"))?;
    let picture = image_type(&row.file_name);
    let (objects, key) = (backend.objects.clone(), key(&row));
    Ok(Download {
        content_type: picture.unwrap_or("application/octet-stream").to_owned(),
        attachment: picture.is_none(),
        etag: Some(row.secret),
        headers: safe_headers(),
        file_name: row.file_name,
        content: DownloadContent::Seekable {
            size: u64::try_from(row.size).unwrap_or(0),
            open: Box::new(move |start, end| objects.read(&key, start, end)),
        },
    })
}

/// Returns headers that sandbox user content in browsers.
pub(crate) fn safe_headers() -> Vec<(&'static str, String)> {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
    vec![("Content-Security-Policy", policy.to_owned())]
}

/// Returns the type of an image that may be displayed inline, by its name.
pub(crate) fn image_type(file_name: &str) -> Option<&'static str> {
    let extension = extension(file_name);
    let picture = SAFE_IMAGE_TYPES.iter().find(|(known, _)| *known == extension);
    picture.map(|(_, kind)| *kind)
}

/// Deletes all files of a project from the storage; the rows are deleted with the project.
///
/// # Errors
/// Returns an error if the storage fails.
pub async fn remove_all(backend: &Backend, project_id: i64) -> Result<()> {
    Ok(backend.objects.delete_below(&folder(project_id)).await?)
}

/// Deletes incomplete uploads and returns their number. An upload whose object cannot be deleted remains for the next
/// sweep.
///
/// # Errors
/// Returns an error if a database query fails, or if an object could not be deleted.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let db = backend.database.write();
    let abandoned = project_uploads::abandoned(db, now() - ABANDONED_AFTER, MAX_SWEPT).await?;
    let mut progress = SweepProgress::new();
    for row in &abandoned {
        if !progress.record(remove_abandoned(backend, row).await) {
            break;
        }
    }
    progress.finish()
}

/// Deletes the object of an incomplete upload, and then its row: a row without an object is found again.
async fn remove_abandoned(backend: &Backend, row: &Model) -> Result<()> {
    backend.objects.discard(&key(row)).await?;
    Entity::delete_many()
        .filter(Column::Id.eq(row.id))
        .filter(Column::StoredAt.is_null())
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Returns whether Markdown embeds a file.
#[must_use]
pub fn is_media(file_name: &str) -> bool {
    MEDIA.contains(&extension(file_name).as_str())
}

/// Returns the folder of a project in the storage.
pub(crate) fn folder(project_id: i64) -> String {
    format!("{FOLDER}/{project_id}")
}

/// Returns the project that an object belongs to, if it belongs to one.
pub(crate) fn project_of_key(key: &str) -> Option<i64> {
    let (id, _) = key.strip_prefix(FOLDER)?.strip_prefix('/')?.split_once('/')?;
    id.parse().ok()
}

fn key(row: &Model) -> String {
    object_key(row.project_id, &row.secret)
}

/// Returns the key of an upload in the object storage.
pub(crate) fn object_key(project_id: i64, secret: &str) -> String {
    format!("{}/uploads/{secret}", folder(project_id))
}

fn extension(file_name: &str) -> String {
    let extension = file_name.rsplit_once('.').map_or("", |(_, extension)| extension);
    extension.to_lowercase()
}

/// Returns the last part of a name without characters that are special in a path, an address, a header or a
/// shell.
pub(crate) fn clean_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+');
    let mut clean: String = last.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if clean.chars().all(|c| c == '.') {
        clean = "_".repeat(clean.len().max(1));
    }
    if clean.len() <= MAX_NAME_BYTES {
        return clean;
    }
    // Preserve the extension, because it determines the type of the file.
    let (stem, extension) = match clean.rsplit_once('.') {
        Some((stem, extension)) if extension.len() < 32 => (stem, format!(".{extension}")),
        _ => (clean.as_str(), String::new()),
    };
    let mut end = MAX_NAME_BYTES - extension.len();
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{extension}", &stem[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_loses_directories_and_unsafe_characters() {
        for (name, clean) in [
            ("card.png", "card.png"),
            ("my file (1).txt", "my_file__1_.txt"),
            ("../../etc/passwd", "passwd"),
            ("C:\\Users\\ada\\notes.md", "notes.md"),
            (
                "a\"b'c<d>e&f;g|h`i$j\r\nk\0l\u{202e}m.sh",
                "a_b_c_d_e_f_g_h_i_j__k_l_m.sh",
            ),
            ("über-größe+1.pdf", "über-größe+1.pdf"),
            ("日本語.txt", "日本語.txt"),
            ("🚀.txt", "_.txt"),
            (".bashrc", ".bashrc"),
            ("a%2Fb.txt", "a_2Fb.txt"),
            ("", "_"),
            (".", "_"),
            ("..", "__"),
            ("dir/..", "__"),
            ("dir/", "_"),
        ] {
            assert_eq!(clean_name(name), clean, "{name:?}");
        }
    }

    #[test]
    fn long_file_name_is_truncated_before_extension() {
        let name = clean_name(&format!("{}.png", "ä".repeat(500)));
        assert!(name.len() <= MAX_NAME_BYTES && name.ends_with(".png"), "{name}");
        assert_eq!(clean_name(&"x".repeat(500)).len(), MAX_NAME_BYTES);
        let strange = clean_name(&format!("x.{}", "y".repeat(500)));
        assert_eq!(strange.len(), MAX_NAME_BYTES);
    }

    #[test]
    fn only_media_files_are_shown_inline() {
        assert!(is_media("a.PNG") && is_media("b.mp4"));
        assert!(!is_media("a.svg") && !is_media("png") && !is_media("a.html"));
    }
}
