//! Snapshots of repositories.

use domain::kernel::download::{Download, DownloadContent};
use futures_util::StreamExt;
use git::ByteStream;

/// Returns the download of a snapshot of the repository of a project with this path.
#[must_use]
pub fn download(project_path: &str, stream: ByteStream) -> Download {
    Download {
        content_type: "application/x-tar".to_owned(),
        file_name: format!("{project_path}.tar"),
        attachment: true,
        etag: None,
        headers: Vec::new(),
        content: DownloadContent::Stream(stream.boxed()),
    }
}
