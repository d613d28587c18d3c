//! What must never happen again, or never at all.

mod crashes;
mod large_push;
mod nodes;
