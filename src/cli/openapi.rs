//! `openapi`: prints a published document.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use contract::document::{Extent, Format, Version, document};

use super::context::print;

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
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DocumentVersion {
    #[value(name = "3.0")]
    V3_0,
    #[value(name = "3.1")]
    V3_1,
}

/// Prints the document.
pub fn run(options: &OpenapiOptions) -> ExitCode {
    let version = match options.openapi_version {
        DocumentVersion::V3_0 => Version::V3_0,
        DocumentVersion::V3_1 => Version::V3_1,
    };
    let format = match options.format {
        DocumentFormat::Json => Format::Json,
        DocumentFormat::Yaml => Format::Yaml,
    };
    let extent = if options.sdk {
        Extent::Sdk
    } else {
        Extent::Complete
    };
    print(document(version, extent, format));
    ExitCode::SUCCESS
}
