//! Definitions that SARIF results refer to: tools, rules, files and message strings.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::{Error as _, MapAccess, SeqAccess};

use super::super::bounded::{BoundedMap, BoundedString, Lenient};
use super::super::finding::{ReportType, report_type};
use crate::reports::document::{DocumentPosition, ListReader, ObjectReader, ObjectSeed};

/// Maximum number of runs in a document.
const MAX_RUNS: usize = 1_000;
/// Maximum number of tool extensions in a document.
const MAX_EXTENSIONS: usize = 1_000;
/// Maximum number of rules in a document.
const MAX_RULES: usize = 50_000;
/// Maximum number of message strings of a rule or tool.
const MAX_STRINGS: usize = 100;
/// Maximum total size of these definitions in bytes; each definition counts as a short text itself.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// Size that a definition adds to its texts, in bytes.
const DEFINITION_BYTES: usize = 64;

/// Definitions, by run.
#[derive(Debug, Default)]
pub struct SarifRules {
    /// The runs in document order.
    pub runs: Vec<SarifRun>,
    budget: DefinitionBudget,
}

/// A run of a scanner.
#[derive(Debug)]
pub struct SarifRun {
    /// The tool.
    pub driver: ToolComponent,
    /// The extensions of the tool.
    pub extensions: Vec<ToolComponent>,
    /// Addresses of the scanned files.
    pub artifacts: Vec<String>,
    /// The type of the scanner.
    pub report_type: ReportType,
}

/// A tool or a tool extension.
#[derive(Debug, Default)]
pub struct ToolComponent {
    /// The name.
    pub name: String,
    /// The GUID.
    pub guid: Option<String>,
    /// The rules in document order.
    pub rules: Vec<SarifRule>,
    /// Message strings shared by all rules.
    pub strings: BTreeMap<String, String>,
    by_id: HashMap<String, usize>,
}

/// A rule.
#[derive(Debug, Default)]
pub struct SarifRule {
    /// The ID.
    pub id: String,
    /// The name.
    pub name: Option<String>,
    /// The short description.
    pub short: Option<String>,
    /// The full description.
    pub full: Option<String>,
    /// The message strings of its results.
    pub strings: BTreeMap<String, String>,
    /// The level of its results.
    pub level: Option<String>,
    /// The rank of its results, from 0 to 100.
    pub rank: Option<f64>,
    /// The severity of its results, from 0 to 10.
    pub security_severity: Option<f64>,
    /// The precision of its results.
    pub precision: Option<String>,
}

impl ToolComponent {
    /// Returns a rule by its ID; a hierarchical ID (`CA1000/1`) falls back to its parent.
    pub fn rule(&self, id: &str) -> Option<&SarifRule> {
        let above = id.rsplit_once('/').map(|(above, _)| above);
        let found = self.by_id.get(id).or_else(|| self.by_id.get(above?));
        self.rules.get(*found?)
    }

    fn add(&mut self, rule: SarifRule) {
        self.by_id.entry(rule.id.clone()).or_insert(self.rules.len());
        self.rules.push(rule);
    }
}

/// The remaining limits.
#[derive(Debug, Default)]
struct DefinitionBudget {
    rules: usize,
    extensions: usize,
    text: usize,
}

impl DefinitionBudget {
    fn consume<'a, E: serde::de::Error>(
        &mut self,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), E> {
        self.text += texts
            .into_iter()
            .fold(DEFINITION_BYTES, |sum, text| sum + text.len());
        match self.text > MAX_TEXT_BYTES {
            true => Err(E::custom(format_args!(
                "has too many strings (maximum is {} MiB)",
                MAX_TEXT_BYTES >> 20
            ))),
            false => Ok(()),
        }
    }
}

/// A multiformat message string.
#[derive(Deserialize)]
#[serde(expecting = "an object with a string")]
struct Multiform<const MAX: usize> {
    text: Option<BoundedString<MAX>>,
}

