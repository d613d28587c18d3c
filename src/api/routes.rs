//! The generated handler traits and routes, one of each for each tag. See `generator::emit`.

#![allow(clippy::all, missing_docs)]

use std::future::Future;

use contract::*;
use domain::accounts::uploads::UploadedFile;
use domain::identity::access;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use poem_openapi::OpenApi;

use crate::api::edge::{Authorized, Edge};
use crate::api::exchange::Call;
use crate::api::response::{Empty, Json, StatusResponse, WithHeaders};

include!(env!("HOLDFAST_ROUTES"));
