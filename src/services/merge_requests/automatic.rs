//! Merge requests that wait for a pipeline before they are merged.

use std::collections::BTreeMap;

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel};

use super::merging::{Acceptance, another_head, check_open, not_allowed};
use super::row::{self, Row, Wanted};
use super::telling::{Told, tell};
use super::{find, lock};
use crate::entities::merge_requests::{Model, State};
use crate::entities::now;
use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;
use crate::services::{Backend, push_rules};

/// Enters that a merge request is merged as soon as its pipeline succeeds. New commits take that back.
///
/// # Errors
/// 405 where it is not open or not ready any more, 409 where it has other commits than the caller saw.
pub(super) async fn wait(
    backend: &Backend,
    access: &ProjectAccess,
    found: &Model,
    wanted: Acceptance,
) -> Result<Row> {
    let user = access.caller.signed_in()?.id;
    let waiting = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, found.iid).await?;
            check_open(&before)?;
            if before.head_sha != found.head_sha {
                return Err(another_head(&before));
            }
            let mut row = before.clone().into_active_model();
            row.merge_when_pipeline_succeeds = Set(true);
            row.merge_user_id = Set(Some(user));
            if let Some(squash) = wanted.squash {
                row.squash = Set(squash);
            }
            if let Some(remove) = wanted.should_remove_source_branch {
                row.should_remove_source_branch = Set(Some(remove));
            }
            let note = format!(
                "enabled an automatic merge when the pipeline for {} succeeds",
                before.head_sha
            );
            enter(transaction, user, &before, row, note).await
        })
        .await?;
    row::of_one(backend, access, waiting, Wanted::default()).await
}

/// Takes back that a merge request is merged as soon as its pipeline succeeds.
///
/// # Errors
/// 404; 401 for others than its author and who may merge it; 405 where it is not open, 406 where it does not wait.
pub async fn cancel(backend: &Backend, access: &ProjectAccess, iid: i64) -> Result<Row> {
    let user = access.caller.signed_in()?.id;
    let found = find(backend.database.read(), access, iid).await?;
    let rules = push_rules::rules(backend, access).await?;
    if !rules.may_merge(&found.target_branch) && found.author_id != Some(user) {
        return Err(Error::Unauthorized);
    }
    let canceled = backend
        .database
        .transaction(async |transaction| {
            let before = lock(transaction, access, iid).await?;
            if before.state != State::Opened {
                return Err(not_allowed());
            }
            if !before.merge_when_pipeline_succeeds {
                return Err(Error::NotAcceptable(
                    "The merge request does not wait for a pipeline".into(),
                ));
            }
            let mut row = before.clone().into_active_model();
            row.merge_when_pipeline_succeeds = Set(false);
            row.merge_user_id = Set(None);
            enter(
                transaction,
                user,
                &before,
                row,
                "canceled the automatic merge".to_owned(),
            )
            .await
        })
        .await?;
    row::of_one(backend, access, canceled, Wanted::default()).await
}

async fn enter(
    transaction: &DatabaseTransaction,
    user: i64,
    before: &Model,
    mut row: crate::entities::merge_requests::ActiveModel,
    note: String,
) -> Result<Model> {
    row.updated_at = Set(now());
    let after = row.update(transaction).await?;
    let told = Told {
        author: Some(user),
        before: Some(before),
        after: &after,
        notes: vec![note],
        beside: BTreeMap::new(),
        oldrev: None,
    };
    tell(transaction, told).await?;
    Ok(after)
}
