//! Facts about a document, the differences between the facts of two documents, and the page of changes.
//!
//! A fact is a line `key = value`, such as `parameter list_issues query state = IssueStateFilter`. The folder
//! `openapi/history` contains the facts of each published version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::block::{Block, Inline, Line, code, code_link, text};
use super::page::Page;
use super::site::{BASE, Operation, Site, entries, items, operation_target, schema_target};
use super::{access, attributes, prose};

/// Folder of the facts, relative to the folder of the contract.
const FOLDER: &str = "history";
/// End of the name of a file with facts.
const EXTENSION: &str = ".txt.gz";
/// Start of the keys of the statuses of operations.
const STATUSES: &str = "statuses ";
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

/// A difference between two documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key of the fact.
    pub key: String,
    /// The former value, if the fact existed.
    pub before: Option<String>,
    /// The new value, if the fact exists.
    pub after: Option<String>,
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

/// Returns the differences between two documents. Parts of new and removed operations and schemas are no differences.
#[must_use]
pub fn compare(before: &Facts, after: &Facts) -> Vec<Change> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let (known, current) = (owners(before), owners(after));
    let changes = keys.into_iter().filter_map(|key| {
        let (old, new) = (before.get(key), after.get(key));
        let owner = owner(key);
        let is_whole = key.starts_with("operation ");
        let in_both = known.contains(owner) && current.contains(owner);
        (old != new && (is_whole || in_both)).then(|| Change {
            key: key.clone(),
            before: old.cloned(),
            after: new.cloned(),
        })
    });
    changes.collect()
}

/// Returns the second word of a key: an operation ID or the name of a schema.
fn owner(key: &str) -> &str {
    key.split(' ').nth(1).unwrap_or_default()
}

fn owners(facts: &Facts) -> BTreeSet<&str> {
    facts.keys().map(|key| owner(key)).collect()
}

impl Change {
    /// Returns the operation ID or the name of the schema.
    #[must_use]
    pub fn owner(&self) -> &str {
        owner(&self.key)
    }

    /// Returns whether clients of the former document can fail: a part was removed, a parameter became required, or an
    /// operation needs other permissions.
    #[must_use]
    pub fn is_breaking(&self) -> bool {
        let kind = self.key.split(' ').next().unwrap_or_default();
        let is_required =
            |value: &Option<String>| value.as_ref().is_some_and(|value| value.ends_with(", required"));
        match (kind, &self.before, &self.after) {
            ("deprecation" | "statuses", ..) => false,
            ("plan" | "scopes", ..) => true,
            (_, Some(_), None) => true,
            ("parameter", ..) => is_required(&self.after) && !is_required(&self.before),
            ("operation" | "access" | "body" | "response", Some(_), Some(_)) => true,
            _ => false,
        }
    }

