//! Projects.

mod avatar;
mod create;
mod delete;
mod edit;
mod features;
mod form;
mod groups;
mod inherited_items;
mod languages;
mod list;
mod pagination;
mod query_plans;
mod read;
mod restore;
mod transfer;
