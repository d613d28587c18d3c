//! Scanner reports that create vulnerabilities: SARIF 2.1.0, and the security reports of the reference
//! service.
//!
//! A report may be large, so it is never in memory as a whole. The body is stored in a file and parsed twice.
//! The first pass determines the format and the rules of SARIF, which may follow the results. The second pass
//! converts the results to a common form ([`parsers::reports`]) in another file. Only a completely valid report is
//! stored ([`store`]), in one transaction.

mod store;

use std::fs::File;
use std::io::Seek;

use parsers::reports::{ReportError, read_report};

use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Result of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportResult {
    /// Number of new vulnerabilities.
    pub created: i64,
    /// Number of existing vulnerabilities that changed.
    pub updated: i64,
    /// Number of existing vulnerabilities without a change.
    pub unchanged: i64,
}

/// Processes a report atomically.
///
/// # Errors
/// Returns a validation error if the document is not JSON, has an unknown or invalid format or exceeds a
/// limit. Returns `NotFound` if the project was deleted, and `Forbidden` if the vulnerabilities are not available to
/// the caller.
pub async fn ingest(backend: &Backend, access: &ProjectAccess, report: UploadedFile) -> Result<ReportResult> {
    access.check_security_and_compliance()?;
    let spool = backend.objects.spool().map_err(Error::internal)?;
    let slot = backend.budgets.parser().await?;
    let file = report.file.into_std().await;
    let read = move || {
        // The transaction can wait for the project and needs no parser.
        let _slot = slot;
        read(file, spool)
    };
    let read = tokio::task::spawn_blocking(read).await;
    let findings = read.map_err(Error::internal)??;
    store::store(backend, access, findings).await
}

/// Parses a report and returns a file with its deduplicated findings.
fn read(mut report: File, mut spool: File) -> Result<File> {
    read_report(&mut report, &mut spool).map_err(|error| match error {
        ReportError::Invalid(text) => Error::parameter(text),
        ReportError::Attribute { name, text } => Error::attribute(name, text),
        ReportError::Io(error) => Error::internal(error),
    })?;
    spool.rewind().map_err(Error::internal)?;
    Ok(spool)
}
