//! The generated contract: types, one trait a tag, routes, and the operation table. See `build/emit.rs`.

#![allow(clippy::all, missing_docs, unused_imports, unused_qualifications)]

use std::future::Future;

use chrono::NaiveDate;
use poem_openapi::{Enum, Object, OpenApi};
use serde::Serialize;
use serde_json::Value;

use crate::api::edge::{Edge, NoRequest};
use crate::api::exchange::{Call, Exchange};
use crate::api::operation::{
    Access, Field, FilePart, Flag, Minimum, On, Operation, Paging, Parameter, Place, Shape, Tier,
};
use crate::api::reply::{Empty, Json, Reply};
use crate::api::types::{Download, Map, MaybeUndefined, Page, PageRequest, Timestamp, WithHeaders};
use crate::error::Result;
use crate::services::access;
use crate::services::uploads::UploadedFile;

include!(concat!(env!("OUT_DIR"), "/contract.rs"));
