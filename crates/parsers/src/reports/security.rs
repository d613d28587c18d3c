//! Security reports of the reference service, of any version with these field names.

use serde::Deserialize;
use serde::de::{Error as _, MapAccess, SeqAccess};

use super::bounded::{BoundedString, BoundedVec};
use super::finding::{
    self, Confidence, Finding, Findings, MAX_DESCRIPTION_LENGTH, ReportType, Severity, digest,
    report_type_name,
};
use crate::reports::document::{DocumentPosition, ListReader, ObjectReader, ObjectSeed};

#[derive(Deserialize)]
#[serde(expecting = "a vulnerability")]
struct Vulnerability {
    category: Option<BoundedString<64>>,
    name: Option<BoundedString<1_000>>,
    message: Option<BoundedString<MAX_DESCRIPTION_LENGTH>>,
    description: Option<BoundedString<MAX_DESCRIPTION_LENGTH>>,
    severity: Option<BoundedString<64>>,
    confidence: Option<BoundedString<64>>,
    solution: Option<BoundedString<MAX_DESCRIPTION_LENGTH>>,
    cve: Option<BoundedString<4_000>>,
    id: Option<BoundedString<255>>,
    identifiers: Option<BoundedVec<Identifier, 1>>,
    location: Option<Location>,
}

#[derive(Deserialize)]
#[serde(expecting = "an identifier")]
struct Identifier {
    r#type: Option<BoundedString<255>>,
    name: Option<BoundedString<255>>,
    value: Option<BoundedString<1_000>>,
}

/// The location: in a file, in a package of an image, at an address, or at a crash.
#[derive(Deserialize)]
#[serde(expecting = "a location")]
struct Location {
    file: Option<BoundedString<4_000>>,
    start_line: Option<i64>,
    end_line: Option<i64>,
    class: Option<BoundedString<1_000>>,
    method: Option<BoundedString<1_000>>,
    image: Option<BoundedString<1_000>>,
    operating_system: Option<BoundedString<255>>,
    dependency: Option<Dependency>,
    commit: Option<Commit>,
    hostname: Option<BoundedString<1_000>>,
    path: Option<BoundedString<4_000>>,
    param: Option<BoundedString<1_000>>,
    crash_type: Option<BoundedString<255>>,
    crash_state: Option<BoundedString<4_000>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a dependency")]
struct Dependency {
    package: Option<Package>,
}

#[derive(Deserialize)]
#[serde(expecting = "a package")]
struct Package {
    name: Option<BoundedString<1_000>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a commit")]
struct Commit {
    sha: Option<BoundedString<255>>,
}

/// Returns a text, or an empty one.
fn plain<const MAX: usize>(text: Option<&BoundedString<MAX>>) -> &str {
    text.map(|text| text.0.as_str()).unwrap_or_default()
}

impl Vulnerability {
    fn title(&self) -> Option<String> {
        let identifier = self.identifiers.as_ref().and_then(|all| all.0.first());
        let identifier = identifier.and_then(|one| one.name.as_ref());
        finding::title([
            Some(plain(self.name.as_ref())),
            Some(plain(self.message.as_ref())),
            Some(plain(self.description.as_ref())),
            Some(plain(identifier)),
        ])
    }

    /// Returns the description with the solution.
    fn description(&self) -> Option<String> {
        let text = match plain(self.description.as_ref()) {
            "" => plain(self.message.as_ref()),
            text => text,
        };
        let solution = plain(self.solution.as_ref()).trim();
        match solution {
            "" => finding::description(text),
            solution => finding::description(&format!("{text}\n\nSolution: {solution}")),
        }
    }

    /// Returns the fingerprint, which is based on the identity and the location of the finding and the type
    /// of the scanner.
    fn fingerprint(&self, kind: ReportType, title: &str) -> [u8; 32] {
        let identifier = self.identifiers.as_ref().and_then(|all| all.0.first());
        let named = identifier.filter(|one| one.value.is_some() || one.name.is_some());
        let what = match named {
            Some(one) => {
                let value = plain(one.value.as_ref());
                let value = if value.is_empty() {
                    plain(one.name.as_ref())
                } else {
                    value
                };
                ["identifier", plain(one.r#type.as_ref()), value]
            }
            None if self.cve.is_some() => ["cve", "", plain(self.cve.as_ref())],
            None if self.id.is_some() => ["id", "", plain(self.id.as_ref())],
            None => ["title", "", title],
        };
        let location = self.location.as_ref().map(Location::parts).unwrap_or_default();
        let mut parts = vec!["security", report_type_name(kind)];
        parts.extend(what);
        parts.extend(location.iter().map(String::as_str));
        digest(&parts)
    }
}

impl Location {
    fn parts(&self) -> Vec<String> {
        let line = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        let package = self.dependency.as_ref().and_then(|one| one.package.as_ref());
        let commit = self.commit.as_ref().and_then(|one| one.sha.as_ref());
        let texts = [
            plain(self.file.as_ref()),
            &line(self.start_line),
            &line(self.end_line),
            plain(self.class.as_ref()),
            plain(self.method.as_ref()),
            plain(self.image.as_ref()),
            plain(self.operating_system.as_ref()),
            plain(package.and_then(|one| one.name.as_ref())),
            plain(commit),
            plain(self.hostname.as_ref()),
            plain(self.path.as_ref()),
            plain(self.param.as_ref()),
            plain(self.crash_type.as_ref()),
            plain(self.crash_state.as_ref()),
        ];
        texts.into_iter().map(str::to_owned).collect()
    }
}

/// Reads the vulnerabilities of a document.
pub struct VulnerabilityReader<'a, 'w> {
    kind: Option<ReportType>,
    findings: &'a mut Findings<'w>,
}

impl<'a, 'w> VulnerabilityReader<'a, 'w> {
    /// Creates a reader that adds to these findings, with the type of scanner that the document states for
    /// all, if any.
    pub fn new(kind: Option<ReportType>, findings: &'a mut Findings<'w>) -> Self {
        Self { kind, findings }
    }
}

impl ObjectReader for VulnerabilityReader<'_, '_> {
    const KEYS: &'static [&'static str] = &["vulnerabilities"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        _: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        map.next_value_seed(ObjectSeed::each(self, trail))
    }
}

impl ListReader for VulnerabilityReader<'_, '_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, _: &DocumentPosition) -> Result<bool, A::Error> {
        let Some(found) = list.next_element::<Vulnerability>()? else {
            return Ok(false);
        };
        self.findings.count()?;
        let category = finding::report_type(plain(found.category.as_ref()));
        let kind = self.kind.or(category).unwrap_or(ReportType::Generic);
        let title = found.title();
        let title =
            title.ok_or_else(|| A::Error::custom("must have a name, a message or another description"))?;
        let fingerprint = found.fingerprint(kind, &title);
        let severity = found.severity.as_ref();
        let confidence = found.confidence.as_ref();
        self.findings.add(fingerprint, |fingerprint| Finding {
            fingerprint,
            title,
            description: found.description(),
            severity: severity.map_or(Severity::Unknown, |text| finding::severity(&text.0)),
            confidence: confidence.map_or(Confidence::Unknown, |text| finding::confidence(&text.0)),
            report_type: kind,
        })?;
        Ok(true)
    }
}
