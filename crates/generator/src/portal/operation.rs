//! Page of an operation.

use std::collections::BTreeMap;

use serde_json::Value;

use super::block::{Attribute, Block, Code, Line, TryIt, code, link, text};
use super::history::{Change, Changelog, version_target};
use super::page::Page;
use super::site::{BASE, Operation, Site, entries, items, reference, tag_target};
use super::{access, attributes, prose, sample};

/// Returns the page of an operation.
pub(super) fn page(
    site: &Site<'_>,
    operation: &Operation<'_>,
    common: &Common<'_>,
    changelog: &Changelog,
) -> Page {
    let source = operation.value["description"].as_str().unwrap_or_default();
    let mut page = Page {
        path: format!("operation/{}", operation.id),
        title: operation.summary.to_owned(),
        description: prose::first_sentence(source),
        above: Some((operation.tag.to_owned(), tag_target(operation.tag))),
        tag: Some(operation.tag.to_owned()),
        ..Page::default()
    };
    page.lead.push(Block::Endpoint {
        method: operation.method.to_uppercase(),
        path: operation.path.to_owned(),
        id: operation.id.to_owned(),
    });
    if operation.is_deprecated() {
        page.lead.push(Block::Notice(deprecation(site, operation)));
    }
    page.lead.extend(prose::blocks(site, source));
    let mut facts = access::facts(operation);
    facts.extend(changed(operation, common, changelog));
    page.lead.push(Block::Facts(facts));
    page.lead.push(Block::Callers(access::callers(operation)));
    page.side
        .push(Block::Samples(sample::samples(site, operation).into()));
    page.side.push(Block::Paragraph(variables(site, operation)));
    page.side.push(try_it(site, operation));
    page.side
        .extend(response_example(operation).into_iter().flatten());
    parameters(site, operation, &mut page.body);
    body(site, operation, &mut page.body);
    responses(site, operation, common, &mut page.body);
    linked(site, operation, &mut page.body);
    neighbors(site, operation, &mut page);
    page
}

/// Returns the variables of the samples.
fn variables(site: &Site<'_>, operation: &Operation<'_>) -> Line {
    let mut line = vec![text("Set "), code("HOLDFAST")];
    if !operation.ignores_credentials() {
        line.extend([text(" and "), code("TOKEN")]);
    }
    line.extend([
        text(" as in the "),
        link("first request", format!("{BASE}/#first-request")),
        text("."),
    ]);
    for name in sample::request(site, operation).variables() {
        let description = site.samples.and_then(|samples| samples.variable(&name));
        if let Some(description) = description {
            line.extend(prose::line_of(site, &format!(" `{name}` is {description}.")));
        }
    }
    line
}

/// Returns the newest version that changed or added an operation. New responses that nearly all operations share are no
/// changes of the operation.
fn changed(
    operation: &Operation<'_>,
    common: &Common<'_>,
    changelog: &Changelog,
) -> Option<(&'static str, Line)> {
    let is_common = |change: &Change| {
        let statuses = change.statuses();
        statuses.is_some_and(|both| both.iter().flatten().all(|status| common.has_status(status)))
    };
    let mut changes = changelog
        .of(operation.id)
        .filter(|(_, change)| !is_common(change));
    let (version, change) = changes.next()?;
    let is_new = change.kind() == "operation" && change.before.is_none();
    let label = if is_new { "Added in" } else { "Changed in" };
    Some((label, vec![link(version, version_target(version))]))
}

/// Returns since when an operation is deprecated, when it will be removed, and the link to its replacement.
fn deprecation(site: &Site<'_>, operation: &Operation<'_>) -> Line {
    let field = |name: &str| {
        operation.value["x-deprecation"][name]
            .as_str()
            .unwrap_or_default()
    };
    let mut line = vec![text(format!(
        "This operation is deprecated since version {} of the API. Version {} removes the operation. Use ",
        field("since"),
        field("removal")
    ))];
    let replacement = site.operation(field("use"));
    line.extend(replacement.map(|one| link(one.summary, one.target())));
    line.push(text("."));
    line
}

/// Responses that nearly all operations share. The pages of operations do not describe them.
pub(super) struct Common<'a> {
    responses: Vec<(&'a str, &'a str)>,
}