    fn line(&self, site: &Site<'_>) -> Line {
        let mut line = vec![owner_link(site, self.owner()), text(": ")];
        let kind = self.key.split(' ').next().unwrap_or_default();
        line.push(text(kind));
        if let Some((_, part)) = self.key.splitn(3, ' ').nth(2).map(|part| ((), part)) {
            line.extend([text(" "), code(part)]);
        }
        match (&self.before, &self.after) {
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
        if self.is_breaking() {
            line.push(text(" (breaking)"));
        }
        line
    }
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
pub(super) fn page(site: &Site<'_>, versions: &[Version]) -> Page {
    let current = Version {
        name: "Unreleased".to_owned(),
        facts: facts(site.root),
    };
    let all: Vec<&Version> = versions.iter().chain([&current]).collect();
    let mut body = Vec::new();
    for pair in all.windows(2).rev() {
        let [before, after] = pair else { continue };
        body.push(Block::Heading(2, after.name.clone()));
        body.push(Block::Paragraph(vec![
            text("Compared with "),
            code(before.name.clone()),
            text("."),
        ]));
        changes(site, &compare(&before.facts, &after.facts), &mut body);
    }
    if let Some(first) = all.first().filter(|_| !versions.is_empty()) {
        let count = first
            .facts
            .keys()
            .filter(|key| key.starts_with("operation "))
            .count();
        body.push(Block::Heading(2, first.name.clone()));
        body.push(Block::Paragraph(vec![text(format!(
            "First recorded version, with {count} operations."
        ))]));
    }
    Page {
        path: "changelog".to_owned(),
        title: "Changes".to_owned(),
        description: "Differences between the published versions of the API.".to_owned(),
        above: Some(("Reference".to_owned(), format!("{BASE}/"))),
        lead: vec![Block::Paragraph(vec![text(
            "Differences between the published versions of the API, computed from the documents.",
        )])],
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
    let (statuses, rest): (Vec<&Change>, Vec<&Change>) =
        rest.partition(|change| change.key.starts_with(STATUSES));
    let (breaking, other): (Vec<&Change>, Vec<&Change>) =
        rest.into_iter().partition(|change| change.is_breaking());
    for (title, list) in [("Breaking changes", breaking), ("Other changes", other)] {
        if !list.is_empty() {
            let lines = list.iter().map(|change| change.line(site)).collect();
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
        let [before, after] = [&change.before, &change.after].map(|value| {
            value
                .as_deref()
                .unwrap_or_default()
                .split(' ')
                .collect::<BTreeSet<&str>>()
        });
        let added = after.difference(&before).copied().collect();
        let removed = before.difference(&after).copied().collect();
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

    fn document(parameters: &Value, values: &Value) -> Facts {
        facts(&json!({
            "paths": { "/keys": { "get": {
                "operationId": "list_keys", "tags": ["Keys"], "parameters": parameters,
                "x-access": { "on": "project", "min": "guest" }, "responses": { "200": {} },
            } } },
            "components": { "schemas": { "KeyKind": { "type": "string", "enum": values } } },
        }))
    }

    fn state(required: bool) -> Value {
        json!([{ "name": "state", "in": "query", "required": required, "schema": { "type": "string" } }])
    }

    fn found(before: &Facts, after: &Facts) -> Vec<(String, bool)> {
        let changes = compare(before, after);
        changes
            .iter()
            .map(|change| (change.key.clone(), change.is_breaking()))
            .collect()
    }

    #[test]
    fn facts_are_read_as_they_were_written() {
        let facts = document(&state(true), &json!(["a", "b c"]));
        assert_eq!(facts["parameter list_keys query state"], "string, required");
        assert_eq!(parse(&format(&facts)), facts);
    }

    #[test]
    fn removed_and_newly_required_parts_are_breaking() {
        let (none, one, both) = (json!([]), json!(["a"]), json!(["a", "b"]));
        let change = |key: &str, breaking| vec![(key.to_owned(), breaking)];
        let parameter = "parameter list_keys query state";
        for (before, after, expected) in [
            (
                document(&none, &one),
                document(&state(false), &one),
                change(parameter, false),
            ),
            (
                document(&none, &one),
                document(&state(true), &one),
                change(parameter, true),
            ),
            (
                document(&state(false), &one),
                document(&state(true), &one),
                change(parameter, true),
            ),
            (
                document(&state(true), &one),
                document(&state(false), &one),
                change(parameter, false),
            ),
            (
                document(&state(false), &one),
                document(&none, &one),
                change(parameter, true),
            ),
            (
                document(&none, &one),
                document(&none, &both),
                change("value KeyKind b", false),
            ),
            (
                document(&none, &both),
                document(&none, &one),
                change("value KeyKind b", true),
            ),
            (document(&none, &both), document(&none, &both), Vec::new()),
        ] {
            assert_eq!(found(&before, &after), expected);
        }
    }

    #[test]
    fn parts_of_new_operations_are_no_changes() {
        let document = document(&state(true), &json!(["a"]));
        assert_eq!(
            found(&Facts::new(), &document),
            [("operation list_keys".to_owned(), false)]
        );
        assert_eq!(
            found(&document, &Facts::new()),
            [("operation list_keys".to_owned(), true)]
        );
    }
}
