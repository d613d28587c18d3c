//! Handlers of releases and their links.

mod project_releases;
mod release_links;
