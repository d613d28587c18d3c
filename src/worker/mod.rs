//! Background work: the handler of each kind of job, and the work that recurs.

mod recurring;
mod registry;

pub use recurring::run as recur;
pub use registry::registry;
