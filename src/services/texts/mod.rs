//! Parsers for user text: mentions, references and closing keywords. They are pure and run in linear time,
//! because the input is not trusted.

pub mod mentions;
mod prose;
pub mod references;

pub use prose::prose;
