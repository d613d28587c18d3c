//! The command line of Holdfast.
fn main() {}
