//! Scanner reports: SARIF 2.1.0, and the security reports of the reference service.
//!
//! A report may be large, so it is never in memory as a whole. It is parsed twice. The first pass determines the format and
//! the rules of SARIF, which may follow the results. The second pass converts the results to findings, which are written to
//! an output.

mod bounded;
mod document;
mod error;
mod finding;
mod sarif;
mod security;
#[cfg(test)]
mod tests;

use std::io::{Read, Seek, Write};

use bounded::{BoundedString, Lenient};
use document::{DocumentPosition, ObjectReader, ObjectSeed, parse};
use finding::Findings;
use sarif::rules::SarifRules;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};

pub use error::ReportError;
pub use finding::{Confidence, Finding, MAX_DESCRIPTION_LENGTH, MAX_TITLE_LENGTH, ReportType, Severity};

/// The supported version of SARIF.
const SARIF: &str = "2.1.0";

/// Parses a report and writes its deduplicated findings to `output`, one JSON text per line.
///
/// # Errors
/// Returns [`ReportError::Invalid`] and [`ReportError::Attribute`] if the document is invalid, and [`ReportError::Io`] if
/// reading or writing fails.
pub fn read_report(report: &mut (impl Read + Seek), output: &mut dyn Write) -> Result<(), ReportError> {
    let mut findings = Findings::new(output);
    let mut head = DocumentHead::default();
    parse(report, &DocumentPosition::default(), &mut head)?;
    let read = match head.format()? {
        ReportFormat::Sarif => {
            let mut results = sarif::ResultReader::new(&head.rules, &mut findings);
            parse(report, &DocumentPosition::default(), &mut results)
        }
        ReportFormat::Security(kind) => {
            let mut all = security::VulnerabilityReader::new(kind, &mut findings);
            parse(report, &DocumentPosition::default(), &mut all)
        }
    };
    // A failed write is not a fault of the document.
    findings.finish()?;
    read
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
    fn format(&self) -> Result<ReportFormat, ReportError> {
        match (self.runs, self.vulnerabilities) {
            (true, _) => match self.version.as_ref().and_then(Lenient::text) {
                Some(SARIF) => Ok(ReportFormat::Sarif),
                _ => Err(ReportError::Attribute {
                    name: "version",
                    text: format!("/version: must be \"{SARIF}\""),
                }),
            },
            (false, true) => Ok(ReportFormat::Security(self.kind)),
            (false, false) => {
                let text = "must be a SARIF report with `runs` or a security report with `vulnerabilities`";
                Err(ReportError::Attribute {
                    name: "base",
                    text: text.to_owned(),
                })
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
