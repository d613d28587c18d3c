//! What texts say beside their words: whom they mention, what they name, and what they close. Pure; each looks at a text in
//! time that grows with its length alone, for anybody may write anything.

pub mod mentions;
mod prose;
pub mod references;

pub use prose::prose;
