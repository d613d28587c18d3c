//! What a report tells of, whatever its format: one form, in which it goes to a file until all of it was read.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use storage::entities::vulnerabilities::{Confidence, ReportType, Severity};

use super::bounded::cut;

/// The longest title, in characters.
pub const LONGEST_TITLE: usize = 255;
/// The longest description, in characters.
pub const LONGEST_DESCRIPTION: usize = 100_000;
/// How many results a document may have.
pub const MOST_RESULTS: usize = 100_000;

/// One of those that a report tells of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is known by, in hexadecimal digits.
    pub fingerprint: String,
    /// What it is, in a line.
    pub title: String,
    /// What it is, at length.
    pub description: Option<String>,
    /// How bad it is.
    pub severity: Severity,
    /// How sure the scanner is.
    pub confidence: Confidence,
    /// What kind of scanner found it.
    pub report_type: ReportType,
}

impl Finding {
    /// A digest of the texts.
    pub fn text_digest(&self) -> String {
        let description = self.description.as_deref();
        hex::encode(digest(&[&self.title, description.unwrap_or_default()]))
    }
}

/// A digest of texts, which keeps apart where each ends.
pub fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The first line of the first text that has one.
pub fn title<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> Option<String> {
    let mut lines = texts
        .into_iter()
        .flatten()
        .filter_map(|text| text.trim().lines().next());
    lines.next().map(|line| cut(line.trim_end(), LONGEST_TITLE))
}

/// A text as a description; none when there is nothing in it.
pub fn description(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| cut(text, LONGEST_DESCRIPTION))
}

/// The word for how bad something is.
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

/// The word for how sure a scanner is.
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

/// The word for a kind of scanner, if there is such a kind.
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

/// The word of a kind of scanner.
pub fn word(kind: ReportType) -> &'static str {
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

/// The findings of a report, each once, a line each in a file.
pub struct Findings {
    file: BufWriter<File>,
    known: HashSet<[u8; 32]>,
    results: usize,
    failure: Option<io::Error>,
}

impl Findings {
    /// None yet, to be written to this file.
    pub fn new(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            known: HashSet::new(),
            results: 0,
            failure: None,
        }
    }

    /// Counts a result, whether it is left out or not.
    ///
    /// # Errors
    /// When there are too many.
    pub fn count<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.results += 1;
        match self.results > MOST_RESULTS {
            true => Err(E::custom(format_args!(
                "too many results (maximum is {MOST_RESULTS})"
            ))),
            false => Ok(()),
        }
    }

    /// Adds a finding by its digest, unless it is there.
    ///
    /// # Errors
    /// When the file cannot be written; [`Self::finish`] says why.
    pub fn add<E: serde::de::Error>(
        &mut self,
        fingerprint: [u8; 32],
        finding: impl FnOnce(String) -> Finding,
    ) -> Result<(), E> {
        if !self.known.insert(fingerprint) {
            return Ok(());
        }
        let finding = finding(hex::encode(fingerprint));
        let written = serde_json::to_writer(&mut self.file, &finding);
        let written = written
            .map_err(io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|error| {
            self.failure = Some(error);
            E::custom("the findings cannot be stored")
        })
    }

    /// The file with all of them, at its start.
    ///
    /// # Errors
    /// What the file system said.
    pub fn finish(self) -> io::Result<File> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(file)
    }
}
