//! Tests of group exports and imports.

pub mod group_transfers;
