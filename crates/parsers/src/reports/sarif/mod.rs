//! Results of SARIF 2.1.0.

pub mod rules;

use std::borrow::Cow;

use rules::{ArtifactLocation, Properties, SarifRule, SarifRules, SarifRun, ToolComponent};
use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess, SeqAccess};

use super::bounded::{BoundedMap, BoundedString, BoundedVec};
use super::finding::{
    self, Confidence, Finding, Findings, MAX_DESCRIPTION_LENGTH, Severity, digest, report_type_name,
};
use crate::reports::document::{DocumentPosition, ListReader, ObjectReader, ObjectSeed};

/// Maximum number of arguments of a message and of fingerprints of a result.
const MAX_ARGUMENTS: usize = 100;
/// Maximum number of digits of a placeholder in a message.
const MAX_PLACEHOLDER_DIGITS: usize = 4;

/// A result as reported by a scanner.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a result")]
struct SarifResult {
    rule_id: Option<BoundedString<255>>,
    rule_index: Option<i64>,
    rule: Option<Reference>,
    kind: Option<BoundedString<64>>,
    level: Option<BoundedString<64>>,
    rank: Option<f64>,
    message: Option<Message>,
    locations: Option<BoundedVec<Location, 1>>,
    fingerprints: Option<BoundedMap<BoundedString<1_000>, MAX_ARGUMENTS>>,
    partial_fingerprints: Option<BoundedMap<BoundedString<1_000>, MAX_ARGUMENTS>>,
    suppressions: Option<BoundedVec<Suppression, MAX_ARGUMENTS>>,
    baseline_state: Option<BoundedString<64>>,
    properties: Option<Properties>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Reference {
    id: Option<BoundedString<255>>,
    index: Option<i64>,
    tool_component: Option<ComponentReference>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ComponentReference {
    index: Option<i64>,
    guid: Option<BoundedString<64>>,
    name: Option<BoundedString<255>>,
}

#[derive(Deserialize)]
#[serde(expecting = "a message")]
struct Message {
    text: Option<BoundedString<MAX_DESCRIPTION_LENGTH>>,
    id: Option<BoundedString<255>>,
    arguments: Option<BoundedVec<BoundedString<4_000>, MAX_ARGUMENTS>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a location")]
struct Location {
    physical_location: Option<PhysicalLocation>,
    logical_locations: Option<BoundedVec<LogicalLocation, 1>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct PhysicalLocation {
    artifact_location: Option<ArtifactLocation>,
    region: Option<Region>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a region")]
struct Region {
    start_line: Option<i64>,
    start_column: Option<i64>,
    end_line: Option<i64>,
    end_column: Option<i64>,
    char_offset: Option<i64>,
    char_length: Option<i64>,
    byte_offset: Option<i64>,
    byte_length: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct LogicalLocation {
    fully_qualified_name: Option<BoundedString<4_000>>,
    name: Option<BoundedString<4_000>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Suppression {
    status: Option<BoundedString<64>>,
}

impl SarifResult {
    /// Returns whether the result is a failure that exists and is not suppressed.
    fn is_counted(&self) -> bool {
        let says =
            |text: &Option<BoundedString<64>>, word: &str| text.as_ref().is_some_and(|text| text.0 == word);
        let fails = self.kind.is_none() || says(&self.kind, "fail");
        let suppressed = self.suppressions.as_ref().is_some_and(|all| {
            let accepted = |one: &Suppression| one.status.is_none() || says(&one.status, "accepted");
            !all.0.is_empty() && all.0.iter().all(accepted)
        });
        fails && !suppressed && !says(&self.baseline_state, "absent")
    }

    /// Returns the tool or extension that defines its rule.
    fn component<'a>(&self, run: &'a SarifRun) -> &'a ToolComponent {
        let Some(named) = self.rule.as_ref().and_then(|rule| rule.tool_component.as_ref()) else {
            return &run.driver;
        };
        let by_index = named
            .index
            .and_then(|index| run.extensions.get(usize::try_from(index).ok()?));
        let same = |component: &&ToolComponent| {
            let guid = named.guid.as_ref().map(|guid| &guid.0);
            let name = named.name.as_ref().map(|name| &name.0);
            (guid.is_some() && component.guid.as_ref() == guid) || name == Some(&component.name)
        };
        let found = by_index.or_else(|| run.extensions.iter().find(same));
        found.unwrap_or(&run.driver)
    }

    fn id(&self) -> Option<&str> {
        let own = self.rule_id.as_ref();
        let own = own.or_else(|| self.rule.as_ref()?.id.as_ref());
        own.map(|id| id.0.as_str())
    }

    /// Returns its rule, or `None` if the document does not define it.
    fn rule<'a>(&self, component: &'a ToolComponent) -> Option<&'a SarifRule> {
        let index = self.rule.as_ref().and_then(|rule| rule.index).or(self.rule_index);
        let by_index = index.and_then(|index| component.rules.get(usize::try_from(index).ok()?));
        by_index.or_else(|| component.rule(self.id()?))
    }

    fn text<'a>(&'a self, rule: Option<&'a SarifRule>, component: &'a ToolComponent) -> Cow<'a, str> {
        let Some(message) = &self.message else {
            return Cow::Borrowed("");
        };
        let named = message.id.as_ref().and_then(|id| {
            let own = rule.and_then(|rule| rule.strings.get(&id.0));
            own.or_else(|| component.strings.get(&id.0))
        });
        let text = message.text.as_ref().map(|text| &text.0).or(named);
        let text = text.map(String::as_str).unwrap_or_default();
        match &message.arguments {
            Some(arguments) if !arguments.0.is_empty() => Cow::Owned(fill_placeholders(text, &arguments.0)),
            _ => Cow::Borrowed(text),
        }
    }

    fn severity(&self, rule: Option<&SarifRule>) -> Severity {
        let own = self.properties.as_ref().and_then(Properties::security_severity);
        let score = own.or_else(|| rule?.security_severity);
        match score {
            Some(9.0..) => return Severity::Critical,
            Some(7.0..) => return Severity::High,
            Some(4.0..) => return Severity::Medium,
            Some(score) if score > 0.0 => return Severity::Low,
            Some(_) => return Severity::Info,
            None => {}
        }
        let own = self.level.as_ref().map(|level| level.0.as_str());
        match own.or_else(|| rule?.level.as_deref()) {
            Some("error") => Severity::High,
            // The default level is a warning.
            None | Some("warning") => Severity::Medium,
            Some("note") => Severity::Low,
            Some("none") => Severity::Info,
            Some(_) => Severity::Unknown,
        }
    }

    fn confidence(&self, rule: Option<&SarifRule>) -> Confidence {
        let known = |rank: &f64| (0.0..=100.0).contains(rank);
        let rank = self.rank.filter(known).or_else(|| rule?.rank.filter(known));
        match rank {
            Some(67.0..) => return Confidence::High,
            Some(34.0..) => return Confidence::Medium,
            Some(_) => return Confidence::Low,
            None => {}
        }
        match rule.and_then(|rule| rule.precision.as_deref()) {
            Some("very-high") => Confidence::High,
            Some(word) => finding::confidence(word),
            None => Confidence::Unknown,
        }
    }

    /// Returns the file and the position in it.
    fn location(&self, run: &SarifRun) -> (String, String) {
        let location = self.locations.as_ref().and_then(|all| all.0.first());
        let physical = location.and_then(|one| one.physical_location.as_ref());
        let file = physical.and_then(|one| one.artifact_location.as_ref());
        let uri = file.and_then(|file| {
            let listed = || run.artifacts.get(usize::try_from(file.index?).ok()?).cloned();
            file.uri.as_ref().map(|uri| uri.0.clone()).or_else(listed)
        });
        if let Some(region) = physical.and_then(|one| one.region.as_ref()) {
            return (uri.unwrap_or_default(), region.to_string());
        }
        let logical = location.and_then(|one| one.logical_locations.as_ref()?.0.first());
        let logical = logical.and_then(|one| one.fully_qualified_name.as_ref().or(one.name.as_ref()));
        let logical = logical.map(|name| name.0.clone()).unwrap_or_default();
        (uri.unwrap_or_default(), logical)
    }

    /// Returns the fingerprint, which is based on the fingerprints of the scanner, otherwise on the location.
    fn fingerprint(&self, run: &SarifRun, rule: &str, text: &str) -> [u8; 32] {
        let (uri, location) = self.location(run);
        let joined = |all: &Option<BoundedMap<BoundedString<1_000>, MAX_ARGUMENTS>>| {
            let all = all.as_ref().filter(|all| !all.0.is_empty())?;
            let pairs = all
                .0
                .iter()
                .flat_map(|(name, value)| [name.clone(), value.0.clone()]);
            Some(pairs.collect::<Vec<String>>())
        };
        let mut parts = vec!["sarif", report_type_name(run.report_type), &run.driver.name, rule];
        let full = joined(&self.fingerprints);
        let partial = joined(&self.partial_fingerprints);
        if let Some(all) = &full {
            parts.push("fingerprints");
            parts.extend(all.iter().map(String::as_str));
        } else if let Some(all) = &partial {
            parts.extend(["partial", &uri]);
            parts.extend(all.iter().map(String::as_str));
        } else {
            parts.extend(["place", &uri, &location]);
            // Results without a location are distinguished by their text.
            if uri.is_empty() && location.is_empty() {
                parts.push(text);
            }
        }
        digest(&parts)
    }
}

impl std::fmt::Display for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers = [
            self.start_line,
            self.start_column,
            self.end_line,
            self.end_column,
            self.char_offset,
            self.char_length,
            self.byte_offset,
            self.byte_length,
        ];
        for number in numbers {
            match number {
                Some(number) => write!(f, "{number}:")?,
                None => f.write_str(":")?,
            }
        }
        Ok(())
    }
}

