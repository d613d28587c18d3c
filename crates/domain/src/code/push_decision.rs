//! The decision on ref updates, by the state of the database right before the refs move.
//!
//! A request may take hours until its refs can move, so its first authorization may be outdated. [`decide`] authorizes
//! the caller again and checks each update. Pushes wait for it in a hook; the API calls it under the lock of the
//! repository. Rules for ref updates belong into [`verdict`]. Rules for the commits that the updates add are in
//! [`push_rules`](crate::code::push_rules).

use git::{NewObjects, Oid, RefCommand};
use storage::entities::related_rows::RelatedRows;
use storage::entities::{Scope, push_rules as rows};

use crate::code::branch_protection::{self, BranchRules};
use crate::code::code_owners;
use crate::code::push_rules::{self, CommitOrigin, CompiledRule};
use crate::code::repository_access;
use crate::code::tag_protection::{self, TagRules};
use crate::identity::access::ProjectAccess;
use crate::identity::git_access;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;

/// Error if the caller may push to the branch, but not discard its commits.
const FORCE_PUSH_NOT_ALLOWED: &str = "You are not allowed to force push into this branch";

/// Error if the caller may not create a tag.
pub const TAG_NOT_ALLOWED: &str = "You are not allowed to create this tag as it is protected.";

/// Prefixes of branches and tags.
const BRANCHES: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

/// Maximum number of refs of a repository that are neither branches nor tags nor reserved.
const MAX_CUSTOM_REFS: usize = 10_000;

/// Maximum number of branches in a push that require approvals of code owners. The changes of each are listed.
const MAX_OWNED_BRANCHES: usize = 10;

/// A requested update of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedUpdate {
    /// The full name, such as `refs/heads/main`.
    pub reference: String,
    /// The kind.
    pub kind: ProposalKind,
    /// The commit or object to which the ref will point, as soon as it is known.
    pub target: Option<Oid>,
}

/// Kind of a requested update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalKind {
    /// Creates the ref.
    Create,
    /// Moves the ref. If the verdict requires it, the new commit must be a descendant of the old one.
    Update,
    /// Moves a branch to a commit that need not be a descendant.
    Replace,
    /// Merges into a branch.
    Merge,
    /// Deletes the ref.
    Delete,
    /// Deletes a tag with the API, which names the tag. A push may delete tags by mistake.
    DeleteTag,
}

/// Verdict on one update. Texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The update is allowed.
    Accepted,
    /// The update is allowed if it is a fast-forward.
    FastForwardOnly(String),
    /// The update is not allowed.
    Rejected(String),
    /// The update violates the push rule of the project.
    Violation(String),
    /// The ref is reserved. Git rejects the update, and applies the other updates of the push.
    Reserved,
}

impl ProposedUpdate {
    /// Returns the update of a branch.
    #[must_use]
    pub fn branch(name: &str, kind: ProposalKind) -> Self {
        Self {
            reference: format!("refs/heads/{name}"),
            kind,
            target: None,
        }
    }

    /// Returns the update of a tag.
    #[must_use]
    pub fn tag(name: &str, kind: ProposalKind) -> Self {
        Self {
            reference: format!("refs/tags/{name}"),
            kind,
            target: None,
        }
    }
}

impl From<&RefCommand> for ProposedUpdate {
    fn from(command: &RefCommand) -> Self {
        Self {
            reference: command.reference.clone(),
            target: command.new,
            kind: match (command.old, command.new) {
                (_, None) => ProposalKind::Delete,
                (None, Some(_)) => ProposalKind::Create,
                (Some(_), Some(_)) => ProposalKind::Update,
            },
        }
    }
}

