//! Parsers for user text: mentions, references, closing keywords and durations. They are pure and run in linear time,
//! because the input is not trusted.

pub mod anchored_regex;
mod code_blocks;
pub mod durations;
pub mod mentions;
pub mod re2;
pub mod references;

pub use crate::kernel::text::code_blocks::without_code;
