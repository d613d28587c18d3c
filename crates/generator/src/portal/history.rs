//! Facts about a document, and the page of changes between the facts of two documents.
//!
//! A fact is a line `key = value`, such as `parameter list_issues query state = IssueStateFilter`. The folder
//! `openapi/history` contains the facts of each published version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use heck::ToKebabCase;
use serde_json::Value;

pub use super::change::{Change, compare};

use super::block::{Block, Inline, Line, code, code_link, text};
use super::page::Page;
use super::site::{BASE, Operation, Site, entries, items, operation_target, schema_target};
use super::{access, attributes, prose};

/// Folder of the facts, relative to the folder of the contract.
const FOLDER: &str = "history";
/// End of the name of a file with facts.
const EXTENSION: &str = ".txt.gz";
/// Separator of a key and its value.
const SEPARATOR: &str = " = ";

/// Facts by key.
pub type Facts = BTreeMap<String, String>;

/// Facts of a published version.
pub struct Version {
    /// Name of the version.
    pub name: String,
    /// The facts.
    pub facts: Facts,
}

/// The differences of all versions.
pub(super) struct Changelog {
    /// Name and number of operations of the first version, if a version was published.
    first: Option<(String, usize)>,
    /// Each later version, newest last.
    releases: Vec<Release>,
}

/// The differences between a version and the version before.
struct Release {
    name: String,
    before: String,
    changes: Vec<Change>,
}

impl Changelog {
    /// Returns the changes of an operation and the names of their versions, newest first.
    pub(super) fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (&'a str, &'a Change)> {
        let releases = self.releases.iter().rev();
        releases.flat_map(move |release| {
            let own = release.changes.iter().filter(move |change| change.owner() == id);
            own.map(|change| (release.name.as_str(), change))
        })
    }
}

/// Returns the address of a version in the page of changes.
pub(super) fn version_target(name: &str) -> String {
    format!("{BASE}/changelog#{}", name.to_kebab_case())
}

/// Returns the facts about a document.
#[must_use]
pub fn facts(root: &Value) -> Facts {
    let site = Site::new(root);
    let mut facts = Facts::new();
    for operation in &site.operations {
        operation_facts(&site, operation, &mut facts);
    }
    for (name, schema) in site.schemas() {
        let required: BTreeSet<&str> = items(&schema["required"]).filter_map(Value::as_str).collect();
        for (property, value) in entries(&schema["properties"]) {
            let suffix = if required.contains(property) {
                ", required"
            } else {
                ""
            };
            facts.insert(
                format!("attribute {name} {property}"),
                format!("{}{suffix}", kind(&site, value)),
            );
        }
        for value in items(&schema["enum"]) {
            facts.insert(format!("value {name} {}", plain(value)), "listed".to_owned());
        }
    }
    facts
}

fn operation_facts(site: &Site<'_>, operation: &Operation<'_>, facts: &mut Facts) {
    let id = operation.id;
    let mut add = |key: String, value: String| drop(facts.insert(key, value));
    add(
        format!("operation {id}"),
        format!("{} {}", operation.method.to_uppercase(), operation.path),
    );
    let anonymous = if operation.has_access("anonymous") {
        ", anonymous"
    } else {
        ""
    };
    let access = format!(
        "{} {}{anonymous}",
        operation.access("on"),
        operation.access("min")
    );
    add(format!("access {id}"), access);
    let scopes: Vec<&str> = items(&operation.value["x-scope"])
        .filter_map(Value::as_str)
        .collect();
    if !scopes.is_empty() {
        add(format!("scopes {id}"), scopes.join(" "));
    }
    if let Some(tier) = operation.value["x-tier"].as_str() {
        add(format!("plan {id}"), tier.to_owned());
    }
    if operation.is_deprecated() {
        add(format!("deprecation {id}"), "deprecated".to_owned());
    }
    let statuses: Vec<&str> = entries(&operation.value["responses"])
        .map(|(status, _)| status)
        .collect();
    add(format!("statuses {id}"), statuses.join(" "));
    for parameter in &operation.parameters {
        let [location, name] = ["in", "name"].map(|field| parameter[field].as_str().unwrap_or_default());
        let required = parameter["required"] == true && location != "path";
        let suffix = if required { ", required" } else { "" };
        add(
            format!("parameter {id} {location} {name}"),
            format!("{}{suffix}", kind(site, &parameter["schema"])),
        );
    }
    for (media, content) in entries(&operation.value["requestBody"]["content"]) {
        add(format!("body {id} {media}"), kind(site, &content["schema"]));
    }
    for (status, response) in entries(&operation.value["responses"]) {
        for (media, content) in entries(&response["content"]) {
            add(
                format!("response {id} {status} {media}"),
                kind(site, &content["schema"]),
            );
        }
    }
}

