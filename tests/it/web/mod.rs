//! Endpoints outside the REST API: docs, OpenAPI document, health and metrics; and headers of every response.

mod cors;
mod docs;
mod headers;
mod health;
mod pages;
mod portal;
