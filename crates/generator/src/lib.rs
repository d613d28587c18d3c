//! Generates the server's API code from the OpenAPI files in `openapi/`.
//!
//! [`load`] merges the files into one document, [`groups`] expands parameter groups, and [`defaults`] adds the parts
//! that many operations share.
//! [`lint`] checks the rules of the contract. [`lower`] reduces the document to a small model. [`emit`]
//! writes Rust, [`table`] writes the operation table, and [`publish`] renders the published documents. Only build
//! scripts depend on this package.

pub mod defaults;
pub mod emit;
pub mod example;
pub mod groups;
pub mod known_keys;
pub mod lint;
pub mod load;
pub mod lower;
pub mod model;
pub mod publish;
pub mod table;

use std::path::Path;

/// Output of the generator.
pub struct Generated {
    /// The published documents.
    pub documents: Vec<publish::Published>,
    /// Rust code of the component schemas and requests, for the package `contract`.
    pub types: String,
    /// Rust code of the handler traits and routes, for the server.
    pub routes: String,
    /// The operation table as JSON.
    pub table: String,
}

/// Compiles the contract below `folder`.
///
/// # Errors
/// A report of all faults, one on each line, with file and pointer.
pub fn compile(folder: &Path) -> Result<Generated, String> {
    let document = load::load(folder).map_err(|faults| load::report(&faults))?;
    let faults = lint::lint(&document);
    if !faults.is_empty() {
        return Err(load::report(&faults));
    }
    let contract = lower::lower(&document).map_err(|faults| load::report(&faults))?;
    Ok(Generated {
        documents: publish::publish(&document.root)?,
        types: emit::types(&contract).map_err(|error| error.to_string())?,
        routes: emit::routes(&contract).map_err(|error| error.to_string())?,
        table: table::table(&contract)?,
    })
}
