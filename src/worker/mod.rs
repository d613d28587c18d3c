//! Background work: the handler of each kind of job, and the work that recurs.

mod recurring;
mod registry;

pub use recurring::run_recurring as recur;
pub use registry::registry;