impl<'a> Common<'a> {
    /// Returns the responses that at least nine of ten operations have.
    pub(super) fn of(site: &Site<'a>) -> Self {
        let mut counts: BTreeMap<(&'a str, &'a str), usize> = BTreeMap::new();
        for operation in &site.operations {
            for (status, response) in entries(&operation.value["responses"]) {
                if let Some(name) = reference(response) {
                    *counts.entry((status, name)).or_default() += 1;
                }
            }
        }
        let limit = site.operations.len() * 9 / 10;
        let common = counts.into_iter().filter(|(_, count)| *count >= limit.max(1));
        Self {
            responses: common.map(|(response, _)| response).collect(),
        }
    }

    /// Returns whether a common response has this status.
    fn has_status(&self, status: &str) -> bool {
        self.responses.iter().any(|(known, _)| *known == status)
    }

    /// Returns whether a response with a name is common.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.responses.iter().any(|(_, known)| *known == name)
    }
}

fn parameters(site: &Site<'_>, operation: &Operation<'_>, blocks: &mut Vec<Block>) {
    let list = attributes::parameters(site, operation);
    if !list.is_empty() {
        blocks.push(Block::Heading(2, "Parameters".to_owned()));
        blocks.push(Block::Attributes(list));
    }
}

fn body(site: &Site<'_>, operation: &Operation<'_>, blocks: &mut Vec<Block>) {
    let content = &operation.value["requestBody"]["content"];
    if content.is_null() {
        return;
    }
    blocks.push(Block::Heading(2, "Body".to_owned()));
    if let Some((media, json)) = sample::json_body(operation) {
        let mut line = vec![code(media), text(": ")];
        line.extend(attributes::kind(site, &json["schema"]));
        blocks.push(Block::Paragraph(line));
        blocks.extend(schema_description(site, &json["schema"]));
        for list in items(&operation.value["x-one-of"]) {
            let names: Vec<&str> = items(list).filter_map(Value::as_str).collect();
            let mut line = vec![text("Exactly one of these attributes is required: ")];
            for (at, name) in names.into_iter().enumerate() {
                if at > 0 {
                    line.push(text(", "));
                }
                line.push(code(name));
            }
            line.push(text("."));
            blocks.push(Block::Paragraph(line));
        }
        let list = attributes::of_object(site, &json["schema"], "body", 0);
        push_attributes(list, blocks);
    }
    if let Some(form) = content.get("multipart/form-data") {
        let mut line = vec![code("multipart/form-data"), text(": ")];
        line.extend(attributes::kind(site, &form["schema"]));
        blocks.push(Block::Paragraph(line));
        blocks.extend(schema_description(site, &form["schema"]));
        push_attributes(attributes::of_form(site, &form["schema"]), blocks);
    }
}

fn push_attributes(list: Vec<Attribute>, blocks: &mut Vec<Block>) {
    if !list.is_empty() {
        blocks.push(Block::Attributes(list));
    }
}

fn schema_description(site: &Site<'_>, schema: &Value) -> Vec<Block> {
    prose::blocks(
        site,
        site.deref(schema)["description"].as_str().unwrap_or_default(),
    )
}

fn responses(site: &Site<'_>, operation: &Operation<'_>, common: &Common<'_>, blocks: &mut Vec<Block>) {
    blocks.push(Block::Heading(2, "Responses".to_owned()));
    let (mut rows, mut folded) = (Vec::new(), Vec::new());
    for (status, response) in entries(&operation.value["responses"]) {
        match reference(response) {
            Some(name) if common.contains(name) => folded.push(status),
            Some(name) => {
                let description = site.deref(response)["description"].as_str().unwrap_or_default();
                let status = link(status, error_target(name));
                rows.push(vec![vec![status], prose::line_of(site, description)]);
            }
            None => success(site, status, response, blocks),
        }
    }
    if !rows.is_empty() {
        blocks.push(Block::Table {
            head: vec!["Status".to_owned(), "Condition".to_owned()],
            rows,
        });
    }
    if !folded.is_empty() {
        let line = vec![
            link("Common errors", format!("{BASE}/errors")),
            text(format!(": {}.", folded.join(", "))),
        ];
        blocks.push(Block::Paragraph(line));
    }
}

/// Returns the address of a shared response.
pub(super) fn error_target(name: &str) -> String {
    use heck::ToKebabCase;
    format!("{BASE}/errors#{}", name.to_kebab_case())
}

