//! Uploaded files.

use domain::accounts::uploads::is_media;
use storage::entities::project_uploads::Model;

use contract::Upload;

/// Returns a file of the project with this full path.
#[must_use]
pub fn upload(row: &Model, project: &str) -> Upload {
    let url = format!("/uploads/{}/{}", row.secret, row.file_name);
    let media = is_media(&row.file_name);
    let stem = row.file_name.rsplit_once('.').map_or("", |(stem, _)| stem);
    let alt = if media && !stem.is_empty() {
        stem
    } else {
        &row.file_name
    };
    let mark = if media { "!" } else { "" };
    Upload {
        alt: alt.to_owned(),
        full_path: format!("/{project}{url}"),
        markdown: format!("{mark}[{alt}]({url})"),
        url,
    }
}
