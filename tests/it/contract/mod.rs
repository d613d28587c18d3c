//! What holds for the contract and the source as a whole.

mod layering;
mod routes;
