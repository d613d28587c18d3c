//! Export of groups into archives, and import from them (ADR 24).
//!
//! An archive is a gzip-compressed tar file in the layout of the reference service. It contains `VERSION` and
//! `tree/groups/_all.ndjson`, a list of the groups that starts with the exported one. Attributes of a group
//! are in `tree/groups/<id>.json`. Its contents are in `tree/groups/<id>/<relation>.ndjson`, one record per
//! line ([`parsers::group_archive::records`]). IDs are only valid within an archive.

pub mod exports;
pub mod imports;
pub mod jobs;
mod levels;
mod stored_archives;
mod sweep;

pub use sweep::{delete_archives, sweep};
