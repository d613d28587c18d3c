//! Derives user names from the names at identity providers, which mostly are addresses.

use std::collections::HashSet;

use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::{fold, namespaces, users};

use crate::accounts::users::USERNAME_TAKEN;
use crate::kernel::error::{Error, Result};
use crate::kernel::names;

/// Maximum length of the derived name, in characters, which leaves room for a number.
const MAX_STEM_LENGTH: usize = 240;
/// User name for a name without usable characters.
const FALLBACK_NAME: &str = "user";
/// Number of consecutive suffixes that are tried before random ones.
const MAX_NUMBERED: u32 = 20;
/// Number of random suffixes that are tried.
const MAX_RANDOM: usize = 4;

/// Returns a name without the part after `@` and without characters that are invalid in paths.
pub(super) fn sanitize(sent: &str) -> String {
    let before = sent.split('@').next().unwrap_or_default();
    let allowed = |character: &char| character.is_ascii_alphanumeric() || "_-.".contains(*character);
    let allowed_characters: String = before.chars().filter(allowed).take(MAX_STEM_LENGTH).collect();
    let mut name = allowed_characters.trim_start_matches('-');
    loop {
        let folded = name.to_ascii_lowercase();
        let end = [".atom", ".git", "."]
            .into_iter()
            .find(|end| folded.ends_with(end));
        match end {
            Some(end) => name = &name[..name.len() - end.len()],
            None => break,
        }
    }
    if name.is_empty() { FALLBACK_NAME } else { name }.to_owned()
}

/// Returns a free user name derived from a name, with a number if it is taken or reserved. After many
/// collisions, or if another group took a name concurrently, the number is random.
///
/// # Errors
/// Returns `Conflict` if all tried names are taken.
pub(super) async fn find_available(db: &impl ConnectionTrait, sent: &str, outrun: bool) -> Result<String> {
    let name = sanitize(sent);
    let numbered = (0..MAX_NUMBERED).map(|number| match number {
        0 => name.clone(),
        number => format!("{name}{number}"),
    });
    let random = (0..MAX_RANDOM).map(|_| format!("{name}{}", rand::random_range(100_000..1_000_000_000)));
    let all: Vec<String> = match outrun {
        false => numbered.chain(random).collect(),
        true => random.collect(),
    };
    let taken_names = taken_among(db, &all).await?;
    let mut free = all.into_iter().filter(|name| !taken_names.contains(&fold(name)));
    free.find(|name| names::path_fault(name, true).is_none())
        .ok_or_else(already_taken)
}

/// Returns the new user name after a rename, or `None` if it is unchanged. A name that differs only by a
/// number counts as unchanged if the plain name is taken or reserved.
///
/// # Errors
/// Returns `Conflict` if the name is taken, and a validation error if it is reserved.
pub(super) async fn rename(
    db: &impl ConnectionTrait,
    user: &users::Model,
    sent: &str,
) -> Result<Option<String>> {
    let name = sanitize(sent);
    if name == user.username {
        return Ok(None);
    }
    let key = fold(&name);
    let fault = names::path_fault(&name, true);
    let taken_names =
        key != user.username_key && !taken_among(db, std::slice::from_ref(&name)).await?.is_empty();
    if fault.is_none() && !taken_names {
        return Ok(Some(name));
    }
    let numbered = user
        .username_key
        .strip_prefix(&key)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    match fault {
        _ if numbered => Ok(None),
        Some(fault) => Err(Error::attribute("Username", fault)),
        None => Err(already_taken()),
    }
}

fn already_taken() -> Error {
    Error::Conflict(USERNAME_TAKEN.into())
}

/// Returns which of these names are taken by a user or a top-level group, case-folded.
async fn taken_among(db: &impl ConnectionTrait, names: &[String]) -> Result<HashSet<String>> {
    let keys: Vec<String> = names.iter().map(|name| fold(name)).collect();
    let users: Vec<String> = users::Entity::find()
        .select_only()
        .column(users::Column::UsernameKey)
        .filter(users::Column::UsernameKey.is_in(keys.iter().map(String::as_str)))
        .into_tuple()
        .all(db)
        .await?;
    let namespaces: Vec<String> = namespaces::Entity::find()
        .select_only()
        .column(namespaces::Column::FullPathKey)
        .filter(namespaces::Column::FullPathKey.is_in(keys))
        .into_tuple()
        .all(db)
        .await?;
    Ok(users.into_iter().chain(namespaces).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn username_is_cleaned_to_safe_path_segment() {
        for (sent, name) in [
            ("ada", "ada"),
            ("Ada.Lovelace@example.com", "Ada.Lovelace"),
            ("ada@one@two", "ada"),
            ("--ada--", "ada--"),
            ("ada.git", "ada"),
            ("ada.git.ATOM..", "ada"),
            ("Äda Löve/lace", "daLvelace"),
            ("日本", "user"),
            ("@example.com", "user"),
            ("..", "user"),
            ("-.git", "user"),
            ("a\0b\n", "ab"),
        ] {
            assert_eq!(sanitize(sent), name, "{sent:?}");
        }
        assert_eq!(sanitize(&"a".repeat(10_000)).len(), MAX_STEM_LENGTH);
    }

    #[test]
    fn random_username_is_cleaned_to_valid_path() {
        let mut random = rand::rng();
        for _ in 0..5_000 {
            let sent: String =
                std::iter::repeat_with(|| rand::RngExt::random_range(&mut random, '\0'..'\u{300}'))
                    .take(12)
                    .collect();
            let name = sanitize(&sent);
            // Reserved words get a number.
            assert_eq!(names::path_fault(&format!("{name}1"), true), None, "{sent:?}");
        }
    }
}
