//! What every operation has in common: who calls, and what was sent.

mod authentication;
mod connections;
mod parameters;
mod refusals;
