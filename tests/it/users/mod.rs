//! User accounts.

mod avatar;
mod changing;
mod deleting;
mod making;
mod reading;
mod resting;
