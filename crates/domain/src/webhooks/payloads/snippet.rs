//! Snippets in payloads of notes.

use serde::Serialize;
use storage::entities::{snippet_contents, snippets};

use super::parts::{date, visibility_level};
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Maximum length of included content, in bytes. The event is the note, and request bodies are limited.
const MAX_CONTENT_BYTES: usize = 1 << 20;

/// A snippet of a project.
#[derive(Debug, Serialize)]
pub(super) struct SnippetAttributes {
    id: i64,
    title: String,
    description: Option<String>,
    content: Option<String>,
    author_id: i64,
    project_id: Option<i64>,
    file_name: String,
    expires_at: Option<String>,
    r#type: &'static str,
    visibility_level: u8,
    created_at: String,
    updated_at: String,
    url: String,
}

/// Returns the payload part of a snippet with the URL `url`. Long content is left out.
pub(super) async fn load_attributes(
    backend: &Backend,
    snippet: snippets::Model,
    url: String,
) -> Result<SnippetAttributes> {
    let content = snippet_contents::of(backend.database.read(), snippet.id).await?;
    Ok(SnippetAttributes {
        id: snippet.id,
        title: snippet.title,
        description: snippet.description,
        content: content.filter(|content| content.len() <= MAX_CONTENT_BYTES),
        author_id: snippet.author_id,
        project_id: snippet.project_id,
        file_name: snippet.file_name,
        expires_at: None,
        r#type: "ProjectSnippet",
        visibility_level: visibility_level(snippet.visibility),
        created_at: date(snippet.created_at),
        updated_at: date(snippet.updated_at),
        url,
    })
}
