//! Findings of reports in a common form, in which they are stored in a file until the report is parsed
//! completely.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::bounded::truncate;

/// Maximum length of a title, in characters.
pub const MAX_TITLE_LENGTH: usize = 255;
/// Maximum length of a description, in characters.
pub const MAX_DESCRIPTION_LENGTH: usize = 100_000;
/// Maximum number of results in a document.
pub const MAX_RESULTS: usize = 100_000;
/// Maximum total size of the findings of a document, in bytes.
pub const MAX_FINDINGS_BYTES: usize = 64 << 20;

/// Severity of a vulnerability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Informational.
    Info,
    /// Not specified.
    Unknown,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
}

/// Confidence of a scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Ignored: the scanner considers it a false positive.
    Ignore,
    /// Not specified.
    Unknown,
    /// Found by an experimental rule.
    Experimental,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Confirmed.
    Confirmed,
}

/// Type of the scanner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportType {
    /// Static code analysis.
    Sast,
    /// Analysis of dependencies.
    DependencyScanning,
    /// Analysis of container images.
    ContainerScanning,
    /// Test of the running application.
    Dast,
    /// Search for secrets.
    SecretDetection,
    /// Coverage-guided fuzzing.
    CoverageFuzzing,
    /// API fuzzing.
    ApiFuzzing,
    /// Analysis of the images in a cluster.
    ClusterImageScanning,
    /// Other scanners.
    Generic,
}

/// A finding of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The fingerprint in hexadecimal digits.
    pub fingerprint: String,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The severity.
    pub severity: Severity,
    /// The confidence.
    pub confidence: Confidence,
    /// The type of the scanner.
    pub report_type: ReportType,
}

impl Finding {
    /// Returns a digest of the texts.
    #[must_use]
    pub fn text_digest(&self) -> String {
        let description = self.description.as_deref();
        hex::encode(digest(&[&self.title, description.unwrap_or_default()]))
    }
}

/// Returns a digest of texts that depends on the boundaries between them.
pub fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Returns the first non-blank line of these texts, shortened to a title.
pub fn title<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let mut lines = texts
        .into_iter()
        .flatten()
        .filter_map(|text| text.trim().lines().next());
    lines
        .next()
        .map(|line| truncate(line.trim_end(), MAX_TITLE_LENGTH))
}

/// Returns a text as a description, or `None` if it is blank.
pub fn description(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| truncate(text, MAX_DESCRIPTION_LENGTH))
}

/// Parses a severity.
pub fn severity(word: &str) -> Severity {
    match word.trim().to_lowercase().as_str() {
        "info" => Severity::Info,
        "low" => Severity::Low,
        "medium" => Severity::Medium,
        "high" => Severity::High,
        "critical" => Severity::Critical,
        _ => Severity::Unknown,
    }
}

/// Parses a confidence.
pub fn confidence(word: &str) -> Confidence {
    match word.trim().to_lowercase().as_str() {
        "ignore" => Confidence::Ignore,
        "experimental" => Confidence::Experimental,
        "low" => Confidence::Low,
        "medium" => Confidence::Medium,
        "high" => Confidence::High,
        "confirmed" => Confidence::Confirmed,
        _ => Confidence::Unknown,
    }
}

/// Parses a type of scanner, if it is known.
pub fn report_type(word: &str) -> Option<ReportType> {
    Some(match word.trim().to_lowercase().as_str() {
        "sast" => ReportType::Sast,
        "dependency_scanning" => ReportType::DependencyScanning,
        "container_scanning" => ReportType::ContainerScanning,
        "dast" => ReportType::Dast,
        "secret_detection" => ReportType::SecretDetection,
        "coverage_fuzzing" => ReportType::CoverageFuzzing,
        "api_fuzzing" => ReportType::ApiFuzzing,
        "cluster_image_scanning" => ReportType::ClusterImageScanning,
        "generic" => ReportType::Generic,
        _ => return None,
    })
}

/// Returns the name of a type of scanner.
pub fn report_type_name(kind: ReportType) -> &'static str {
    match kind {
        ReportType::Sast => "sast",
        ReportType::DependencyScanning => "dependency_scanning",
        ReportType::ContainerScanning => "container_scanning",
        ReportType::Dast => "dast",
        ReportType::SecretDetection => "secret_detection",
        ReportType::CoverageFuzzing => "coverage_fuzzing",
        ReportType::ApiFuzzing => "api_fuzzing",
        ReportType::ClusterImageScanning => "cluster_image_scanning",
        ReportType::Generic => "generic",
    }
}

/// The deduplicated findings of a report, one per line in a file.
pub struct Findings<'w> {
    file: BufWriter<&'w mut dyn Write>,
    known: HashSet<[u8; 32]>,
    results: usize,
    written_bytes: usize,
    filled_bytes: usize,
    failure: Option<io::Error>,
}

impl<'w> Findings<'w> {
    /// Creates an empty collection that is written to this file.
    pub fn new(file: &'w mut dyn Write) -> Self {
        Self {
            file: BufWriter::new(file),
            known: HashSet::new(),
            results: 0,
            written_bytes: 0,
            filled_bytes: 0,
            failure: None,
        }
    }

    /// Counts a result, including ignored ones.
    ///
    /// # Errors
    /// Returns an error if there are too many.
    pub fn count<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.results += 1;
        match self.results > MAX_RESULTS {
            true => Err(E::custom(format_args!(
                "too many results (maximum is {MAX_RESULTS})"
            ))),
            false => Ok(()),
        }
    }

    /// Counts the size of a message with filled placeholders. Duplicates are not written, but filled too.
    ///
    /// # Errors
    /// Returns an error if the messages are too large together.
    pub fn count_filled<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.filled_bytes += bytes;
        check_size(self.filled_bytes)
    }

    /// Adds a finding by its digest, unless it exists. Many results can refer to the same text of a rule, so the
    /// findings can be much larger than the document.
    ///
    /// # Errors
    /// Returns an error if the findings are too large together, or if the file cannot be written; [`Self::finish`]
    /// returns the cause of a failed write.
    pub fn add<E: serde::de::Error>(
        &mut self,
        fingerprint: [u8; 32],
        finding: impl FnOnce(String) -> Finding,
    ) -> Result<(), E> {
        if !self.known.insert(fingerprint) {
            return Ok(());
        }
        let finding = finding(hex::encode(fingerprint));
        let mut line = serde_json::to_vec(&finding).map_err(E::custom)?;
        line.push(b'\n');
        self.written_bytes += line.len();
        check_size::<E>(self.written_bytes)?;
        self.file.write_all(&line).map_err(|error| {
            self.failure = Some(error);
            E::custom("the findings cannot be stored")
        })
    }

    /// Writes all findings to the file.
    ///
    /// # Errors
    /// Returns the error of a failed write.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failure {
            Some(failure) => Err(failure),
            None => self.file.flush(),
        }
    }
}

/// Rejects findings that are too large together.
fn check_size<E: serde::de::Error>(bytes: usize) -> Result<(), E> {
    match bytes > MAX_FINDINGS_BYTES {
        true => Err(E::custom(format_args!(
            "the findings are too large (maximum is {} MiB)",
            MAX_FINDINGS_BYTES >> 20
        ))),
        false => Ok(()),
    }
}
