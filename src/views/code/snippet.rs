//! Snippets.

use domain::code::snippets::Row;

use crate::views::accounts::users::reference;
use crate::views::enums::Convert;
use contract::Snippet;

/// Returns a snippet in the format of the contract; `base` is the base URL.
#[must_use]
pub fn snippet(base: &str, row: Row) -> Snippet {
    let Row {
        snippet,
        author,
        project_path,
    } = row;
    let home = match project_path {
        Some(path) => format!("{base}/{path}"),
        None => base.to_owned(),
    };
    let web_url = format!("{home}/-/snippets/{}", snippet.id);
    Snippet {
        id: snippet.id,
        title: snippet.title,
        file_name: snippet.file_name,
        description: snippet.description,
        visibility: snippet.visibility.convert(),
        author: reference(base, &author),
        expires_at: None,
        created_at: snippet.created_at.into(),
        updated_at: snippet.updated_at.into(),
        project_id: snippet.project_id,
        raw_url: format!("{web_url}/raw"),
        web_url,
    }
}