fn kind(site: &Site<'_>, schema: &Value) -> String {
    prose::plain(&attributes::kind(site, schema))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns facts as text, one on each line.
#[must_use]
pub fn format(facts: &Facts) -> String {
    facts
        .iter()
        .map(|(key, value)| format!("{key}{SEPARATOR}{value}\n"))
        .collect()
}

/// Returns the facts in a text.
fn parse(source: &str) -> Facts {
    let facts = source.lines().filter_map(|line| line.split_once(SEPARATOR));
    facts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// Returns the facts of all published versions, oldest first; none without a folder.
///
/// # Errors
/// A file that cannot be read.
pub fn load(folder: &Path) -> Result<Vec<Version>, String> {
    let folder = folder.join(FOLDER);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("openapi/{FOLDER}: {error}"))?;
    let mut versions = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if let Some(name) = name.strip_suffix(EXTENSION) {
            let source = read(&path).map_err(|error| format!("{}: {error}\n", path.display()))?;
            versions.push(Version {
                name: name.to_owned(),
                facts: parse(&source),
            });
        }
    }
    versions.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(versions)
}

fn read(path: &Path) -> std::io::Result<String> {
    let file = std::fs::File::open(path)?;
    std::io::read_to_string(flate2::read::GzDecoder::new(file))
}

/// Returns the differences of the versions, and of the document.
pub(super) fn changelog(root: &Value, versions: &[Version]) -> Changelog {
    let current = Version {
        name: "Unreleased".to_owned(),
        facts: facts(root),
    };
    let all: Vec<&Version> = versions.iter().chain([&current]).collect();
    let releases = all.windows(2).filter_map(|pair| match pair {
        [before, after] => Some(Release {
            name: after.name.clone(),
            before: before.name.clone(),
            changes: compare(&before.facts, &after.facts),
        }),
        _ => None,
    });
    let count = |version: &Version| {
        let keys = version.facts.keys();
        keys.filter(|key| key.starts_with("operation ")).count()
    };
    Changelog {
        first: versions
            .first()
            .map(|version| (version.name.clone(), count(version))),
        releases: releases.collect(),
    }
}

fn line(site: &Site<'_>, change: &Change) -> Line {
    let mut line = vec![owner_link(site, change.owner()), text(": ")];
    line.push(text(change.kind()));
    if let Some(part) = change.key.splitn(3, ' ').nth(2) {
        line.extend([text(" "), code(part)]);
    }
    match (&change.before, &change.after) {
        (None, Some(after)) if after == "listed" || after == "deprecated" => line.push(text(" added")),
        (None, Some(after)) => line.extend([text(" added: "), text(after.clone())]),
        (Some(_), None) => line.push(text(" removed")),
        (Some(before), Some(after)) => {
            line.extend([
                text(" changed from "),
                code(before.clone()),
                text(" to "),
                code(after.clone()),
            ]);
        }
        (None, None) => {}
    }
    if change.is_breaking() {
        line.push(text(" (breaking)"));
    }
    line
}

fn owner_link(site: &Site<'_>, owner: &str) -> Inline {
    if site.operation(owner).is_some() {
        code_link(owner, operation_target(owner))
    } else if site.schema(owner).is_some() {
        code_link(owner, schema_target(owner))
    } else {
        code(owner)
    }
}

