//! Caches in memory: [`BoundedCache`] for results, and [`IdleCache`] for open handles.
//!
//! Both are generic, so the compiler creates their code again for each type of key and value. The library was chosen because
//! it creates little code (ADR 81).

mod bounded;
mod idle;

pub use bounded::{BoundedCache, CacheUsage};
pub use idle::IdleCache;
