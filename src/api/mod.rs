//! The REST API's edge: the generated routes and the runtime around them.

pub mod access_record;
mod body;
pub mod client_address;
mod coalescing;
pub mod credentials;
pub mod download;
pub mod edge;
pub mod error_response;
pub mod exchange;
mod form;
mod media_type;
pub mod paging;
pub(crate) mod parameters;
pub mod record_validator;
pub mod request_rate;
mod resource_location;
pub mod response;
pub mod response_cache;
pub(crate) mod response_memory;
pub mod revalidation;
pub mod route_tree;
pub mod routes;
mod rule;
mod spool;
