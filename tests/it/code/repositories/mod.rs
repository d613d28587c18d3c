//! Repository trees, blobs, archives and history.

mod archives;
mod blobs;
mod history;
mod trees;
