//! Parsers of untrusted input: synchronous functions that know neither the database nor HTTP.
//!
//! Each parser has limits of its own, so that no input takes unbounded memory, time or stack. The directory `fuzz` has
//! a fuzz target for each parser.

pub mod cargo;
pub mod code_owners;
pub mod delta;
pub mod form;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod gitmodules;
pub mod group_archive;
mod gzip_reader;
pub mod json;
pub mod maven;
pub mod multipart;
pub mod npm;
pub mod pack_start;
pub mod pkt_line;
pub mod pypi;
pub mod receive_pack;
pub mod registry;
pub mod reports;
pub mod scim;
pub mod upload_pack;
