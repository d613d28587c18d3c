//! What the results of SARIF refer to: tools, their rules, files, and texts by their names.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde::de::{Error as _, MapAccess, SeqAccess};
use storage::entities::vulnerabilities::ReportType;

use super::super::bounded::{FewByName, Loose, Text};
use super::super::finding::report_type;
use super::super::reading::{Entries, List, Object, Trail};

/// How many runs a document may have.
const MOST_RUNS: usize = 1_000;
/// How many extensions the tools of a document may have.
const MOST_EXTENSIONS: usize = 1_000;
/// How many rules a document may have.
const MOST_RULES: usize = 50_000;
/// How many texts by name are kept of a rule or tool.
const MOST_STRINGS: usize = 100;
/// How much text may be kept of all this, in bytes, each thing counted as a little text of its own.
const MOST_TEXT: usize = 16 << 20;
/// What a thing counts for beside its texts, in bytes.
const THING: usize = 64;

/// What the results refer to, run by run.
#[derive(Debug, Default)]
pub struct Rules {
    /// The runs, in the order of the document.
    pub runs: Vec<Run>,
    budget: Budget,
}

/// A run of a scanner.
#[derive(Debug)]
pub struct Run {
    /// The tool itself.
    pub driver: Component,
    /// What extends the tool.
    pub extensions: Vec<Component>,
    /// Where the files are that it looked at.
    pub artifacts: Vec<String>,
    /// What kind of scanner it is.
    pub report_type: ReportType,
}

/// A tool, or what extends one.
#[derive(Debug, Default)]
pub struct Component {
    /// What it is called.
    pub name: String,
    /// What it is known by.
    pub guid: Option<String>,
    /// Its rules, in the order of the document.
    pub rules: Vec<Rule>,
    /// Texts that all its rules share.
    pub strings: BTreeMap<String, String>,
    by_id: HashMap<String, usize>,
}

/// What is known of a rule.
#[derive(Debug, Default)]
pub struct Rule {
    /// What results name it by.
    pub id: String,
    /// What it is called.
    pub name: Option<String>,
    /// What it is about, in short.
    pub short: Option<String>,
    /// What it is about.
    pub full: Option<String>,
    /// Texts of its results.
    pub strings: BTreeMap<String, String>,
    /// How bad its results are.
    pub level: Option<String>,
    /// How sure its results are, from 0 to 100.
    pub rank: Option<f64>,
    /// How bad its results are, from 0 to 10.
    pub security_severity: Option<f64>,
    /// How sure its results are, in a word.
    pub precision: Option<String>,
}

impl Component {
    /// A rule by its name; one that stands below another's by that one's (`CA1000/1`).
    pub fn rule(&self, id: &str) -> Option<&Rule> {
        let above = id.rsplit_once('/').map(|(above, _)| above);
        let found = self.by_id.get(id).or_else(|| self.by_id.get(above?));
        self.rules.get(*found?)
    }

    fn add(&mut self, rule: Rule) {
        self.by_id.entry(rule.id.clone()).or_insert(self.rules.len());
        self.rules.push(rule);
    }
}

/// What may still be kept.
#[derive(Debug, Default)]
struct Budget {
    rules: usize,
    extensions: usize,
    text: usize,
}

impl Budget {
    fn spend<'a, E: serde::de::Error>(&mut self, texts: impl IntoIterator<Item = &'a str>) -> Result<(), E> {
        self.text += texts.into_iter().fold(THING, |sum, text| sum + text.len());
        match self.text > MOST_TEXT {
            true => Err(E::custom(format_args!(
                "has too many strings (maximum is {} MiB)",
                MOST_TEXT >> 20
            ))),
            false => Ok(()),
        }
    }
}

/// A text in a form of SARIF.
#[derive(Deserialize)]
#[serde(expecting = "an object with a string")]
struct Multiform<const MOST: usize> {
    text: Option<Text<MOST>>,
}

type Strings = FewByName<Multiform<4_000>, MOST_STRINGS>;

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
    id: Option<Text<255>>,
    name: Option<Text<255>>,
    short_description: Option<Multiform<1_000>>,
    full_description: Option<Multiform<4_000>>,
    message_strings: Option<Strings>,
    default_configuration: Option<Configuration>,
    properties: Option<Properties>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Configuration {
    level: Option<Text<64>>,
    rank: Option<f64>,
}

/// What producers add to rules, results and runs, of which nobody says what it must be.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub struct Properties {
    #[serde(rename = "security-severity")]
    security_severity: Option<Loose>,
    precision: Option<Loose>,
    report_type: Option<Loose>,
}

impl Properties {
    /// How bad it is, from 0 to 10.
    pub fn security_severity(&self) -> Option<f64> {
        let number = self.security_severity.as_ref()?.number()?;
        (0.0..=10.0).contains(&number).then_some(number)
    }
}

