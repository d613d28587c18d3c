//! User accounts.

mod changing;
mod deleting;
mod making;
mod reading;
mod resting;
