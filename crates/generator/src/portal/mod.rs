//! The documentation portal: one page per operation, schema, tag and guide, as HTML and as Markdown (ADR 60).
//!
//! [`site`] indexes the document. The modules of the pages return [`block`]s, which [`render`] renders as HTML and
//! [`markdown`] as Markdown. [`html`] escapes all text from the contract.

mod access;
mod attributes;
mod block;
mod change;
mod guide;
mod highlight;
pub mod history;
mod html;
mod markdown;
mod operation;
mod overview;
mod page;
mod prose;
mod render;
mod sample;
mod schema;
mod search;
mod shell;
mod site;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

pub use guide::{Guide, load as load_guides};
pub use history::load as load_history;
pub(crate) use page::digest;
pub use page::{HTML, MARKDOWN, PortalFile};

use history::{Changelog, Version};
use operation::Common;
use page::Page;
use shell::Shell;
use site::{BASE, Operation, Site};

use crate::samples::Samples;

/// The parts of the portal that are written by hand.
pub struct Assets {
    /// The style sheet.
    pub style: Vec<u8>,
    /// The script.
    pub script: Vec<u8>,
    /// The icon.
    pub icon: Vec<u8>,
}

impl Assets {
    /// Reads the parts from a folder.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn load(folder: &Path) -> Result<Self, String> {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).map_err(|error| format!("{}: {error}\n", path.display()))
        };
        Ok(Self {
            style: compact(&read("docs.css")?),
            script: compact(&read("docs.js")?),
            icon: read("icon.svg")?,
        })
    }
}

/// Removes indentation, empty lines and lines that are comments. So a text in the script must not span lines.
fn compact(source: &[u8]) -> Vec<u8> {
    let lines = source.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_comment =
        |line: &[u8]| line.starts_with(b"//") || (line.starts_with(b"/*") && line.ends_with(b"*/"));
    let lines = lines.filter(|line| !line.is_empty() && !is_comment(line));
    lines.flat_map(|line| [line, b"\n"]).flatten().copied().collect()
}

/// Returns all files of the portal for a document that passed the lints, with its links.
pub fn files(
    root: &Value,
    samples: Option<&Samples>,
    guides: &[Guide],
    versions: &[Version],
    assets: Assets,
) -> Vec<PortalFile> {
    let mut site = Site::new(root);
    site.samples = samples;
    let changelog = history::changelog(root, versions);
    let mut pages = pages(&site, guides, &changelog);
    pages.push(history::page(&site, &changelog));
    let style = format!("docs.{}.css", digest(&assets.style));
    let script = format!("docs.{}.js", digest(&assets.script));
    let shell = Shell {
        site: &site,
        assets: [format!("{BASE}/{style}"), format!("{BASE}/{script}")],
        guides: guides
            .iter()
            .map(|guide| (guide.name.clone(), guide.title.clone()))
            .collect(),
    };
    let mut files: Vec<PortalFile> = pages.iter().flat_map(|page| shell.files(page)).collect();
    let mut add = |name: &str, media_type, content| {
        files.push(PortalFile {
            path: format!("docs/{name}"),
            media_type,
            content,
        });
    };
    add(&style, "text/css; charset=utf-8", assets.style);
    add(&script, "text/javascript; charset=utf-8", assets.script);
    add("icon.svg", "image/svg+xml", assets.icon);
    add("search.json", "application/json", search::index(&site, guides));
    add("llms.txt", MARKDOWN, search::llms(&site, guides).into_bytes());
    add("llms-full.txt", MARKDOWN, search::complete(&pages).into_bytes());
    files
}

/// Returns the samples of all operations, by ID, as viewers of OpenAPI documents read them.
#[must_use]
pub fn code_samples(root: &Value, samples: Option<&Samples>) -> BTreeMap<String, Value> {
    let mut site = Site::new(root);
    site.samples = samples;
    let of = |operation: &Operation<'_>| {
        let codes = sample::samples(&site, operation).map(|(label, code)| {
            let language = match label {
                "curl" => "Shell",
                other => other,
            };
            json!({ "lang": language, "label": label, "source": code.text })
        });
        (operation.id.to_owned(), json!(codes))
    };
    site.operations.iter().map(of).collect()
}

fn pages(site: &Site<'_>, guides: &[Guide], changelog: &Changelog) -> Vec<Page> {
    let common = Common::of(site);
    let mut pages = vec![
        overview::start(site, guides),
        overview::roles(site),
        overview::errors(site, &common),
        overview::not_found(),
        schema::list(site),
    ];
    for (at, guide) in guides.iter().enumerate() {
        let previous = at.checked_sub(1).and_then(|at| guides.get(at));
        pages.push(guide::page(site, guide, [previous, guides.get(at + 1)]));
    }
    pages.extend(site.tags.keys().map(|name| overview::tag(site, name)));
    pages.extend(
        site.operations
            .iter()
            .map(|one| operation::page(site, one, &common, changelog)),
    );
    pages.extend(
        site.schemas()
            .map(|(name, schema)| schema::page(site, name, schema)),
    );
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_and_comments_of_assets_are_removed() {
        let source = b"/* Colors. */\na {\n  color: red\n\n  // No.\n}\n";
        assert_eq!(compact(source), b"a {\ncolor: red\n}\n");
    }
}
