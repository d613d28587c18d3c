//! Snippets.

use domain::code::snippets::SnippetDetail;

use crate::views::accounts::users::reference;
use crate::views::enums::Convert;
use contract::Snippet;

/// Returns a snippet in the format of the contract; `base` is the base URL.
#[must_use]
pub fn snippet(base: &str, detail: SnippetDetail) -> Snippet {
    let SnippetDetail {
        snippet,
        author,
        project_path,
    } = detail;
    let owner_url = match project_path {
        Some(path) => format!("{base}/{path}"),
        None => base.to_owned(),
    };
    let web_url = format!("{owner_url}/-/snippets/{}", snippet.id);
    Snippet {
        id: snippet.id,
        title: snippet.title,
        file_name: snippet.file_name,
        description: snippet.description,
        visibility: snippet.visibility.convert(),
        author: reference(base, author),
        expires_at: None,
        created_at: snippet.created_at.into(),
        updated_at: snippet.updated_at.into(),
        project_id: snippet.project_id,
        raw_url: format!("{web_url}/raw"),
        web_url,
    }
}
