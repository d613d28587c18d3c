//! Reports of scanners, which bring vulnerabilities: SARIF 2.1.0, and the security reports of the reference service.
//!
//! A report may be large, so that it is nowhere in memory as a whole. It is read twice from the file that the body became: first
//! for what it is and for the rules of SARIF, which may stand behind the results; then for the results, which go to another
//! file in one form ([`finding`]). Only when all of it made sense is it entered ([`keeping`]), in one transaction.

mod bounded;
mod finding;
mod keeping;
mod reading;
mod sarif;
mod security;
#[cfg(test)]
mod tests;

use std::fs::File;

use bounded::{Loose, Text};
use finding::Findings;
use reading::{Entries, Object, Trail, parse};
use sarif::rules::Rules;
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};
use storage::entities::vulnerabilities::ReportType;

use crate::error::{Error, Result};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::uploads::UploadedFile;

/// The version of SARIF that is read.
const SARIF: &str = "2.1.0";

/// What became of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// How many vulnerabilities are new.
    pub created: i64,
    /// How many were there, and are reported in another way.
    pub updated: i64,
    /// How many were there as they are reported.
    pub unchanged: i64,
}

/// Takes a report as a whole, or not at all.
///
/// # Errors
/// 400 for a document that is no JSON, none of the formats, breaks its own or is too much; 404 where the project is gone.
pub async fn take(backend: &Backend, access: &ProjectAccess, report: UploadedFile) -> Result<Outcome> {
    let spool = backend.objects.spool().map_err(Error::internal)?;
    let file = report.file.into_std().await;
    let read = tokio::task::spawn_blocking(move || read(file, spool)).await;
    let findings = read.map_err(Error::internal)??;
    keeping::keep(backend, access, findings).await
}

/// Reads a report; its findings, each once, are in the file that is answered.
fn read(mut report: File, spool: File) -> Result<File> {
    let mut findings = Findings::new(spool);
    let mut head = Head::default();
    parse(&mut report, &Trail::default(), &mut head)?;
    let read = match head.format()? {
        Format::Sarif => {
            let mut results = sarif::Results::new(&head.rules, &mut findings);
            parse(&mut report, &Trail::default(), &mut results)
        }
        Format::Security(kind) => {
            let mut all = security::Vulnerabilities::new(kind, &mut findings);
            parse(&mut report, &Trail::default(), &mut all)
        }
    };
    // A disk that is full is no fault of the document.
    let file = findings.finish().map_err(Error::internal)?;
    read.map(|()| file)
}

/// What a document is.
enum Format {
    Sarif,
    /// Of this kind, unless a vulnerability says another.
    Security(Option<ReportType>),
}

/// What is to be known of a document before its results are read.
#[derive(Default)]
struct Head {
    version: Option<Loose>,
    runs: bool,
    vulnerabilities: bool,
    kind: Option<ReportType>,
    rules: Rules,
}

impl Head {
    fn format(&self) -> Result<Format> {
        match (self.runs, self.vulnerabilities) {
            (true, _) => match self.version.as_ref().and_then(Loose::text) {
                Some(SARIF) => Ok(Format::Sarif),
                _ => Err(Error::attribute(
                    "version",
                    format!("/version: must be \"{SARIF}\""),
                )),
            },
            (false, true) => Ok(Format::Security(self.kind)),
            (false, false) => {
                let text = "must be a SARIF report with `runs` or a security report with `vulnerabilities`";
                Err(Error::attribute("base", text))
            }
        }
    }
}

/// The scan of a security report.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Scan {
    r#type: Option<Text<64>>,
}

impl Object for Head {
    const KEYS: &'static [&'static str] = &["version", "runs", "scan", "vulnerabilities"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &Trail,
    ) -> Result<(), A::Error> {
        match key {
            "version" => self.version = Some(map.next_value()?),
            "runs" => {
                self.runs = true;
                map.next_value_seed(Entries::each(&mut self.rules, trail))?;
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
