//! Repositories as a whole.

mod archives;
mod blobs;
mod history;
mod trees;
