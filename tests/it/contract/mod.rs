//! Tests of the contract and the source as a whole.

mod access_matrix;
mod confidential;
mod created_resources;
mod documents;
mod every_operation;
mod fixed_texts;
mod imports;
mod layering;
mod limits_page;
mod locks;
mod long_lists;
mod routes;
mod scim_page;
mod security_page;
mod source_text;
mod statements;
mod validation;
mod wording;
mod workflows;
