//! Rules of code owners for an open merge request, by the file of its target branch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git::{NewObjects, Oid};
use parsers::code_owners::{OwnedPattern, Owner};
use sea_orm::sea_query::{Expr, Query, SelectStatement};
use sea_orm::{ColumnTrait, ConnectionTrait};
use storage::entities::merge_requests::{MergeRequestState, Model};
use storage::entities::namespaces::{self, NamespaceKind};
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows, bigint};
use storage::entities::{fold, user_emails, users};

use crate::code::code_owners;
use crate::kernel::Backend;
use crate::kernel::cache::{ChangeOwners, ComparedCommits};
use crate::kernel::error::{Error, Result};
use crate::review::approvals::owner_rules::{OwnerApprovers, OwnerRule, OwnerRules, UNKNOWN_OWNERS};
use crate::review::merge_requests::branch_heads::{self, BranchRef};
use crate::review::merge_requests::head_refs::{self, oid};

/// Returns the rules of a merge request. Closed and merged ones, and plans without approval rules, have none.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn rules(backend: &Backend, merge_request: &Model) -> Result<OwnerRules> {
    if merge_request.state != MergeRequestState::Opened || !code_owners::is_available(backend) {
        return Ok(OwnerRules::default());
    }
    let Some(target) = branch_heads::head(backend, BranchRef::target(merge_request)).await? else {
        return Ok(OwnerRules::default());
    };
    let found = find(backend, merge_request, target).await?;
    let rules = match found.as_ref() {
        ChangeOwners::Known(owned) => resolve(backend, merge_request.id, owned).await?,
        ChangeOwners::Unknown(_) => vec![OwnerRule {
            id: OwnerRule::id_of(merge_request.id, None, ""),
            name: UNKNOWN_OWNERS.to_owned(),
            section: None,
            approvals: 1,
            approvers: OwnerApprovers::All,
        }],
    };
    Ok(OwnerRules {
        rules,
        target: Some(target),
    })
}

/// Returns the owners of the changes of a merge request, from the cache if they are known.
async fn find(backend: &Backend, merge_request: &Model, target: Oid) -> Result<Arc<ChangeOwners>> {
    let commits = ComparedCommits {
        target,
        head: oid(&merge_request.head_sha)?,
    };
    if let Some(known) = backend.caches.change_owners.get(&commits) {
        return Ok(known);
    }
    let repository = head_refs::repository(backend, merge_request.target_project_id);
    let owners = match code_owners::find_file(&repository, target).await? {
        None => ChangeOwners::none(),
        Some(file) => {
            let (repository, head) = match head_refs::ensure(backend, merge_request).await {
                // Without its commits, a merge request cannot be merged.
                Err(Error::NotFound(_)) => return Ok(Arc::new(ChangeOwners::none())),
                prepared => prepared?,
            };
            // Branches with unrelated histories cannot be merged.
            let base = repository.merge_base(vec![target, head]).await?;
            let objects = NewObjects::stored(repository, &[]);
            code_owners::of_change(file, &objects, (base.unwrap_or(target), head)).await?
        }
    };
    let owners = Arc::new(owners);
    backend.caches.change_owners.insert(commits, &owners);
    Ok(owners)
}

/// Returns the rules for lines of the file, with the IDs of their users and groups. Unknown owners are ignored.
async fn resolve(backend: &Backend, merge_request_id: i64, owned: &[OwnedPattern]) -> Result<Vec<OwnerRule>> {
    if owned.is_empty() {
        return Ok(Vec::new());
    }
    let known = Principals::load(backend.database.read(), owned).await?;
    let rules = owned.iter().map(|owned| {
        let section = owned.section.as_deref();
        OwnerRule {
            id: OwnerRule::id_of(merge_request_id, section, &owned.pattern),
            name: owned.pattern.clone(),
            section: owned.section.clone(),
            approvals: if owned.is_optional { 0 } else { owned.approvals },
            approvers: known.approvers(&owned.owners),
        }
    });
    Ok(rules.collect())
}

/// Users and groups by the keys of their names and email addresses. A user and a group can have the same name.
struct Principals {
    usernames: BTreeMap<String, i64>,
    emails: BTreeMap<String, i64>,
    groups: BTreeMap<String, i64>,
}

impl Principals {
    /// Looks up the owners of all lines in one statement.
    async fn load(db: &impl ConnectionTrait, owned: &[OwnedPattern]) -> Result<Self> {
        let (mut names, mut emails) = (BTreeSet::new(), BTreeSet::new());
        for owner in owned.iter().flat_map(|owned| &owned.owners) {
            match owner {
                Owner::Name(name) => names.insert(fold(name)),
                Owner::Email(email) => emails.insert(fold(email)),
            };
        }
        let mut related = RelatedRows::default();
        let mut add = |keys: &BTreeSet<String>, part: fn(Vec<String>) -> RelatedPart| {
            related.add((!keys.is_empty()).then(|| part(keys.iter().cloned().collect())))
        };
        let parts = [
            add(&names, usernames_part),
            add(&emails, emails_part),
            add(&emails, other_emails_part),
            add(&names, groups_part),
        ];
        let mut rows = related.load(db).await?;
        let [usernames, emails, other_emails, groups] = parts.map(|part| ids_by_key(&mut rows, part));
        Ok(Self {
            usernames,
            emails: other_emails.into_iter().chain(emails).collect(),
            groups,
        })
    }

    fn approvers(&self, owners: &[Owner]) -> OwnerApprovers {
        let (mut user_ids, mut group_ids) = (BTreeSet::new(), BTreeSet::new());
        for owner in owners {
            match owner {
                Owner::Name(name) => {
                    let key = fold(name);
                    user_ids.extend(self.usernames.get(&key));
                    group_ids.extend(self.groups.get(&key));
                }
                Owner::Email(email) => user_ids.extend(self.emails.get(&fold(email))),
            }
        }
        OwnerApprovers::Of { user_ids, group_ids }
    }
}

fn ids_by_key(rows: &mut RelatedRowSets, part: PartKey) -> BTreeMap<String, i64> {
    let rows = rows.take(part).into_iter().filter_map(|row| {
        let [key, ..] = row.texts;
        Some((key?, row.id))
    });
    rows.collect()
}

fn part(rows: SelectStatement, id: Expr, key: Expr) -> RelatedPart {
    RelatedPart::new(rows, bigint(Expr::Constant(0.into())))
        .with_id(id)
        .with_texts([key])
}

fn usernames_part(keys: Vec<String>) -> RelatedPart {
    use users::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::UsernameKey.is_in(keys))
        .take();
    part(rows, Column::Id.into_expr(), Column::UsernameKey.into_expr())
}

fn emails_part(keys: Vec<String>) -> RelatedPart {
    use users::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::EmailKey.is_in(keys))
        .and_where(Column::ConfirmedAt.is_not_null())
        .take();
    part(rows, Column::Id.into_expr(), Column::EmailKey.into_expr())
}

fn other_emails_part(keys: Vec<String>) -> RelatedPart {
    use user_emails::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::EmailKey.is_in(keys))
        .and_where(Column::ConfirmedAt.is_not_null())
        .take();
    part(rows, Column::UserId.into_expr(), Column::EmailKey.into_expr())
}

fn groups_part(keys: Vec<String>) -> RelatedPart {
    use namespaces::{Column, Entity};
    let rows = Query::select()
        .from(Entity)
        .and_where(Column::FullPathKey.is_in(keys))
        .and_where(Column::Kind.eq(NamespaceKind::Group))
        .take();
    part(rows, Column::Id.into_expr(), Column::FullPathKey.into_expr())
}
