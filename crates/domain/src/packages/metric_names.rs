//! Names of the metrics that this area records. The server describes them (`src/observability/table.rs`).

/// Counter of stored package files, by format.
pub const UPLOADS: &str = "holdfast_package_uploads_total";
/// Counter of the bytes of stored package files, by format.
pub const UPLOAD_BYTES: &str = "holdfast_package_upload_bytes_total";
/// Counter of downloads of package files, by format.
pub const DOWNLOADS: &str = "holdfast_package_downloads_total";
/// Counter of the bytes that downloads of package files read, by format.
pub const DOWNLOAD_BYTES: &str = "holdfast_package_download_bytes_total";
