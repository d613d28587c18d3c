//! Pages about all operations: the first page, tags, roles and errors.

use serde_json::Value;

use super::block::{Block, Code, RoleGroup, code, code_link, link, text};
use super::guide::Guide;
use super::operation::Common;
use super::page::Page;
use super::site::{BASE, Site, entries, reference, tag_target};
use super::{access, prose, sample};

/// Returns the first page.
pub(super) fn start(site: &Site<'_>, guides: &[Guide]) -> Page {
    let summary = site.root["info"]["x-summary"].as_str().unwrap_or_default();
    let introduction = site.root["info"]["description"].as_str().unwrap_or_default();
    let introduction = introduction.split("\n## ").next().unwrap_or_default();
    let mut page = Page {
        title: "Holdfast API".to_owned(),
        description: summary.to_owned(),
        ..Page::default()
    };
    page.lead.extend(prose::blocks(site, introduction));
    page.lead.push(Block::Heading(2, "First request".to_owned()));
    let line = vec![
        text("Create a token with the scope "),
        code("api"),
        text(", as described in "),
        link("Authentication", format!("{BASE}/guide/authentication")),
        text(". The samples read the URL of the server and the token from the environment."),
    ];
    page.lead.push(Block::Paragraph(line));
    let lines = "export HOLDFAST=http://127.0.0.1:8080\nexport TOKEN=token-of-a-user".to_owned();
    page.lead.push(Block::Code(Code {
        language: "sh",
        text: lines,
    }));
    let first = ["list_projects", "get_version"]
        .into_iter()
        .find_map(|id| site.operation(id));
    page.lead
        .extend(first.map(|operation| Block::Samples(sample::samples(site, operation).into())));
    page.body.push(Block::Heading(2, "Guides".to_owned()));
    let line = |guide: &Guide| {
        vec![
            link(guide.title.clone(), guide.target()),
            text(format!(": {}", guide.description)),
        ]
    };
    page.body.push(Block::List(guides.iter().map(line).collect()));
    page.body.push(Block::Heading(2, "Operations".to_owned()));
    for (group, tags) in &site.groups {
        page.body.push(Block::Heading(3, (*group).to_owned()));
        let lines = tags.iter().map(|tag| {
            let description = site.tags.get(tag).copied().unwrap_or_default();
            let mut line = vec![link(*tag, tag_target(tag)), text(": ")];
            line.extend(prose::line_of(site, description));
            line
        });
        page.body.push(Block::List(lines.collect()));
    }
    page
}

/// Returns the page of a tag.
pub(super) fn tag(site: &Site<'_>, name: &str) -> Page {
    let description = site.tags.get(name).copied().unwrap_or_default();
    Page {
        path: tag_target(name)
            .trim_start_matches(BASE)
            .trim_start_matches('/')
            .to_owned(),
        title: name.to_owned(),
        description: prose::first_sentence(description),
        above: site
            .group_of(name)
            .map(|group| (group.to_owned(), format!("{BASE}/"))),
        tag: Some(name.to_owned()),
        lead: prose::blocks(site, description),
        body: vec![
            Block::Heading(2, "Operations".to_owned()),
            Block::Operations(site.operations_of(name).map(access::link_to).collect()),
        ],
        ..Page::default()
    }
}

/// Returns the table of roles.
pub(super) fn roles(site: &Site<'_>) -> Page {
    let groups = site
        .groups
        .iter()
        .flat_map(|(_, tags)| tags)
        .map(|tag| RoleGroup {
            tag: (*tag).to_owned(),
            target: tag_target(tag),
            rows: site
                .operations_of(tag)
                .map(|one| (access::link_to(one), access::callers(one)))
                .collect(),
        });
    let line = vec![
        text("The callers of each operation. The value "),
        code("public"),
        text(
            " means on public projects and groups. The pages of the operations describe further conditions.",
        ),
    ];
    Page {
        path: "roles".to_owned(),
        title: "Roles".to_owned(),
        description: "Table of the callers of each operation.".to_owned(),
        lead: vec![Block::Paragraph(line)],
        body: vec![Block::Roles(groups.collect())],
        ..Page::default()
    }
}

/// Returns the page of errors.
pub(super) fn errors(site: &Site<'_>, common: &Common<'_>) -> Page {
    let mut page = Page {
        path: "errors".to_owned(),
        title: "Errors".to_owned(),
        description: "Responses that several operations share.".to_owned(),
        ..Page::default()
    };
    let line = vec![
        text("Responses that several operations share. The guide "),
        link("Errors", format!("{BASE}/guide/errors")),
        text(" describes the body."),
    ];
    page.lead.push(Block::Paragraph(line));
    for (name, response) in entries(&site.root["components"]["responses"]) {
        error(site, name, response, common, &mut page.body);
    }
    page
}

fn error(site: &Site<'_>, name: &str, response: &Value, common: &Common<'_>, blocks: &mut Vec<Block>) {
    let users = site.operations.iter().filter_map(|operation| {
        let mut responses = entries(&operation.value["responses"]);
        responses
            .find(|(_, one)| reference(one) == Some(name))
            .map(|(status, _)| (status, operation))
    });
    let users: Vec<_> = users.collect();
    let status = users.first().map_or("", |(status, _)| status);
    blocks.push(Block::Heading(2, name.to_owned()));
    blocks.push(Block::Paragraph(vec![text("Status "), code(status)]));
    blocks.extend(prose::blocks(
        site,
        response["description"].as_str().unwrap_or_default(),
    ));
    for (media, content) in entries(&response["content"]) {
        if let Some(example) = content.get("example") {
            blocks.push(Block::Paragraph(vec![code(media)]));
            blocks.push(Block::Code(Code {
                language: "json",
                text: sample::pretty(example),
            }));
        }
    }
    if common.contains(name) {
        blocks.push(Block::Paragraph(vec![text(
            "Nearly all operations can return this response.",
        )]));
        return;
    }
    let mut line = Vec::new();
    for (_, operation) in &users {
        if !line.is_empty() {
            line.push(text(", "));
        }
        line.push(code_link(operation.id, operation.target()));
    }
    let summary = vec![text(format!("Operations with this response: {}", users.len()))];
    blocks.push(Block::Details(summary, vec![Block::Paragraph(line)]));
}

/// Returns the page for unknown addresses.
pub(super) fn not_found() -> Page {
    Page {
        path: "not-found".to_owned(),
        title: "Page not found".to_owned(),
        description: "The documentation has no page with this address.".to_owned(),
        lead: vec![Block::Paragraph(vec![
            text("The documentation has no page with this address. Search for a page, or open the "),
            link("first page", format!("{BASE}/")),
            text("."),
        ])],
        ..Page::default()
    }
}