/// Replaces the placeholders of a message (`{0}`) by its arguments. Text beyond the maximum length of a
/// description is omitted.
fn fill_placeholders(text: &str, arguments: &[BoundedString<4_000>]) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        // A character has at most four bytes.
        if filled.len() > 4 * MAX_DESCRIPTION_LENGTH {
            break;
        }
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        rest = match placeholder(from, arguments) {
            Some((argument, after)) => {
                filled.push_str(argument);
                after
            }
            None => {
                filled.push_str(&from[..1]);
                // A doubled bracket is an escaped bracket.
                let twice = from.starts_with("{{") || from.starts_with("}}");
                &from[if twice { 2 } else { 1 }..]
            }
        };
    }
    filled.push_str(rest);
    filled
}

/// Returns the argument of the placeholder at the start of a text, and the text after the placeholder. Reads only a few
/// bytes, because a text can consist of opening brackets.
fn placeholder<'a, 't>(text: &'t str, arguments: &'a [BoundedString<4_000>]) -> Option<(&'a str, &'t str)> {
    let inner = text.strip_prefix('{')?;
    let digits = inner.bytes().take(MAX_PLACEHOLDER_DIGITS);
    let digits = digits.take_while(u8::is_ascii_digit).count();
    let (number, rest) = inner.split_at(digits);
    let after = rest.strip_prefix('}')?;
    let argument = arguments.get(number.parse::<usize>().ok()?)?;
    Some((argument.0.as_str(), after))
}