/// Authorizes the caller again and returns the verdict on each update. The updates add `objects`, if there are any.
///
/// Reads only committed rows and no outdated cache, so every change that a node acknowledged before the call counts.
/// Takes no lock: Git programs run meanwhile.
///
/// # Errors
/// Returns `Error::Unauthorized` or `Error::InvalidToken` if the credentials are no longer valid. Returns
/// `Error::NotFound` if the caller cannot see the project any more. Returns `Error::Forbidden` if the account is not
/// active, the role is too low, or the project is archived.
pub async fn decide(
    backend: &Backend,
    access: &ProjectAccess,
    updates: &[ProposedUpdate],
    objects: Option<(NewObjects, CommitOrigin)>,
) -> Result<Vec<Verdict>> {
    let access = git_access::authorize_push_again(backend, access).await?;
    let (mut verdicts, rules) = evaluate(backend, &access, updates).await?;
    let is_refused = |verdict: &Verdict| matches!(verdict, Verdict::Rejected(_) | Verdict::Violation(_));
    if let Some((objects, _)) = &objects
        && !verdicts.iter().any(is_refused)
    {
        check_code_owners(
            backend,
            &access,
            &rules,
            (updates, verdicts.as_mut_slice()),
            objects,
        )
        .await?;
    }
    if let (Some(rule), Some((objects, origin))) = (rules.push_rule, objects)
        && !verdicts.iter().any(is_refused)
        && let Some(text) = push_rules::find_violation(backend, &access, rule, &objects, origin).await?
        // Git rejects commands for reserved refs in any case.
        && let Some(verdict) = verdicts.iter_mut().find(|verdict| **verdict != Verdict::Reserved)
    {
        *verdict = Verdict::Violation(text);
    }
    Ok(verdicts)
}

