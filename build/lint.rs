//! The house rules of the contract.
use crate::contract::load::{Document, Fault};
/// Lint.
pub fn lint(_document: &Document) -> Vec<Fault> {
    Vec::new()
}
