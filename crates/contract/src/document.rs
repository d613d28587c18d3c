//! The published documents: the OpenAPI document as authored, its 3.1.1 form, and both reduced for SDK generators.

/// Version of OpenAPI of a published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// OpenAPI 3.0.3, as authored.
    V3_0,
    /// OpenAPI 3.1.1, derived.
    V3_1,
}

/// Content of a published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The complete document.
    Complete,
    /// The document without the parts that the runtime of a generated client handles.
    Sdk,
}

/// Format of a published document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON with a trailing newline.
    Json,
    /// YAML.
    Yaml,
}

macro_rules! rendered {
    ($file:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/", $file))
    };
}

/// The complete document in OpenAPI 3.0.3 as JSON.
pub const DOCUMENT_JSON: &str = rendered!("openapi.json");

/// Returns a published document, exactly as it is served.
#[must_use]
pub fn document(version: Version, extent: Extent, format: Format) -> &'static str {
    match (version, extent, format) {
        (Version::V3_0, Extent::Complete, Format::Json) => DOCUMENT_JSON,
        (Version::V3_0, Extent::Complete, Format::Yaml) => rendered!("openapi.yaml"),
        (Version::V3_0, Extent::Sdk, Format::Json) => rendered!("openapi-sdk.json"),
        (Version::V3_0, Extent::Sdk, Format::Yaml) => rendered!("openapi-sdk.yaml"),
        (Version::V3_1, Extent::Complete, Format::Json) => rendered!("openapi-3.1.json"),
        (Version::V3_1, Extent::Complete, Format::Yaml) => rendered!("openapi-3.1.yaml"),
        (Version::V3_1, Extent::Sdk, Format::Json) => rendered!("openapi-3.1-sdk.json"),
        (Version::V3_1, Extent::Sdk, Format::Yaml) => rendered!("openapi-3.1-sdk.yaml"),
    }
}
