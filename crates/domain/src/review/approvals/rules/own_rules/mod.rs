//! Approval rules of merge requests, which replace the rules of the project.

mod changes;
pub(crate) mod owner_rules;

use sea_orm::ConnectionTrait;
use storage::entities::merge_requests::{MergeRequestState, Model};

pub use changes::{NewOwnRule, OwnRuleUpdate, create, delete, require_approvals, update};

use super::selection::{group_ids, user_ids};
use super::{ApprovalRuleDetail, load};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::policy::Role;
use crate::review::approvals::evaluation::{StoredRule, scope_of};
use crate::review::approvals::settings;
use crate::review::merge_requests::{approval_policy, find};

/// A rule of a merge request.
#[derive(Debug, Clone)]
pub struct OwnRuleDetail {
    /// The rule.
    pub detail: ApprovalRuleDetail,
    /// The rule of the project that was copied.
    pub source: Option<StoredRule>,
    /// Whether the name, the number, the users or the groups differ from those of the source.
    pub is_overridden: bool,
    /// Name of the section of a rule of code owners.
    pub section: Option<String>,
    /// Whether the rule is one of code owners, which cannot be changed.
    pub is_code_owner: bool,
}

/// Returns a page of the rules of a merge request, oldest first. Those of code owners come last.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist or is not visible to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    iid: i64,
    page: &PageRequest,
) -> Result<Page<OwnRuleDetail>> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let mut rules = load_own(db, access, &merge_request).await?;
    rules.extend(owner_rules::load(backend, access, &merge_request).await?);
    Ok(Page::from_all(page, rules))
}

/// Returns a rule of a merge request.
///
/// # Errors
/// Returns `NotFound` if the merge request does not exist, is not visible to the caller, or has no such rule.
pub async fn get(backend: &Backend, access: &ProjectAccess, iid: i64, id: i64) -> Result<OwnRuleDetail> {
    let db = backend.database.read();
    let merge_request = find(db, access, iid).await?;
    let mut rules = load_own(db, access, &merge_request).await?;
    rules.extend(owner_rules::load(backend, access, &merge_request).await?);
    with_id(rules, id)
}

async fn find_own(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    merge_request: &Model,
    id: i64,
) -> Result<OwnRuleDetail> {
    with_id(load_own(db, access, merge_request).await?, id)
}

fn with_id(rules: Vec<OwnRuleDetail>, id: i64) -> Result<OwnRuleDetail> {
    let mut rules = rules.into_iter();
    rules
        .find(|known| known.detail.rule.id == id)
        .ok_or_else(|| Error::not_found(""))
}

async fn load_own(
    db: &impl ConnectionTrait,
    access: &ProjectAccess,
    merge_request: &Model,
) -> Result<Vec<OwnRuleDetail>> {
    let rules = load(db, access, scope_of(merge_request)).await?;
    Ok(split(rules).own)
}

/// The rules that can apply to a merge request.
pub(crate) struct SplitRules {
    /// The rules of the merge request.
    pub(crate) own: Vec<OwnRuleDetail>,
    /// The rules of the project.
    pub(crate) of_project: Vec<ApprovalRuleDetail>,
}

/// Separates the rules of a merge request from those of its project.
pub(crate) fn split(rules: Vec<ApprovalRuleDetail>) -> SplitRules {
    let (own, of_project): (Vec<_>, Vec<_>) = rules.into_iter().partition(|known| known.rule.is_own);
    let own = own.into_iter().map(|detail| {
        let source = of_project
            .iter()
            .find(|known| Some(known.rule.id) == detail.rule.source_rule_id);
        OwnRuleDetail {
            is_overridden: source.is_some_and(|source| is_overridden(&detail, source)),
            source: source.map(|source| source.rule.clone()),
            detail,
            section: None,
            is_code_owner: false,
        }
    });
    SplitRules {
        own: own.collect(),
        of_project,
    }
}

fn is_overridden(own: &ApprovalRuleDetail, source: &ApprovalRuleDetail) -> bool {
    own.rule.name != source.rule.name
        || own.rule.approvals_required != source.rule.approvals_required
        || user_ids(own) != user_ids(source)
        || group_ids(own) != group_ids(source)
}

/// Checks that the caller can change the rules of a merge request: its author and Developers, if the project permits rules of
/// merge requests, until the merge request is merged.
async fn check_can_change(backend: &Backend, access: &ProjectAccess, merge_request: &Model) -> Result<()> {
    check_can_edit(access, merge_request)?;
    match settings::of_project(backend, access).await?.rule_overrides.value {
        true => Ok(()),
        false => Err(Error::forbidden_because("Overriding approvals is disabled")),
    }
}

/// Checks that a rule to change is not one of code owners.
async fn check_is_stored(
    backend: &Backend,
    access: &ProjectAccess,
    merge_request: &Model,
    id: i64,
) -> Result<()> {
    let policy = approval_policy::load(backend, access, merge_request).await?;
    match policy.owners.contains(id) {
        true => Err(Error::forbidden_because(
            "The rules of code owners cannot be changed. Change the file CODEOWNERS of the target branch.",
        )),
        false => Ok(()),
    }
}

fn check_can_edit(access: &ProjectAccess, merge_request: &Model) -> Result<()> {
    let user_id = access.caller.signed_in()?.id;
    match access.has_role(Role::Developer) || merge_request.author_id == Some(user_id) {
        true => check_not_merged(merge_request),
        false => Err(Error::forbidden()),
    }
}

fn check_not_merged(merge_request: &Model) -> Result<()> {
    match merge_request.state == MergeRequestState::Merged {
        true => Err(Error::forbidden_because("The merge request is merged")),
        false => Ok(()),
    }
}
