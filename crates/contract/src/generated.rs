//! The generated component schemas and requests. See `generator::emit`.

#![allow(clippy::all, missing_docs)]

use chrono::NaiveDate;
use poem_openapi::types::MaybeUndefined;
use poem_openapi::{Enum, Object};
use serde::Serialize;
use serde_json::Value;

use crate::deferred::Deferred;
use crate::input::{FromInput, Input, InputError};
use crate::map::Map;
use crate::timestamp::Timestamp;

include!(concat!(env!("OUT_DIR"), "/types.rs"));
