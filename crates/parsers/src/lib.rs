//! Parsers of untrusted input: synchronous functions that know neither the database nor HTTP.

pub mod form;
pub mod group_archive;
pub mod json;
pub mod pkt_line;
pub mod registry;
pub mod reports;
pub mod scim;
