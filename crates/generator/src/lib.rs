//! Generates the server's API code from the OpenAPI files in `openapi/`.
//!
//! [`load`] merges the files into one document, [`groups`] expands parameter groups, [`shared_examples`] expands
//! examples, and [`defaults`] adds the parts that many operations share.
//! [`lint`] checks the rules of the contract. [`lower`] reduces the document to a small model. [`emit`]
//! writes Rust, [`table`] writes the operation table, and [`publish`] renders the published documents. [`portal`] renders
//! the documentation, [`workflows`] checks the workflows, and [`pack`] compresses the published files. Only build scripts
//! depend on this package.

pub mod defaults;
pub mod emit;
pub mod example;
pub mod groups;
pub mod known_keys;
pub mod lint;
pub mod load;
pub mod lower;
pub mod model;
pub mod pack;
pub mod portal;
pub mod publish;
pub mod samples;
pub mod shared_examples;
pub mod table;
pub mod workflows;

use std::path::Path;

/// Output of the generator.
pub struct Generated {
    /// The published documents.
    pub documents: Vec<publish::Published>,
    /// The facts about the document, for `openapi/history`.
    pub facts: String,
    /// The requests that create the data of the samples, as JSON.
    pub world: Option<String>,
    /// The files of the documentation portal.
    pub portal: Vec<portal::PortalFile>,
    /// Rust code of the component schemas and requests, for the package `contract`.
    pub types: String,
    /// Rust code of the handler traits and routes, for the server.
    pub routes: String,
    /// The operation table as JSON.
    pub table: String,
}

impl Generated {
    /// Returns all files that the server publishes: the documents and the portal.
    #[must_use]
    pub fn published(self) -> Vec<portal::PortalFile> {
        let documents = self.documents.into_iter().map(|document| portal::PortalFile {
            media_type: match document.file.ends_with(".yaml") {
                true => "application/yaml",
                false => "application/json",
            },
            path: document.file,
            content: document.text.into_bytes(),
        });
        let facts = portal::PortalFile {
            path: "openapi-facts.txt".to_owned(),
            media_type: "text/plain",
            content: self.facts.into_bytes(),
        };
        let world = self.world.map(|text| portal::PortalFile {
            path: "samples.json".to_owned(),
            media_type: "application/json",
            content: text.into_bytes(),
        });
        documents.chain(self.portal).chain([facts]).chain(world).collect()
    }
}

/// Compiles the contract below `folder`. The folder `assets` contains the style sheet and the script of the portal.
///
/// # Errors
/// A report of all faults, one on each line, with file and pointer.
pub fn compile(folder: &Path, assets: &Path) -> Result<Generated, String> {
    let document = load::load(folder).map_err(|faults| load::report(&faults))?;
    let faults = lint::lint(&document);
    if !faults.is_empty() {
        return Err(load::report(&faults));
    }
    let contract = lower::lower(&document).map_err(|faults| load::report(&faults))?;
    let description = document.root["info"]["description"].as_str().unwrap_or_default();
    let samples = samples::load(folder)?;
    if let Some(samples) = &samples {
        samples.check(&document)?;
    }
    let workflows = workflows::load(folder)?;
    if let Some(workflows) = &workflows {
        workflows.check(&document)?;
    }
    let guides = portal::load_guides(folder, description, workflows.as_ref())?;
    let versions = portal::load_history(folder)?;
    let authored = publish::authored(&document.root);
    let assets = portal::Assets::load(assets)?;
    let mut portal = portal::files(&authored, samples.as_ref(), &guides, &versions, assets);
    portal.extend(workflows.map(|workflows| portal::PortalFile {
        path: "docs/arazzo.yaml".to_owned(),
        media_type: "application/yaml",
        content: workflows.text.into_bytes(),
    }));
    let published = publish::publish(&document.root, &portal::code_samples(&authored, samples.as_ref()))?;
    portal.push(portal::PortalFile {
        path: "docs/stainless.yaml".to_owned(),
        media_type: "application/yaml",
        content: published.stainless.into_bytes(),
    });
    Ok(Generated {
        documents: published.documents,
        facts: portal::history::format(&portal::history::facts(&document.root)),
        portal,
        world: samples.map(|samples| samples.world()),
        types: emit::types(&contract).map_err(|error| error.to_string())?,
        routes: emit::routes(&contract).map_err(|error| error.to_string())?,
        table: table::table(&contract, &publish::links::locations(&document.root))?,
    })
}
