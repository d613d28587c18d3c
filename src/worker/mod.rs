//! Background work: the handler of each kind of job, and the work that recurs.

mod abandoned_pushes;
mod data_directory;
mod recurring;
mod registry;

pub use abandoned_pushes::remove_abandoned_pushes;
pub use data_directory::restrict_data_directory;
pub use recurring::{run_due, run_recurring as recur};
pub use registry::registry;