/// Adds a response that the operation describes itself.
fn success(site: &Site<'_>, status: &str, response: &Value, blocks: &mut Vec<Block>) {
    blocks.push(Block::Heading(3, format!("Status {status}")));
    let description = response["description"].as_str().unwrap_or_default();
    let mut line = prose::line_of(site, description);
    for (media, content) in entries(&response["content"]) {
        line.extend([text(" "), code(media), text(": ")]);
        line.extend(attributes::kind(site, &content["schema"]));
    }
    blocks.push(Block::Paragraph(line));
    let schema = entries(&response["content"])
        .next()
        .map(|(_, content)| &content["schema"]);
    let item = schema.map(|schema| {
        if schema["type"] == "array" {
            &schema["items"]
        } else {
            schema
        }
    });
    if let Some(item) = item {
        let list = attributes::of_response(site, item, &format!("response-{status}"));
        if !list.is_empty() {
            let name = reference(item).unwrap_or("the response");
            let summary = vec![text("Attributes of "), code(name)];
            blocks.push(Block::Details(summary, vec![Block::Attributes(list)]));
        }
    }
    let rows: Vec<Vec<Line>> = entries(&response["headers"])
        .map(|(name, header)| {
            let description = site.deref(header)["description"].as_str().unwrap_or_default();
            vec![vec![code(name)], prose::line_of(site, description)]
        })
        .collect();
    if !rows.is_empty() {
        let head = vec!["Header".to_owned(), "Description".to_owned()];
        blocks.push(Block::Details(
            vec![text("Headers")],
            vec![Block::Table { head, rows }],
        ));
    }
}

/// Returns the example of the first response with an example.
fn response_example(operation: &Operation<'_>) -> Option<[Block; 2]> {
    let responses =
        entries(&operation.value["responses"]).filter(|(_, response)| reference(response).is_none());
    let mut examples = responses.flat_map(|(status, response)| {
        entries(&response["content"]).filter_map(move |(_, content)| Some((status, content.get("example")?)))
    });
    let (status, example) = examples.next()?;
    let code = Code {
        language: "json",
        text: sample::pretty(example),
    };
    Some([Block::Heading(2, format!("Response {status}")), Block::Code(code)])
}

/// Adds links to the operations that accept values of the response.
fn linked(site: &Site<'_>, operation: &Operation<'_>, blocks: &mut Vec<Block>) {
    let responses = entries(&operation.value["responses"]);
    let ids = responses.flat_map(|(_, response)| entries(&response["links"]).map(|(id, _)| id));
    let links: Vec<_> = ids
        .filter_map(|id| site.operation(id))
        .map(access::link_to)
        .collect();
    if !links.is_empty() {
        blocks.push(Block::Heading(2, "Next operations".to_owned()));
        let line = vec![text("The response contains the parameters of these operations.")];
        blocks.push(Block::Paragraph(line));
        blocks.push(Block::Operations(links));
    }
}

fn neighbors(site: &Site<'_>, operation: &Operation<'_>, page: &mut Page) {
    let list: Vec<&Operation<'_>> = site.operations_of(operation.tag).collect();
    let Some(at) = list.iter().position(|one| one.id == operation.id) else {
        return;
    };
    let neighbor = |at: Option<usize>| {
        let found = at.and_then(|at| list.get(at));
        found.map(|one| (one.summary.to_owned(), one.target()))
    };
    page.previous = neighbor(at.checked_sub(1));
    page.next = neighbor(Some(at + 1));
}

fn try_it(site: &Site<'_>, operation: &Operation<'_>) -> Block {
    let json = sample::json_body(operation);
    let confirmation = match (operation.method, operation.access("min")) {
        ("delete", _) => "This request deletes data.",
        ("get" | "head", _) => "",
        (_, "admin") => "This request changes the instance.",
        _ => "",
    };
    Block::TryIt(TryIt {
        method: operation.method.to_uppercase(),
        path: operation.path.to_owned(),
        media_type: json.map_or_else(String::new, |(media, _)| media.to_owned()),
        example: sample::form_example(site, operation)
            .as_ref()
            .map_or_else(String::new, sample::pretty),
        scheme: if operation.access("on") == "scim" {
            "Bearer"
        } else {
            "Private-Token"
        },
        confirmation,
    })
}