impl From<Descriptor> for Rule {
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

impl List for Rules {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, trail: &Trail) -> Result<bool, A::Error> {
        let mut run = Run {
            driver: Component::default(),
            extensions: Vec::new(),
            artifacts: Vec::new(),
            report_type: ReportType::Sast,
        };
        let mut reader = OfRun {
            run: &mut run,
            budget: &mut self.budget,
        };
        if list.next_element_seed(Entries::of(&mut reader, trail))?.is_none() {
            return Ok(false);
        }
        self.runs.push(run);
        match self.runs.len() > MOST_RUNS {
            true => Err(A::Error::custom(format_args!(
                "too many runs (maximum is {MOST_RUNS})"
            ))),
            false => Ok(true),
        }
    }
}

struct OfRun<'a> {
    run: &'a mut Run,
    budget: &'a mut Budget,
}

impl Object for OfRun<'_> {
    const KEYS: &'static [&'static str] = &["tool", "artifacts", "properties"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &Trail,
    ) -> Result<(), A::Error> {
        match key {
            "tool" => {
                let mut tool = OfTool {
                    run: self.run,
                    budget: self.budget,
                };
                map.next_value_seed(Entries::of(&mut tool, trail))
            }
            "artifacts" => {
                let mut artifacts = Artifacts {
                    all: &mut self.run.artifacts,
                    budget: self.budget,
                };
                map.next_value_seed(Entries::each(&mut artifacts, trail))
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

struct OfTool<'a> {
    run: &'a mut Run,
    budget: &'a mut Budget,
}

impl Object for OfTool<'_> {
    const KEYS: &'static [&'static str] = &["driver", "extensions"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &Trail,
    ) -> Result<(), A::Error> {
        if key == "driver" {
            let mut driver = OfComponent {
                component: &mut self.run.driver,
                budget: self.budget,
            };
            return map.next_value_seed(Entries::of(&mut driver, trail));
        }
        let mut extensions = Extensions {
            all: &mut self.run.extensions,
            budget: self.budget,
        };
        map.next_value_seed(Entries::each(&mut extensions, trail))
    }
}

struct Extensions<'a> {
    all: &'a mut Vec<Component>,
    budget: &'a mut Budget,
}

impl List for Extensions<'_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, trail: &Trail) -> Result<bool, A::Error> {
        let mut component = Component::default();
        let mut reader = OfComponent {
            component: &mut component,
            budget: self.budget,
        };
        if list.next_element_seed(Entries::of(&mut reader, trail))?.is_none() {
            return Ok(false);
        }
        self.all.push(component);
        self.budget.extensions += 1;
        match self.budget.extensions > MOST_EXTENSIONS {
            true => Err(A::Error::custom(format_args!(
                "too many extensions (maximum is {MOST_EXTENSIONS})"
            ))),
            false => Ok(true),
        }
    }
}

struct OfComponent<'a> {
    component: &'a mut Component,
    budget: &'a mut Budget,
}

impl Object for OfComponent<'_> {
    const KEYS: &'static [&'static str] = &["name", "guid", "rules", "globalMessageStrings"];

    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &Trail,
    ) -> Result<(), A::Error> {
        match key {
            "name" => self.component.name = map.next_value::<Text<255>>()?.0,
            "guid" => self.component.guid = map.next_value::<Option<Text<64>>>()?.map(|guid| guid.0),
            "rules" => map.next_value_seed(Entries::each(self, trail))?,
            _ => {
                let found = strings(map.next_value()?);
                self.budget.spend(found.values().map(String::as_str))?;
                self.component.strings = found;
            }
        }
        Ok(())
    }
}

impl List for OfComponent<'_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, _: &Trail) -> Result<bool, A::Error> {
        let Some(found) = list.next_element::<Descriptor>()? else {
            return Ok(false);
        };
        let rule = Rule::from(found);
        self.budget.rules += 1;
        if self.budget.rules > MOST_RULES {
            return Err(A::Error::custom(format_args!(
                "too many rules (maximum is {MOST_RULES})"
            )));
        }
        let texts = [&rule.name, &rule.short, &rule.full];
        let texts = texts.into_iter().flatten().chain(rule.strings.values());
        self.budget.spend(texts.chain([&rule.id]).map(String::as_str))?;
        self.component.add(rule);
        Ok(true)
    }
}

struct Artifacts<'a> {
    all: &'a mut Vec<String>,
    budget: &'a mut Budget,
}

#[derive(Deserialize)]
#[serde(expecting = "an artifact")]
struct Artifact {
    location: Option<ArtifactLocation>,
}

/// Where a file is, or which of the list of the run.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub struct ArtifactLocation {
    /// Where it is.
    pub uri: Option<Text<4_000>>,
    /// Its index in the list.
    pub index: Option<i64>,
}

impl List for Artifacts<'_> {
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, _: &Trail) -> Result<bool, A::Error> {
        let Some(found) = list.next_element::<Artifact>()? else {
            return Ok(false);
        };
        let uri = found.location.and_then(|location| Some(location.uri?.0));
        let uri = uri.unwrap_or_default();
        self.budget.spend([uri.as_str()])?;
        self.all.push(uri);
        Ok(true)
    }
}
