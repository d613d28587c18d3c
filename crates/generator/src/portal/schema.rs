//! Pages of schemas.

use std::collections::BTreeMap;

use serde_json::Value;

use super::block::{Attribute, Block, Code, Line, code, code_link, link, text};
use super::page::Page;
use super::site::{BASE, Site, entries, items, reference, schema_target};
use super::{access, attributes, prose, sample};

/// Returns the page of a schema.
pub(super) fn page(site: &Site<'_>, name: &str, schema: &Value) -> Page {
    let source = schema["description"].as_str().unwrap_or_default();
    let mut page = Page {
        path: format!("schema/{name}"),
        title: name.to_owned(),
        description: prose::first_sentence(source),
        above: Some(("Schemas".to_owned(), format!("{BASE}/schemas"))),
        tag: tag_of(site, name),
        ..Page::default()
    };
    page.lead.extend(prose::blocks(site, source));
    if let Some(address) = schema["externalDocs"]["url"].as_str() {
        let label = schema["externalDocs"]["description"].as_str().unwrap_or(address);
        page.lead.push(Block::Paragraph(vec![link(label, address)]));
    }
    if let Some(value) = example(site, name) {
        let text = sample::pretty(value);
        page.side.push(Block::Heading(2, "Example".to_owned()));
        page.side.push(Block::Code(Code {
            language: "json",
            text,
        }));
    }
    content(site, schema, &mut page.body);
    used_by(site, name, &mut page.body);
    page
}

fn content<'a>(site: &Site<'a>, schema: &'a Value, blocks: &mut Vec<Block>) {
    let list = attributes::of_response(site, schema, "attribute");
    let values: Vec<Attribute> = values(schema);
    if !list.is_empty() {
        blocks.push(Block::Heading(2, "Attributes".to_owned()));
        blocks.push(Block::Attributes(list));
    } else if !values.is_empty() {
        blocks.push(Block::Heading(2, "Values".to_owned()));
        blocks.push(Block::Attributes(values));
    } else {
        let mut line = vec![text("Type: ")];
        line.extend(attributes::kind(site, schema));
        blocks.push(Block::Paragraph(line));
    }
}

/// Returns the values of an enum, with the names of integers.
fn values(schema: &Value) -> Vec<Attribute> {
    let values = items(&schema["enum"]).enumerate().map(|(at, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let name = schema["x-enum-varnames"][at].as_str();
        Attribute {
            anchor: format!("value-{value}"),
            kind: name.map_or_else(Line::new, |name| vec![code(name)]),
            name: value,
            ..Attribute::default()
        }
    });
    values.collect()
}

fn used_by(site: &Site<'_>, name: &str, blocks: &mut Vec<Block>) {
    let Some(users) = site.users_of(name) else { return };
    if !users.schemas.is_empty() {
        blocks.push(Block::Heading(2, "Used by schemas".to_owned()));
        let links = users
            .schemas
            .iter()
            .map(|user| vec![code_link(*user, schema_target(user))]);
        blocks.push(Block::List(links.collect()));
    }
    let operations: Vec<_> = users
        .operations
        .iter()
        .filter_map(|id| site.operation(id))
        .collect();
    if !operations.is_empty() {
        blocks.push(Block::Heading(2, "Used by operations".to_owned()));
        blocks.push(Block::Operations(
            operations.into_iter().map(access::link_to).collect(),
        ));
    }
}

/// Returns the tag of most operations that use a schema, directly or within another schema.
fn tag_of(site: &Site<'_>, name: &str) -> Option<String> {
    let mut next = vec![name];
    let mut known = next.clone();
    while let Some(name) = next.pop() {
        let Some(users) = site.users_of(name) else {
            continue;
        };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for operation in users.operations.iter().filter_map(|id| site.operation(id)) {
            *counts.entry(operation.tag).or_default() += 1;
        }
        if let Some((tag, _)) = counts.into_iter().max_by_key(|(_, count)| *count) {
            return Some(tag.to_owned());
        }
        for user in &users.schemas {
            if !known.contains(user) {
                known.push(user);
                next.push(user);
            }
        }
    }
    None
}

/// Returns the example of a schema from a response or a body of an operation.
fn example<'a>(site: &Site<'a>, name: &str) -> Option<&'a Value> {
    let operations = site
        .users_of(name)?
        .operations
        .iter()
        .filter_map(|id| site.operation(id));
    let mut contents = operations.flat_map(|operation| {
        let responses = entries(&operation.value["responses"]).map(|(_, response)| response);
        let parts = responses.chain([&operation.value["requestBody"]]);
        parts.flat_map(|part| entries(&part["content"]).map(|(_, content)| content))
    });
    contents.find_map(|content| {
        let (schema, example) = (&content["schema"], content.get("example")?);
        match reference(schema) == Some(name) {
            true => Some(example),
            false if reference(&schema["items"]) == Some(name) => example.get(0),
            false => None,
        }
    })
}

/// Returns the list of all schemas.
pub(super) fn list(site: &Site<'_>) -> Page {
    let rows = site.schemas().map(|(name, schema)| {
        let description = prose::first_sentence(schema["description"].as_str().unwrap_or_default());
        vec![
            vec![code_link(name, schema_target(name))],
            vec![text(description)],
        ]
    });
    let mut rows: Vec<Vec<Line>> = rows.collect();
    rows.sort_by_key(|row| prose::plain(&row[0]));
    Page {
        path: "schemas".to_owned(),
        title: "Schemas".to_owned(),
        description: "Objects and values in requests and responses.".to_owned(),
        lead: vec![Block::Paragraph(vec![text(
            "Objects and values in requests and responses.",
        )])],
        body: vec![Block::Table {
            head: vec!["Schema".to_owned(), "Description".to_owned()],
            rows,
        }],
        ..Page::default()
    }
}