/// Adds a result to the findings.
fn add_finding<E: serde::de::Error>(
    result: &SarifResult,
    run: &SarifRun,
    findings: &mut Findings<'_>,
) -> Result<(), E> {
    let component = result.component(run);
    let rule = result.rule(component);
    let text = result.text(rule, component);
    if let Cow::Owned(filled) = &text {
        findings.count_filled::<E>(filled.len())?;
    }
    let id = result
        .id()
        .or(rule.map(|rule| rule.id.as_str()))
        .unwrap_or_default();
    let (short, name) = (
        rule.and_then(|rule| rule.short.as_deref()),
        rule.and_then(|rule| rule.name.as_deref()),
    );
    let title = finding::title([short, name, Some(&*text), Some(id)]);
    let title = title.ok_or_else(|| E::custom("must have a message or a rule"))?;
    let full = rule.and_then(|rule| rule.full.as_deref()).unwrap_or_default();
    findings.add(result.fingerprint(run, id, &text), |fingerprint| Finding {
        fingerprint,
        title,
        description: finding::description(&text).or_else(|| finding::description(full)),
        severity: result.severity(rule),
        confidence: result.confidence(rule),
        report_type: run.report_type,
    })
}

/// Reads the results of a document whose rules are known.
pub struct ResultReader<'a, 'w> {
    rules: &'a SarifRules,
    findings: &'a mut Findings<'w>,
    next: usize,
}

impl<'a, 'w> ResultReader<'a, 'w> {
    /// Creates a reader that adds to these findings.
    pub fn new(rules: &'a SarifRules, findings: &'a mut Findings<'w>) -> Self {
        Self {
            rules,
            findings,
            next: 0,
        }
    }
}

impl ObjectReader for ResultReader<'_, '_> {
    const KEYS: &'static [&'static str] = &["runs"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        _: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        map.next_value_seed(ObjectSeed::each(self, trail))
    }
}

impl ListReader for ResultReader<'_, '_> {
    fn item<'de, A: SeqAccess<'de>>(
        &mut self,
        list: &mut A,
        trail: &DocumentPosition,
    ) -> Result<bool, A::Error> {
        // After the last run the list is at its end, so any run serves here.
        let run = self.rules.runs.get(self.next).or(self.rules.runs.last());
        let Some(run) = run else {
            return Ok(list.next_element::<IgnoredAny>()?.is_some());
        };
        self.next += 1;
        let mut reader = RunReader {
            run,
            findings: self.findings,
        };
        Ok(list
            .next_element_seed(ObjectSeed::of(&mut reader, trail))?
            .is_some())
    }
}

struct RunReader<'a, 'w> {
    run: &'a SarifRun,
    findings: &'a mut Findings<'w>,
}

impl ObjectReader for RunReader<'_, '_> {
    const KEYS: &'static [&'static str] = &["results"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        _: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        map.next_value_seed(ObjectSeed::each(self, trail))
    }
}

impl ListReader for RunReader<'_, '_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, _: &DocumentPosition) -> Result<bool, A::Error> {
        let Some(result) = list.next_element::<SarifResult>()? else {
            return Ok(false);
        };
        self.findings.count()?;
        if result.is_counted() {
            add_finding(&result, self.run, self.findings)?;
        }
        Ok(true)
    }
}
