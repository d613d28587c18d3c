//! Scanner reports that create vulnerabilities: SARIF 2.1.0, and the security reports of the reference
//! service.
//!
//! A report may be large, so it is never in memory as a whole. The body is stored in a file and parsed twice.
//! The first pass determines the format and the rules of SARIF, which may follow the results. The second pass
//! converts the results to a common form ([`finding`]) in another file. Only a completely valid report is
//! stored ([`keeping`]), in one transaction.

mod bounded;
mod finding;
mod parser;
mod sarif;
mod security;
mod store;
#[cfg(test)]
mod tests;

use std::fs::File;

use bounded::{BoundedString, Lenient};
use finding::Findings;
use sarif::rules::SarifRules;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};
use storage::entities::vulnerabilities::ReportType;

use crate::accounts::uploads::UploadedFile;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::security::vulnerabilities::reports::parser::{DocumentPosition, ObjectReader, ObjectSeed, parse};

/// The supported version of SARIF.
const SARIF: &str = "2.1.0";

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
/// limit. Returns `NotFound` if the project was deleted.
pub async fn ingest(backend: &Backend, access: &ProjectAccess, report: UploadedFile) -> Result<ReportResult> {
    let spool = backend.objects.spool().map_err(Error::internal)?;
    let file = report.file.into_std().await;
    let read = tokio::task::spawn_blocking(move || read(file, spool)).await;
    let findings = read.map_err(Error::internal)??;
    store::store(backend, access, findings).await
}

/// Parses a report and returns a file with its deduplicated findings.
fn read(mut report: File, spool: File) -> Result<File> {
    let mut findings = Findings::new(spool);
    let mut head = DocumentHead::default();
    parse(&mut report, &DocumentPosition::default(), &mut head)?;
    let read = match head.format()? {
        ReportFormat::Sarif => {
            let mut results = sarif::ResultReader::new(&head.rules, &mut findings);
            parse(&mut report, &DocumentPosition::default(), &mut results)
        }
        ReportFormat::Security(kind) => {
            let mut all = security::VulnerabilityReader::new(kind, &mut findings);
            parse(&mut report, &DocumentPosition::default(), &mut all)
        }
    };
    // A failed write is an internal error, not a fault of the document.
    let file = findings.finish().map_err(Error::internal)?;
    read.map(|()| file)
}

/// Format of a document.
enum ReportFormat {
    Sarif,
    /// A security report with this default type of scanner.
    Security(Option<ReportType>),
}

/// Data of a document that the parser of its results needs.
#[derive(Default)]
struct DocumentHead {
    version: Option<Lenient>,
    runs: bool,
    vulnerabilities: bool,
    kind: Option<ReportType>,
    rules: SarifRules,
}

impl DocumentHead {
    fn format(&self) -> Result<ReportFormat> {
        match (self.runs, self.vulnerabilities) {
            (true, _) => match self.version.as_ref().and_then(Lenient::text) {
                Some(SARIF) => Ok(ReportFormat::Sarif),
                _ => Err(Error::attribute(
                    "version",
                    format!("/version: must be \"{SARIF}\""),
                )),
            },
            (false, true) => Ok(ReportFormat::Security(self.kind)),
            (false, false) => {
                let text = "must be a SARIF report with `runs` or a security report with `vulnerabilities`";
                Err(Error::attribute("base", text))
            }
        }
    }
}

/// The `scan` object of a security report.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Scan {
    r#type: Option<BoundedString<64>>,
}

impl ObjectReader for DocumentHead {
    const KEYS: &'static [&'static str] = &["version", "runs", "scan", "vulnerabilities"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        match key {
            "version" => self.version = Some(map.next_value()?),
            "runs" => {
                self.runs = true;
                map.next_value_seed(ObjectSeed::each(&mut self.rules, trail))?;
            }
            "scan" => {
                let scan: Option<Scan> = map.next_value()?;
                self.kind = scan.and_then(|scan| finding::report_type(&scan.r#type?.0));
            }
            _ => {
                self.vulnerabilities = true;
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}
