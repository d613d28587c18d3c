//! Views of group exports and imports.

pub mod group_import;
