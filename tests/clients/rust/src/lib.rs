//! The generated client; that it compiles is the test.

#![allow(clippy::all, missing_docs, rustdoc::all)]

include!(concat!(env!("OUT_DIR"), "/client.rs"));
