//! What is not REST: the docs page, the document, health, metrics, and headers on every answer.

mod docs;
mod headers;
mod health;