type Strings = BoundedMap<Multiform<4_000>, MAX_STRINGS>;

fn strings(found: Option<Strings>) -> BTreeMap<String, String> {
    let found = found.map(|strings| strings.0).unwrap_or_default();
    let texts = found
        .into_iter()
        .filter_map(|(id, text)| Some((id, text.text?.0)));
    texts.collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a rule")]
struct Descriptor {
    id: Option<BoundedString<255>>,
    name: Option<BoundedString<255>>,
    short_description: Option<Multiform<1_000>>,
    full_description: Option<Multiform<4_000>>,
    message_strings: Option<Strings>,
    default_configuration: Option<Configuration>,
    properties: Option<Properties>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Configuration {
    level: Option<BoundedString<64>>,
    rank: Option<f64>,
}

/// A property bag of a rule, result or run, with values of unspecified type.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub struct Properties {
    #[serde(rename = "security-severity")]
    security_severity: Option<Lenient>,
    precision: Option<Lenient>,
    report_type: Option<Lenient>,
}

impl Properties {
    /// Returns the severity, from 0 to 10.
    pub fn security_severity(&self) -> Option<f64> {
        let number = self.security_severity.as_ref()?.number()?;
        (0.0..=10.0).contains(&number).then_some(number)
    }
}

impl From<Descriptor> for SarifRule {
    fn from(found: Descriptor) -> Self {
        let own = found.properties.as_ref();
        let configuration = found.default_configuration;
        let precision = own.and_then(|own| own.precision.as_ref()?.text().map(str::to_owned));
        Self {
            security_severity: own.and_then(Properties::security_severity),
            precision,
            id: found.id.unwrap_or_default().0,
            name: found.name.map(|text| text.0),
            short: found.short_description.and_then(|text| Some(text.text?.0)),
            full: found.full_description.and_then(|text| Some(text.text?.0)),
            strings: strings(found.message_strings),
            rank: configuration.as_ref().and_then(|one| one.rank),
            level: configuration.and_then(|one| Some(one.level?.0)),
        }
    }
}

impl ListReader for SarifRules {
    fn item<'de, A: SeqAccess<'de>>(
        &mut self,
        list: &mut A,
        trail: &DocumentPosition,
    ) -> Result<bool, A::Error> {
        let mut run = SarifRun {
            driver: ToolComponent::default(),
            extensions: Vec::new(),
            artifacts: Vec::new(),
            report_type: ReportType::Sast,
        };
        let mut reader = RunReader {
            run: &mut run,
            budget: &mut self.budget,
        };
        if list
            .next_element_seed(ObjectSeed::of(&mut reader, trail))?
            .is_none()
        {
            return Ok(false);
        }
        self.runs.push(run);
        match self.runs.len() > MAX_RUNS {
            true => Err(A::Error::custom(format_args!(
                "too many runs (maximum is {MAX_RUNS})"
            ))),
            false => Ok(true),
        }
    }
}

struct RunReader<'a> {
    run: &'a mut SarifRun,
    budget: &'a mut DefinitionBudget,
}

impl ObjectReader for RunReader<'_> {
    const KEYS: &'static [&'static str] = &["tool", "artifacts", "properties"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        match key {
            "tool" => {
                let mut tool = ToolReader {
                    run: self.run,
                    budget: self.budget,
                };
                map.next_value_seed(ObjectSeed::of(&mut tool, trail))
            }
            "artifacts" => {
                let mut artifacts = Artifacts {
                    all: &mut self.run.artifacts,
                    budget: self.budget,
                };
                map.next_value_seed(ObjectSeed::each(&mut artifacts, trail))
            }
            _ => {
                let own: Option<Properties> = map.next_value()?;
                let kind = own.and_then(|own| report_type(own.report_type?.text()?));
                self.run.report_type = kind.unwrap_or(self.run.report_type);
                Ok(())
            }
        }
    }
}

struct ToolReader<'a> {
    run: &'a mut SarifRun,
    budget: &'a mut DefinitionBudget,
}

