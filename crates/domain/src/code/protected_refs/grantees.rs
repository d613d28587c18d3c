//! Checks that users, groups and deploy keys have access to a project, and stores their grants.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter,
};
use storage::database::Violation;
use storage::entities::access as levels;
use storage::entities::protected_ref_grants::{self as grants, RefAction};
use storage::entities::ref_rules::{Grantee, RefRule, groups_with_access};
use storage::entities::{namespaces, now, project_deploy_keys, projects};

use super::access_lists::{AccessList, label};
use crate::kernel::error::{Error, Result};

/// The row to which grants belong.
#[derive(Debug, Clone, Copy)]
pub(super) enum GrantOwner {
    /// A protected branch.
    Branch(i64),
    /// A protected tag.
    Tag(i64),
}

/// Checks the grantees that lists add.
///
/// # Errors
/// Returns `Error::Unprocessable` if a user is not a member of the project, a group has no access to the project, or a
/// deploy key cannot push to the project.
pub(super) async fn check_added(
    db: &impl ConnectionTrait,
    project: &projects::Model,
    lists: &[AccessList],
) -> Result<()> {
    for list in lists {
        for grantee in list.added() {
            check(db, project, list.action(), grantee).await?;
        }
    }
    Ok(())
}

async fn check(
    db: &impl ConnectionTrait,
    project: &projects::Model,
    action: RefAction,
    grantee: Grantee,
) -> Result<()> {
    let (is_known, text) = match grantee {
        Grantee::User(id) => {
            let level = levels::project_level(db, id, project.id, now().date_naive()).await?;
            (level.is_some(), "user is not a member of the project")
        }
        Grantee::Group(id) => {
            let today = now().date_naive();
            let group = namespaces::Entity::find_by_id(id).filter(groups_with_access(
                project.id,
                project.namespace_id,
                today,
            ));
            (
                group.count(db).await? > 0,
                "group does not have access to the project",
            )
        }
        Grantee::DeployKey(id) => {
            let key = project_deploy_keys::of_project(project.id)
                .filter(project_deploy_keys::Column::DeployKeyId.eq(id))
                .filter(project_deploy_keys::Column::CanPush.eq(true));
            (key.count(db).await? > 0, "deploy key cannot push to the project")
        }
    };
    match is_known {
        true => Ok(()),
        false => Err(Error::Unprocessable(format!("{} {text}", label(action)).into())),
    }
}

/// Stores the changes of the grants of a rule; `former` is the stored rule, if it exists. Returns whether grants changed.
pub(super) async fn save(
    transaction: &DatabaseTransaction,
    owner: GrantOwner,
    former: Option<&RefRule>,
    lists: &[AccessList],
) -> Result<bool> {
    let removed: Vec<i64> = lists
        .iter()
        .flat_map(|list| former.map(|rule| list.removed(rule)).unwrap_or_default())
        .collect();
    let added: Vec<grants::ActiveModel> = lists
        .iter()
        .flat_map(|list| {
            list.added()
                .map(|grantee| row(owner, list.action(), grantee))
                .collect::<Vec<_>>()
        })
        .collect();
    let is_changed = !removed.is_empty() || !added.is_empty();
    if !removed.is_empty() {
        grants::Entity::delete_many()
            .filter(grants::Column::Id.is_in(removed))
            .exec(transaction)
            .await?;
    }
    if !added.is_empty() {
        let inserted = grants::Entity::insert_many(added).exec(transaction).await;
        inserted.map_err(insert_error)?;
    }
    Ok(is_changed)
}

/// Maps a database error of an insert: the user, group or deploy key may be deleted at the same time.
fn insert_error(error: DbErr) -> Error {
    match Violation::of(&error) {
        Some(Violation::ForeignKey(_)) => {
            Error::Unprocessable("A user, group or deploy key of the access levels was deleted".into())
        }
        _ => error.into(),
    }
}

fn row(owner: GrantOwner, action: RefAction, grantee: Grantee) -> grants::ActiveModel {
    let (branch, tag) = match owner {
        GrantOwner::Branch(id) => (Some(id), None),
        GrantOwner::Tag(id) => (None, Some(id)),
    };
    let (user, group, deploy_key) = match grantee {
        Grantee::User(id) => (Some(id), None, None),
        Grantee::Group(id) => (None, Some(id), None),
        Grantee::DeployKey(id) => (None, None, Some(id)),
    };
    grants::ActiveModel {
        protected_branch_id: Set(branch),
        protected_tag_id: Set(tag),
        action: Set(action),
        user_id: Set(user),
        group_id: Set(group),
        deploy_key_id: Set(deploy_key),
        ..Default::default()
    }
}
