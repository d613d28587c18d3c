//! Protected branches and tags: which rules exist, and who may change them.
//!
//! A rule has at most one role for each action, and grants to users, groups and deploy keys (ADR 59).

pub mod access_lists;
mod auditing;
mod branch_owner;
pub mod branches;
mod grantees;
pub mod tags;

use storage::entities::ref_rules::{GrantFilter, RefRule, RefRuleOwner, load};
use storage::entities::{AccessLevel, fold};

use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};

/// Maximum number of protected branches, and of protected tags, of a project or group.
pub const MAX_RULES: u64 = 200;

/// Role of an action if a request names none.
const DEFAULT_LEVEL: AccessLevel = AccessLevel::Maintainer;

/// Returns a page of rules whose names contain a text, ignoring case.
async fn list(
    backend: &Backend,
    caller: &Caller,
    owner: RefRuleOwner,
    search: Option<&str>,
    page: &PageRequest,
) -> Result<Page<RefRule>> {
    let mut rules = load(backend.database.read(), owner, GrantFilter::All(caller.viewer())).await?;
    if let Some(text) = search.map(fold).filter(|text| !text.trim().is_empty()) {
        rules.retain(|rule| fold(&rule.name).contains(&text));
    }
    Ok(Page::from_all(page, rules))
}

/// Returns the rule with exactly this name or pattern. The rule of a project comes before an inherited one.
async fn get(backend: &Backend, caller: &Caller, owner: RefRuleOwner, name: &str) -> Result<RefRule> {
    let rules = load(backend.database.read(), owner, GrantFilter::All(caller.viewer())).await?;
    rules
        .into_iter()
        .find(|rule| rule.name == name)
        .ok_or_else(not_found)
}

/// Checks that a branch or tag could match a name or pattern. Both have the same rules for names.
fn check_name(name: &str) -> Result<()> {
    // A wildcard can match one letter.
    git::check_branch_name(&name.replace('*', "x"))
        .map_err(|_| Error::attribute("name", "is not a valid name or wildcard"))
}

fn not_found() -> Error {
    Error::not_found("")
}

fn too_many(kind: &str) -> Error {
    Error::Rejected(format!("The maximum number of protected {kind} ({MAX_RULES}) is reached").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_must_be_able_to_match_a_ref() {
        for name in [
            "main",
            "*",
            "release/*",
            "*-stable",
            "**",
            "*/*",
            "v*.*",
            "日本/*",
        ] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(5_000);
        for name in [
            "",
            " ",
            "a b",
            "a..b",
            "-x",
            "x/",
            "/x",
            "*.lock",
            "refs/heads/x",
            "a\nb",
            "HEAD",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