impl ObjectReader for ToolReader<'_> {
    const KEYS: &'static [&'static str] = &["driver", "extensions"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        if key == "driver" {
            let mut driver = ComponentReader {
                component: &mut self.run.driver,
                budget: self.budget,
            };
            return map.next_value_seed(ObjectSeed::of(&mut driver, trail));
        }
        let mut extensions = Extensions {
            all: &mut self.run.extensions,
            budget: self.budget,
        };
        map.next_value_seed(ObjectSeed::each(&mut extensions, trail))
    }
}

struct Extensions<'a> {
    all: &'a mut Vec<ToolComponent>,
    budget: &'a mut DefinitionBudget,
}

impl ListReader for Extensions<'_> {
    fn item<'de, A: SeqAccess<'de>>(
        &mut self,
        list: &mut A,
        trail: &DocumentPosition,
    ) -> Result<bool, A::Error> {
        let mut component = ToolComponent::default();
        let mut reader = ComponentReader {
            component: &mut component,
            budget: self.budget,
        };
        if list
            .next_element_seed(ObjectSeed::of(&mut reader, trail))?
            .is_none()
        {
            return Ok(false);
        }
        self.all.push(component);
        self.budget.extensions += 1;
        match self.budget.extensions > MAX_EXTENSIONS {
            true => Err(A::Error::custom(format_args!(
                "too many extensions (maximum is {MAX_EXTENSIONS})"
            ))),
            false => Ok(true),
        }
    }
}

struct ComponentReader<'a> {
    component: &'a mut ToolComponent,
    budget: &'a mut DefinitionBudget,
}

impl ObjectReader for ComponentReader<'_> {
    const KEYS: &'static [&'static str] = &["name", "guid", "rules", "globalMessageStrings"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error> {
        match key {
            "name" => self.component.name = map.next_value::<BoundedString<255>>()?.0,
            "guid" => self.component.guid = map.next_value::<Option<BoundedString<64>>>()?.map(|guid| guid.0),
            "rules" => map.next_value_seed(ObjectSeed::each(self, trail))?,
            _ => {
                let found = strings(map.next_value()?);
                self.budget.consume(found.values().map(String::as_str))?;
                self.component.strings = found;
            }
        }
        Ok(())
    }
}

impl ListReader for ComponentReader<'_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, _: &DocumentPosition) -> Result<bool, A::Error> {
        let Some(found) = list.next_element::<Descriptor>()? else {
            return Ok(false);
        };
        let rule = SarifRule::from(found);
        self.budget.rules += 1;
        if self.budget.rules > MAX_RULES {
            return Err(A::Error::custom(format_args!(
                "too many rules (maximum is {MAX_RULES})"
            )));
        }
        let texts = [&rule.name, &rule.short, &rule.full];
        let texts = texts.into_iter().flatten().chain(rule.strings.values());
        self.budget.consume(texts.chain([&rule.id]).map(String::as_str))?;
        self.component.add(rule);
        Ok(true)
    }
}

struct Artifacts<'a> {
    all: &'a mut Vec<String>,
    budget: &'a mut DefinitionBudget,
}

#[derive(Deserialize)]
#[serde(expecting = "an artifact")]
struct Artifact {
    location: Option<ArtifactLocation>,
}

/// The location of a file, by address or by its index in the run.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub struct ArtifactLocation {
    /// The address.
    pub uri: Option<BoundedString<4_000>>,
    /// The index.
    pub index: Option<i64>,
}

impl ListReader for Artifacts<'_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, _: &DocumentPosition) -> Result<bool, A::Error> {
        let Some(found) = list.next_element::<Artifact>()? else {
            return Ok(false);
        };
        let uri = found.location.and_then(|location| Some(location.uri?.0));
        let uri = uri.unwrap_or_default();
        self.budget.consume([uri.as_str()])?;
        self.all.push(uri);
        Ok(true)
    }
}
