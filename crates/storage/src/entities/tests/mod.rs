//! Behavior of the models and finders on both databases.

mod access;
mod columns;
mod finders;
pub(crate) mod fixtures;
mod large_texts;
mod related_rows;
