//! Stores the findings of a report: in one transaction, many per statement.

use std::collections::HashMap;
use std::fs::File;

use chrono::{DateTime, Utc};
use parsers::reports::{self, Finding};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::now;
use storage::entities::vulnerabilities::{
    ActiveModel, Column, Confidence, Entity, ReportType, Severity, VulnerabilityState,
};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::ReportResult;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::spaces::projects;

/// Maximum number of findings in one statement.
const BATCH: usize = 500;
/// Maximum number of bytes of the file in one statement; a single finding may exceed it.
const BATCH_BYTES: usize = 2 << 20;

/// Columns of an existing vulnerability.
struct KnownVulnerability {
    text_digest: String,
    severity: Severity,
    confidence: Confidence,
    last_edited_by_id: Option<i64>,
    last_edited_at: Option<DateTime<Utc>>,
}

/// Stores the findings in a file with one per line.
///
/// # Errors
/// Returns `NotFound` if the project was deleted.
pub async fn store(backend: &Backend, access: &ProjectAccess, findings: File) -> Result<ReportResult> {
    let user_id = access.caller.signed_in()?.id;
    let project_id = access.project.id;
    let mut lines = BufReader::new(tokio::fs::File::from_std(findings)).lines();
    backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, project_id).await?;
            let mut outcome = ReportResult::default();
            let (mut batch, mut size) = (Vec::with_capacity(BATCH), 0);
            while let Some(line) = lines.next_line().await.map_err(Error::internal)? {
                size += line.len();
                batch.push(serde_json::from_str::<Finding>(&line).map_err(Error::internal)?);
                if batch.len() == BATCH || size > BATCH_BYTES {
                    upsert(transaction, project_id, user_id, &mut outcome, batch.split_off(0)).await?;
                    size = 0;
                }
            }
            upsert(transaction, project_id, user_id, &mut outcome, batch).await?;
            Ok(outcome)
        })
        .await
}

/// Upserts a batch of findings in one statement; the project is locked.
async fn upsert(
    transaction: &DatabaseTransaction,
    project_id: i64,
    user_id: i64,
    outcome: &mut ReportResult,
    batch: Vec<Finding>,
) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let known = known(transaction, project_id, &batch).await?;
    let at = now();
    let mut rows = Vec::new();
    for finding in batch {
        let (severity, confidence) = (severity(finding.severity), confidence(finding.confidence));
        let text_digest = finding.text_digest();
        let before = known.get(&finding.fingerprint);
        let edited = before.is_some_and(|before| before.text_digest != text_digest);
        let same = before
            .is_some_and(|before| !edited && (before.severity, before.confidence) == (severity, confidence));
        match before {
            None => outcome.created += 1,
            Some(_) if same => outcome.unchanged += 1,
            Some(_) => outcome.updated += 1,
        }
        if same {
            continue;
        }
        let (editor, edited_at) = match before {
            _ if edited => (Some(user_id), Some(at)),
            before => before.map_or((None, None), |one| (one.last_edited_by_id, one.last_edited_at)),
        };
        rows.push(ActiveModel {
            project_id: Set(project_id),
            fingerprint: Set(finding.fingerprint),
            title: Set(finding.title),
            description: Set(finding.description),
            text_digest: Set(text_digest),
            state: Set(VulnerabilityState::Opened),
            severity: Set(severity),
            confidence: Set(confidence),
            report_type: Set(report_type(finding.report_type)),
            author_id: Set(Some(user_id)),
            updated_by_id: Set(before.map(|_| user_id)),
            last_edited_by_id: Set(editor),
            created_at: Set(at),
            updated_at: Set(at),
            last_edited_at: Set(edited_at),
            ..Default::default()
        });
    }
    if rows.is_empty() {
        return Ok(());
    }
    // The state is not updated: a report never reopens a vulnerability.
    let change = OnConflict::columns([Column::ProjectId, Column::Fingerprint])
        .update_columns([
            Column::Title,
            Column::Description,
            Column::TextDigest,
            Column::Severity,
            Column::Confidence,
            Column::UpdatedById,
            Column::LastEditedById,
            Column::UpdatedAt,
            Column::LastEditedAt,
        ])
        .to_owned();
    Entity::insert_many(rows)
        .on_conflict(change)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}

/// Returns the existing vulnerabilities of a project, by fingerprint.
async fn known(
    transaction: &DatabaseTransaction,
    project_id: i64,
    batch: &[Finding],
) -> Result<HashMap<String, KnownVulnerability>> {
    type Columns = (
        String,
        String,
        Severity,
        Confidence,
        Option<i64>,
        Option<DateTime<Utc>>,
    );
    let rows: Vec<Columns> = Entity::find()
        .select_only()
        .columns([
            Column::Fingerprint,
            Column::TextDigest,
            Column::Severity,
            Column::Confidence,
            Column::LastEditedById,
            Column::LastEditedAt,
        ])
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::Fingerprint.is_in(batch.iter().map(|finding| finding.fingerprint.as_str())))
        .into_tuple()
        .all(transaction)
        .await?;
    let known = rows.into_iter().map(
        |(fingerprint, text_digest, severity, confidence, last_edited_by_id, last_edited_at)| {
            let known = KnownVulnerability {
                text_digest,
                severity,
                confidence,
                last_edited_by_id,
                last_edited_at,
            };
            (fingerprint, known)
        },
    );
    Ok(known.collect())
}

/// Converts the severity of a finding to the stored one.
fn severity(severity: reports::Severity) -> Severity {
    match severity {
        reports::Severity::Info => Severity::Info,
        reports::Severity::Unknown => Severity::Unknown,
        reports::Severity::Low => Severity::Low,
        reports::Severity::Medium => Severity::Medium,
        reports::Severity::High => Severity::High,
        reports::Severity::Critical => Severity::Critical,
    }
}

/// Converts the confidence of a finding to the stored one.
fn confidence(confidence: reports::Confidence) -> Confidence {
    match confidence {
        reports::Confidence::Ignore => Confidence::Ignore,
        reports::Confidence::Unknown => Confidence::Unknown,
        reports::Confidence::Experimental => Confidence::Experimental,
        reports::Confidence::Low => Confidence::Low,
        reports::Confidence::Medium => Confidence::Medium,
        reports::Confidence::High => Confidence::High,
        reports::Confidence::Confirmed => Confidence::Confirmed,
    }
}

/// Converts the type of a finding to the stored one.
fn report_type(report_type: reports::ReportType) -> ReportType {
    match report_type {
        reports::ReportType::Sast => ReportType::Sast,
        reports::ReportType::DependencyScanning => ReportType::DependencyScanning,
        reports::ReportType::ContainerScanning => ReportType::ContainerScanning,
        reports::ReportType::Dast => ReportType::Dast,
        reports::ReportType::SecretDetection => ReportType::SecretDetection,
        reports::ReportType::CoverageFuzzing => ReportType::CoverageFuzzing,
        reports::ReportType::ApiFuzzing => ReportType::ApiFuzzing,
        reports::ReportType::ClusterImageScanning => ReportType::ClusterImageScanning,
        reports::ReportType::Generic => ReportType::Generic,
    }
}