/// Refuses changes of files with owners, on branches whose protection requires approvals of code owners. A merge has
/// these approvals already.
async fn check_code_owners(
    backend: &Backend,
    access: &ProjectAccess,
    rules: &UpdateRules,
    (updates, verdicts): (&[ProposedUpdate], &mut [Verdict]),
    objects: &NewObjects,
) -> Result<()> {
    let Some(rules) = rules
        .branches
        .as_ref()
        .filter(|_| code_owners::is_available(backend))
    else {
        return Ok(());
    };
    let mut checked = 0;
    for (update, verdict) in updates.iter().zip(verdicts) {
        let is_checked = matches!(update.kind, ProposalKind::Update | ProposalKind::Replace);
        let branch = update.reference.strip_prefix(BRANCHES).filter(|_| is_checked);
        let (Some(branch), Some(target)) = (branch, update.target) else {
            continue;
        };
        if !rules.protection(branch).requires_code_owners {
            continue;
        }
        checked += 1;
        let text = match checked > MAX_OWNED_BRANCHES {
            true => Some(format!(
                "The push updates more than {MAX_OWNED_BRANCHES} branches that require approvals of code owners. Push \
                 fewer branches at once."
            )),
            false => code_owners::find_violation(backend, access, branch, (objects.clone(), target)).await?,
        };
        if let Some(text) = text {
            *verdict = Verdict::Violation(text);
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the verdict on each update for a caller who was authorized just now, without the objects that the updates
/// add.
///
/// # Errors
/// Returns an error if the database or the repository fails.
pub async fn verdicts(
    backend: &Backend,
    access: &ProjectAccess,
    updates: &[ProposedUpdate],
) -> Result<Vec<Verdict>> {
    let (verdicts, _) = evaluate(backend, access, updates).await?;
    Ok(verdicts)
}

/// Returns the verdict on each update, and the rules of the project.
async fn evaluate(
    backend: &Backend,
    access: &ProjectAccess,
    updates: &[ProposedUpdate],
) -> Result<(Vec<Verdict>, UpdateRules)> {
    let rules = rules_for(backend, access, updates).await?;
    let can_create = can_create_custom_refs(backend, access, updates).await?;
    let verdicts = updates.iter().map(|update| match can_create || !is_new_custom_ref(update) {
        true => verdict(&rules, access, update),
        false => Verdict::Rejected(format!(
            "The project has too many refs other than branches and tags (maximum is {MAX_CUSTOM_REFS}). Delete some of \
             them and push again."
        )),
    });
    let verdicts = verdicts.collect();
    Ok((verdicts, rules))
}

/// The rules for the kinds of refs that a request updates.
struct UpdateRules {
    branches: Option<BranchRules>,
    tags: Option<TagRules>,
    push_rule: Option<CompiledRule>,
}

/// Loads the push rule, and the rules for branches and tags as far as the updates need them. Runs one statement if the
/// project has no push rule and no rule names a group.
async fn rules_for(
    backend: &Backend,
    access: &ProjectAccess,
    updates: &[ProposedUpdate],
) -> Result<UpdateRules> {
    let db = backend.database.read();
    let has = |prefix: &str| updates.iter().any(|update| update.reference.starts_with(prefix));
    let mut related = RelatedRows::default();
    let branches = has(BRANCHES).then(|| branch_protection::add_rules(&mut related, access));
    let tags = has(TAGS).then(|| tag_protection::add_rules(&mut related, access));
    let push_rule = related.add(Some(rows::presence(access.project.id)));
    let mut found = related.load(db).await?;
    let push_rule = match found.take(push_rule).is_empty() {
        true => None,
        false => rows::of(Scope::Project(access.project.id)).one(db).await?,
    };
    let branches = branches.map(|parts| parts.take(&mut found)).transpose()?;
    let tags = tags.map(|parts| parts.take(&mut found)).transpose()?;
    Ok(UpdateRules {
        branches: match branches {
            Some(rules) => Some(BranchRules::load(db, access, rules).await?),
            None => None,
        },
        tags: match tags {
            Some(rules) => Some(TagRules::load(db, access, rules).await?),
            None => None,
        },
        push_rule: push_rule.map(CompiledRule::compile).transpose()?,
    })
}

/// Returns whether the repository can have all custom refs that the updates create.
async fn can_create_custom_refs(
    backend: &Backend,
    access: &ProjectAccess,
    updates: &[ProposedUpdate],
) -> Result<bool> {
    let added = updates.iter().filter(|update| is_new_custom_ref(update)).count();
    if added == 0 {
        return Ok(true);
    }
    let repository = repository_access::open(backend, access);
    let present = repository.count_custom_references(MAX_CUSTOM_REFS).await?;
    Ok(present + added <= MAX_CUSTOM_REFS)
}

fn is_new_custom_ref(update: &ProposedUpdate) -> bool {
    update.kind == ProposalKind::Create && git::is_custom_reference(&update.reference)
}

/// Checks that the caller may discard commits of a branch, by the rule for a forced push. The caller is authorized
/// again.
///
/// # Errors
/// Returns the errors of [`decide`], and `Error::Forbidden` if a forced push to the branch is not allowed.
pub async fn check_force_push(backend: &Backend, access: &ProjectAccess, branch: &str) -> Result<()> {
    let update = ProposedUpdate::branch(branch, ProposalKind::Update);
    match decide(backend, access, &[update], None).await?.as_slice() {
        [Verdict::Accepted] => Ok(()),
        _ => Err(Error::forbidden_because(FORCE_PUSH_NOT_ALLOWED)),
    }
}

/// Returns whether the caller may discard commits of a branch. A default branch requires a Maintainer, unless its
/// protection allows force pushes of all callers who can push.
#[must_use]
pub fn can_discard_commits(rules: &BranchRules, access: &ProjectAccess, branch: &str) -> bool {
    let is_default = access.project.default_branch.as_deref() == Some(branch);
    rules.can_force_push(branch)
        && (!is_default || rules.is_protected(branch) || access.has_role(Role::Maintainer))
}

/// Returns the text for a pusher whose push is rejected as a whole.
#[must_use]
pub fn rejection_text(error: &Error) -> String {
    match error {
        Error::BySetting { setting, error } => format!("{} (setting: {setting})", rejection_text(error)),
        Error::Unauthorized | Error::InvalidToken(_) => {
            "Your credentials are no longer valid. Sign in and push again.".to_owned()
        }
        Error::Forbidden(Some(reason)) => reason.to_string(),
        Error::Forbidden(None) => "You are not allowed to push code to this project.".to_owned(),
        Error::NotFound(_) => {
            "The project you were looking for could not be found or you don't have permission to view it."
                .to_owned()
        }
        _ => "The server could not check the rules of this project. Push again.".to_owned(),
    }
}

/// Returns the verdict on an update; the rules are those of the caller. Without the rules for its kind, a ref is
/// rejected.
fn verdict(rules: &UpdateRules, access: &ProjectAccess, update: &ProposedUpdate) -> Verdict {
    let verdict = protection_verdict(rules, access, update);
    let is_accepted = matches!(verdict, Verdict::Accepted | Verdict::FastForwardOnly(_));
    let rule = rules.push_rule.as_ref().filter(|_| is_accepted);
    match rule.and_then(|rule| ref_violation(rule, access, update)) {
        Some(text) => Verdict::Violation(text),
        None => verdict,
    }
}

/// Returns why an update violates a push rule, by the name of the ref. The first branches of a repository can have any
/// names, because one of them becomes the default branch.
fn ref_violation(rule: &CompiledRule, access: &ProjectAccess, update: &ProposedUpdate) -> Option<String> {
    let reference = &update.reference;
    match update.kind {
        ProposalKind::Delete if reference.starts_with(TAGS) => rule.tag_deletion_fault(),
        ProposalKind::Delete | ProposalKind::DeleteTag | ProposalKind::Merge => None,
        ProposalKind::Create | ProposalKind::Update | ProposalKind::Replace => {
            let (branch, default) = (
                reference.strip_prefix(BRANCHES)?,
                access.project.default_branch.as_deref()?,
            );
            (branch != default).then(|| rule.branch_fault(branch)).flatten()
        }
    }
}

/// Returns the verdict by the protections of branches and tags.
fn protection_verdict(rules: &UpdateRules, access: &ProjectAccess, update: &ProposedUpdate) -> Verdict {
    let reference = &update.reference;
    if let (Some(branch), Some(rules)) = (reference.strip_prefix(BRANCHES), &rules.branches) {
        return branch_verdict(rules, access, branch, update.kind);
    }
    if let (Some(tag), Some(rules)) = (reference.strip_prefix(TAGS), &rules.tags) {
        return tag_verdict(rules, tag, update.kind);
    }
    if git::is_reserved_reference(reference) {
        return Verdict::Reserved;
    }
    let is_new = update.kind == ProposalKind::Create;
    match !git::is_custom_reference(reference)
        || is_new && git::check_custom_reference_name(reference).is_err()
    {
        true => Verdict::Rejected(format!("The ref name {reference} is not allowed.")),
        false => Verdict::Accepted,
    }
}

fn branch_verdict(rules: &BranchRules, access: &ProjectAccess, branch: &str, kind: ProposalKind) -> Verdict {
    let is_default = access.project.default_branch.as_deref() == Some(branch);
    let can_force = can_discard_commits(rules, access, branch);
    let force_push = || format!("You are not allowed to force push to the branch {branch}.");
    let push = || format!("You are not allowed to push code to the protected branch {branch}.");
    match kind {
        ProposalKind::Delete | ProposalKind::DeleteTag if !rules.can_delete(branch) => {
            Verdict::Rejected(match is_default {
                true => format!("The default branch {branch} cannot be deleted."),
                false => format!("You are not allowed to delete the protected branch {branch} by pushing."),
            })
        }
        ProposalKind::Create if git::check_branch_name(branch).is_err() => {
            Verdict::Rejected(format!("The branch name {branch} is not allowed."))
        }
        ProposalKind::Merge if !rules.can_merge(branch) => Verdict::Rejected(format!(
            "You are not allowed to merge into the protected branch {branch}."
        )),
        ProposalKind::Create | ProposalKind::Update if !rules.can_push(branch) => Verdict::Rejected(push()),
        ProposalKind::Replace if !can_force => Verdict::Rejected(force_push()),
        ProposalKind::Update if !can_force => Verdict::FastForwardOnly(force_push()),
        _ => Verdict::Accepted,
    }
}

fn tag_verdict(rules: &TagRules, tag: &str, kind: ProposalKind) -> Verdict {
    let is_protected = rules.is_protected(tag);
    let text = match kind {
        ProposalKind::Create if git::check_tag_name(tag).is_err() => {
            format!("The tag name {tag} is not allowed.")
        }
        ProposalKind::Create if !rules.can_create(tag) => TAG_NOT_ALLOWED.to_owned(),
        ProposalKind::Update | ProposalKind::Replace | ProposalKind::Merge if is_protected => {
            "Protected tags cannot be updated.".to_owned()
        }
        ProposalKind::Delete if is_protected => format!(
            "The protected tag {tag} cannot be deleted by pushing. A Maintainer can delete the tag with the API."
        ),
        ProposalKind::DeleteTag if !rules.can_delete(tag) => {
            format!("You are not allowed to delete the protected tag {tag}.")
        }
        _ => return Verdict::Accepted,
    };
    Verdict::Rejected(text)
}
