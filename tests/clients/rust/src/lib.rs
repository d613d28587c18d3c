//! The generated client. The test is that it compiles.

#![allow(clippy::all, missing_docs, rustdoc::all)]

include!(concat!(env!("OUT_DIR"), "/client.rs"));
