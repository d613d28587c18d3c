//! Guides: texts of `openapi/guides`, sections of the description of the document, webhooks and workflows.

use std::path::Path;

use super::block::{Block, Code, code, text};
use super::page::Page;
use super::site::{BASE, Site, entries};
use super::{attributes, prose, sample};
use crate::workflows::Workflows;

/// Folder of the guides, relative to the folder of the contract.
const FOLDER: &str = "guides";
/// Line of a guide that is replaced by a section of the description of the document.
const SECTION: &str = "<!-- section: ";
/// Line of a guide that is replaced by the webhooks.
const WEBHOOKS: &str = "<!-- webhooks -->";
/// Line of a guide that is replaced by the workflows.
const WORKFLOWS: &str = "<!-- workflows -->";
/// Names of the guides in their order. All other guides follow.
const ORDER: [&str; 10] = [
    "authentication",
    "requests",
    "paging",
    "errors",
    "roles",
    "rate-limits",
    "revalidation",
    "webhooks",
    "workflows",
    "sdks",
];

/// A guide before its links are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guide {
    /// The name of the file without its extension.
    pub name: String,
    /// The title.
    pub title: String,
    /// The first sentence.
    pub description: String,
    /// The text after the title.
    pub text: String,
}

impl Guide {
    /// Returns the address of the page.
    pub(super) fn target(&self) -> String {
        format!("{BASE}/guide/{}", self.name)
    }
}

/// Returns the guides of a contract; none without a folder of guides.
///
/// # Errors
/// A guide that cannot be read, has no title, or names an unknown section of the description.
pub fn load(folder: &Path, description: &str, workflows: Option<&Workflows>) -> Result<Vec<Guide>, String> {
    let workflows = workflows.map(Workflows::guide).unwrap_or_default();
    let folder = folder.join(FOLDER);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut guides = Vec::new();
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("openapi/{FOLDER}: {error}"))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "md") {
            let source = std::fs::read_to_string(&path);
            let guide = source
                .map_err(|error| error.to_string())
                .and_then(|source| guide(name, &source.replace(WORKFLOWS, &workflows), description));
            guides.push(guide.map_err(|error| format!("openapi/{FOLDER}/{name}.md: {error}\n"))?);
        }
    }
    let position = |guide: &Guide| {
        ORDER
            .iter()
            .position(|name| *name == guide.name)
            .unwrap_or(ORDER.len())
    };
    guides.sort_by_key(|guide| (position(guide), guide.name.clone()));
    Ok(guides)
}

fn guide(name: &str, source: &str, description: &str) -> Result<Guide, String> {
    let (first, rest) = source.split_once('\n').unwrap_or((source, ""));
    let title = first
        .strip_prefix("# ")
        .ok_or("the first line must be a title (`# Title`)")?;
    let mut text = String::new();
    for line in rest.lines() {
        match line
            .strip_prefix(SECTION)
            .and_then(|line| line.strip_suffix(" -->"))
        {
            Some(section) => text.push_str(
                self::section(description, section)
                    .ok_or_else(|| format!("info.description has no section `{section}`"))?,
            ),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    Ok(Guide {
        name: name.to_owned(),
        title: title.trim().to_owned(),
        description: prose::first_sentence(&text),
        text,
    })
}

/// Returns a section of the description, without its heading.
fn section<'a>(description: &'a str, title: &str) -> Option<&'a str> {
    let mut sections = description.split("\n## ").skip(1);
    sections.find_map(|section| section.strip_prefix(title)?.strip_prefix('\n'))
}

/// Returns the page of a guide.
pub(super) fn page(site: &Site<'_>, guide: &Guide, neighbors: [Option<&Guide>; 2]) -> Page {
    let [previous, next] = neighbors.map(|one| one.map(|guide| (guide.title.clone(), guide.target())));
    let mut body = Vec::new();
    for (at, part) in guide.text.split(WEBHOOKS).enumerate() {
        if at > 0 {
            webhooks(site, &mut body);
        }
        body.extend(prose::blocks(site, part));
    }
    Page {
        path: format!("guide/{}", guide.name),
        title: guide.title.clone(),
        description: guide.description.clone(),
        above: Some(("Guides".to_owned(), format!("{BASE}/"))),
        body,
        previous,
        next,
        ..Page::default()
    }
}

/// Adds the requests to the receivers of webhooks.
fn webhooks(site: &Site<'_>, blocks: &mut Vec<Block>) {
    for (name, item) in entries(&site.root["x-webhooks"]) {
        let operation = &item["post"];
        blocks.push(Block::Heading(
            2,
            operation["summary"].as_str().unwrap_or(name).to_owned(),
        ));
        blocks.push(Block::Paragraph(vec![
            text("Value of "),
            code("object_kind"),
            text(": "),
            code(name),
            text("."),
        ]));
        blocks.extend(prose::blocks(
            site,
            operation["description"].as_str().unwrap_or_default(),
        ));
        for (_, content) in entries(&operation["requestBody"]["content"]) {
            let mut line = vec![text("Body: ")];
            line.extend(attributes::kind(site, &content["schema"]));
            blocks.push(Block::Paragraph(line));
            if let Some(example) = content.get("example") {
                let code = Code {
                    language: "json",
                    text: sample::pretty(example),
                };
                blocks.push(Block::Details(vec![text("Example")], vec![Block::Code(code)]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTION: &str = "API.\n\n## Paging\nLists accept `page`.\n\n## Sudo\nActs.\n";

    #[test]
    fn section_of_the_description_replaces_its_line() {
        let found = guide(
            "paging",
            "# Paging\n\n<!-- section: Paging -->\n## More\nText.\n",
            DESCRIPTION,
        );
        let expected = Guide {
            name: "paging".to_owned(),
            title: "Paging".to_owned(),
            description: "Lists accept page.".to_owned(),
            text: "\nLists accept `page`.\n\n## More\nText.\n".to_owned(),
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn guide_rejects_missing_titles_and_unknown_sections() {
        let error = guide("paging", "Paging\n", DESCRIPTION).unwrap_err();
        assert_eq!(error, "the first line must be a title (`# Title`)");
        let error = guide("paging", "# Paging\n<!-- section: Page -->\n", DESCRIPTION).unwrap_err();
        assert_eq!(error, "info.description has no section `Page`");
    }
}
