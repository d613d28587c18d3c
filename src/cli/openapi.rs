//! `openapi`: prints a published document.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use contract::document::{Extent, FACTS, Format, Version, document_text, file_text};

use super::context::{CommandResult, print};

/// Which document to print.
#[derive(Debug, Args)]
pub struct OpenapiOptions {
    /// Format of the document
    #[arg(long, value_enum, default_value_t = DocumentFormat::Json)]
    format: DocumentFormat,
    /// Version of OpenAPI
    #[arg(long, value_enum, default_value_t = DocumentVersion::V3_0)]
    openapi_version: DocumentVersion,
    /// Omit the parts that the runtime of a generated client handles
    #[arg(long)]
    sdk: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DocumentFormat {
    Json,
    Yaml,
    /// Facts about the document, one on each line, for `openapi/history`
    Facts,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DocumentVersion {
    #[value(name = "3.0")]
    V3_0,
    #[value(name = "3.1")]
    V3_1,
}

/// Prints the document.
///
/// # Errors
/// An embedded document that cannot be decompressed.
pub(super) fn run(options: &OpenapiOptions) -> CommandResult {
    let version = match options.openapi_version {
        DocumentVersion::V3_0 => Version::V3_0,
        DocumentVersion::V3_1 => Version::V3_1,
    };
    let extent = if options.sdk {
        Extent::Sdk
    } else {
        Extent::Complete
    };
    let text = match options.format {
        DocumentFormat::Json => document_text(version, extent, Format::Json)?,
        DocumentFormat::Yaml => document_text(version, extent, Format::Yaml)?,
        DocumentFormat::Facts => file_text(FACTS)?,
    };
    print(&text);
    Ok(ExitCode::SUCCESS)
}
