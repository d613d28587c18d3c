//! The generated contract: types, one trait for each tag, routes, and the operation table. See
//! `generator::emit`.

#![allow(clippy::all, missing_docs, unused_imports, unused_qualifications)]

use std::future::Future;

use chrono::NaiveDate;
use domain::accounts::uploads::UploadedFile;
use domain::identity::access;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use poem_openapi::{Enum, Object, OpenApi};
use serde::Serialize;
use serde_json::{Map as Attributes, Value};

use crate::api::edge::{Admitted, Edge, NoRequest};
use crate::api::exchange::{Call, Exchange};
use crate::api::operation::{
    Access, Errors, Field, FilePart, Flag, Minimum, On, Operation, Paging, Parameter, Place, Shape, Tier,
};
use crate::api::reply::{Empty, Json, Reply};
use crate::api::types::{Map, MaybeUndefined, Timestamp, WithHeaders};

include!(concat!(env!("OUT_DIR"), "/contract.rs"));
