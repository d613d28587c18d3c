//! Files of a repository, their metadata headers, and blame.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::code::files::{BlamedLines, FileDetail};
use domain::kernel::download::{Download, DownloadContent};
use git::Commit;
use percent_encoding::{CONTROLS, utf8_percent_encode};

use contract::{BlameCommit, BlameRange, FileEncoding, RepositoryFile};

/// Returns the nine headers that describe a file, in every format.
#[must_use]
pub fn headers(file: &FileDetail) -> Vec<(&'static str, String)> {
    vec![
        ("X-Service-Blob-Id", file.blob.to_string()),
        ("X-Service-Commit-Id", file.commit.to_string()),
        ("X-Service-Content-Sha256", file.sha256.to_string()),
        ("X-Service-Encoding", "base64".to_owned()),
        ("X-Service-File-Name", header_text(file.name())),
        ("X-Service-File-Path", header_text(&file.path)),
        ("X-Service-Last-Commit-Id", file.last_commit.to_string()),
        ("X-Service-Ref", header_text(&file.revision)),
        ("X-Service-Size", file.size.to_string()),
    ]
}

/// Returns the download of the content of a file. `is_text` is whether the content is text.
#[must_use]
pub fn raw(file: &FileDetail, content: DownloadContent, is_text: bool) -> Download {
    let content_type = match is_text {
        true => "text/plain",
        false => "application/octet-stream",
    };
    Download {
        content_type: content_type.to_owned(),
        file_name: file.name().to_owned(),
        attachment: false,
        etag: Some(file.blob.to_string()),
        headers: headers(file),
        content,
    }
}

/// Returns a text for a header, percent-encoded if it contains control characters.
fn header_text(text: &str) -> String {
    if text.chars().any(char::is_control) {
        utf8_percent_encode(text, CONTROLS).to_string()
    } else {
        text.to_owned()
    }
}

/// Returns a file with its content.
#[must_use]
pub fn file(file: &FileDetail, content: &[u8]) -> RepositoryFile {
    RepositoryFile {
        file_name: file.name().to_owned(),
        file_path: file.path.clone(),
        size: i64::try_from(file.size).unwrap_or(i64::MAX),
        encoding: FileEncoding::Base64,
        content: STANDARD.encode(content),
        content_sha256: file.sha256.to_string(),
        r#ref: file.revision.clone(),
        blob_id: file.blob.to_string(),
        commit_id: file.commit.to_string(),
        last_commit_id: file.last_commit.to_string(),
    }
}

/// Returns lines with their last commit.
#[must_use]
pub fn blame(lines: BlamedLines) -> BlameRange {
    BlameRange {
        commit: blame_commit(&lines.commit),
        lines: lines.lines,
    }
}

fn blame_commit(commit: &Commit) -> BlameCommit {
    BlameCommit {
        id: commit.id.to_string(),
        message: commit.message.clone(),
        parent_ids: commit.parents.iter().map(ToString::to_string).collect(),
        authored_date: commit.author.time.into(),
        author_name: commit.author.name.clone(),
        author_email: commit.author.email.clone(),
        committed_date: commit.committer.time.into(),
        committer_name: commit.committer.name.clone(),
        committer_email: commit.committer.email.clone(),
    }
}
