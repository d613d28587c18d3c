//! Index for the search, and lists of all pages for programs.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Value, json};

use super::guide::Guide;
use super::markdown;
use super::page::Page;
use super::site::{BASE, Site, entries, operation_target, schema_target, tag_target};

/// Returns the index as JSON. Each entry has the kind, the name, the title, the path and further words.
pub(super) fn index(site: &Site<'_>, guides: &[Guide]) -> Vec<u8> {
    let tags: Vec<&str> = site
        .groups
        .iter()
        .flat_map(|(_, tags)| tags.iter().copied())
        .collect();
    let operations: Vec<Value> = site
        .operations
        .iter()
        .map(|operation| {
            let path = operation.path.strip_prefix("/api/v4").unwrap_or(operation.path);
            let tag = tags.iter().position(|tag| *tag == operation.tag);
            let names: BTreeSet<&str> = operation
                .parameters
                .iter()
                .filter(|parameter| parameter["in"] == "query")
                .filter_map(|parameter| parameter["name"].as_str())
                .filter(|name| !matches!(*name, "page" | "per_page"))
                .collect();
            let names: Vec<&str> = names.into_iter().collect();
            json!([
                operation.id,
                operation.method.to_uppercase(),
                path,
                operation.summary,
                tag,
                names.join(" ")
            ])
        })
        .collect();
    let schemas: Vec<Value> = site
        .schemas()
        .map(|(name, schema)| {
            let names: Vec<&str> = entries(&schema["properties"]).map(|(name, _)| name).collect();
            json!([name, names.join(" ")])
        })
        .collect();
    let guides: Vec<Value> = guides
        .iter()
        .map(|guide| json!([guide.name, guide.title]))
        .collect();
    let index = json!({ "tags": tags, "operations": operations, "schemas": schemas, "guides": guides });
    index.to_string().into_bytes()
}

/// Returns the list of all pages for language models (`llms.txt`).
pub(super) fn llms(site: &Site<'_>, guides: &[Guide]) -> String {
    let summary = site.root["info"]["x-summary"].as_str().unwrap_or_default();
    let mut text = format!("# Holdfast API\n\n> {summary}\n\n");
    let _ = writeln!(
        text,
        "All operations as one text: {BASE}/llms-full.txt\n\n## Guides\n"
    );
    for guide in guides {
        let _ = writeln!(
            text,
            "- [{}]({}.md): {}",
            guide.title,
            guide.target(),
            guide.description
        );
    }
    for tag in site.groups.iter().flat_map(|(_, tags)| tags) {
        let _ = writeln!(text, "\n## [{tag}]({}.md)\n", tag_target(tag));
        for operation in site.operations_of(tag) {
            let (target, method) = (operation_target(operation.id), operation.method.to_uppercase());
            let _ = writeln!(
                text,
                "- [{}]({target}.md): {method} {}",
                operation.summary, operation.path
            );
        }
    }
    let _ = writeln!(text, "\n## Schemas\n");
    for (name, _) in site.schemas() {
        let _ = writeln!(text, "- [{name}]({}.md)", schema_target(name));
    }
    text
}

/// Returns all guides and operations as one text.
pub(super) fn complete(pages: &[Page]) -> String {
    let is_part = |page: &&Page| page.path.starts_with("guide/") || page.path.starts_with("operation/");
    pages
        .iter()
        .filter(is_part)
        .map(markdown::part)
        .collect::<Vec<_>>()
        .join("\n")
}
