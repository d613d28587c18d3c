//! Archives of repositories.

use domain::code::repositories::RepositoryArchive;
use domain::kernel::download::{Download, DownloadContent};
use futures_util::StreamExt;

/// Returns the download of an archive.
#[must_use]
pub fn download(archive: RepositoryArchive) -> Download {
    Download {
        content_type: "application/octet-stream".to_owned(),
        file_name: archive.file_name,
        attachment: true,
        etag: None,
        headers: Vec::new(),
        content: DownloadContent::Stream(archive.stream.boxed()),
    }
}