/// Returns the page of changes, newest first.
pub(super) fn page(site: &Site<'_>, changelog: &Changelog) -> Page {
    let mut body = Vec::new();
    for release in changelog.releases.iter().rev() {
        body.push(Block::Heading(2, release.name.clone()));
        body.push(Block::Paragraph(vec![
            text("Compared with "),
            code(release.before.clone()),
            text("."),
        ]));
        changes(site, &release.changes, &mut body);
    }
    if let Some((name, count)) = &changelog.first {
        body.push(Block::Heading(2, name.clone()));
        body.push(Block::Paragraph(vec![text(format!(
            "First recorded version, with {count} operations."
        ))]));
    }
    let policy = "A change is breaking if a client of the version before can fail. Added attributes of responses \
                  and added values of enumerations are not breaking, so clients must accept both.";
    Page {
        path: "changelog".to_owned(),
        title: "Changes".to_owned(),
        description: "Differences between the published versions of the API.".to_owned(),
        above: Some(("Reference".to_owned(), format!("{BASE}/"))),
        lead: vec![
            Block::Paragraph(vec![text(
                "Differences between the published versions of the API, computed from the documents.",
            )]),
            Block::Paragraph(vec![text(policy)]),
        ],
        body,
        ..Page::default()
    }
}

fn changes(site: &Site<'_>, changes: &[Change], blocks: &mut Vec<Block>) {
    if changes.is_empty() {
        blocks.push(Block::Paragraph(vec![text("No differences.")]));
        return;
    }
    let is_operation = |change: &&Change| change.key.starts_with("operation ");
    let added = changes
        .iter()
        .filter(is_operation)
        .filter(|change| change.before.is_none());
    let added: Vec<_> = added
        .filter_map(|change| site.operation(change.owner()))
        .map(access::link_to)
        .collect();
    if !added.is_empty() {
        let summary = vec![text(format!("Added operations: {}", added.len()))];
        blocks.push(Block::Details(summary, vec![Block::Operations(added)]));
    }
    let rest = changes
        .iter()
        .filter(|change| !is_operation(change) || change.before.is_some());
    let (statuses, rest): (Vec<&Change>, Vec<&Change>) = rest.partition(|change| change.statuses().is_some());
    let (breaking, other): (Vec<&Change>, Vec<&Change>) =
        rest.into_iter().partition(|change| change.is_breaking());
    for (title, list) in [("Breaking changes", breaking), ("Other changes", other)] {
        if !list.is_empty() {
            let lines = list.iter().map(|change| line(site, change)).collect();
            let summary = vec![text(format!("{title}: {}", list.len()))];
            blocks.push(Block::Details(summary, vec![Block::List(lines)]));
        }
    }
    status_changes(site, &statuses, blocks);
}

/// Adds the changes of statuses: one line for all operations with the same change.
fn status_changes(site: &Site<'_>, changes: &[&Change], blocks: &mut Vec<Block>) {
    let mut groups: BTreeMap<(Vec<&str>, Vec<&str>), Vec<&str>> = BTreeMap::new();
    for change in changes {
        let Some(statuses) = change.statuses() else {
            continue;
        };
        let [added, removed] = statuses.map(|statuses| statuses.into_iter().collect());
        groups.entry((added, removed)).or_default().push(change.owner());
    }
    let lines: Vec<Line> = groups
        .into_iter()
        .map(|((added, removed), owners)| {
            let mut line = match owners.as_slice() {
                [owner] => vec![owner_link(site, owner), text(":")],
                _ => vec![text(format!("{} operations:", owners.len()))],
            };
            for (verb, statuses) in [("added", added), ("removed", removed)] {
                if !statuses.is_empty() {
                    line.push(text(format!(" {verb} {}", statuses.join(", "))));
                }
            }
            line
        })
        .collect();
    if !lines.is_empty() {
        blocks.push(Block::Details(
            vec![text("Changes of statuses")],
            vec![Block::List(lines)],
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn facts_are_read_as_they_were_written() {
        let state =
            json!({ "name": "state", "in": "query", "required": true, "schema": { "type": "string" } });
        let facts = facts(&json!({
            "paths": { "/keys": { "get": { "operationId": "list_keys", "parameters": [state] } } },
            "components": { "schemas": { "KeyKind": { "type": "string", "enum": ["a", "b c"] } } },
        }));
        assert_eq!(facts["parameter list_keys query state"], "string, required");
        assert_eq!(parse(&format(&facts)), facts);
    }
}
