//! Implementations of the contract's traits, one file for each tag. A handler unpacks the request, calls one
//! service and maps the result with a view.

mod accounts;
mod activity;
mod code;
mod delivery;
mod discussion;
mod identity;
mod instance;
mod packages;
mod patch;
mod planning;
mod registry;
mod releases;
mod review;
mod security;
mod spaces;
mod transfers;
mod webhooks;
