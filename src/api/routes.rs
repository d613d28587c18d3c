//! The routes of the contract, and the generated handler traits. See `generator::emit`.

use std::collections::BTreeMap;
use std::pin::Pin;

use contract::operation::Operation;
use contract::table::operations;
use poem::http::Method;
use poem::{Endpoint, Request, Response, Route, RouteMethod};

use crate::api::edge::Edge;
use crate::api::exchange::Exchange;

pub use generated::*;

/// Processes the request of one operation: the generated code that depends on the operation's types.
pub type Process<H> = for<'a> fn(&'a Edge<H>, Exchange<'a>) -> ResponseFuture<'a>;

/// A future response.
pub type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// Collects the routes of a handler.
pub struct Routes<H> {
    /// By path template.
    paths: BTreeMap<&'static str, Vec<(&'static Operation, Process<H>)>>,
}

impl<H> Default for Routes<H> {
    fn default() -> Self {
        Self {
            paths: BTreeMap::new(),
        }
    }
}

impl<H: Send + Sync + 'static> Routes<H> {
    /// Adds the route of the operation at a position of the operation table.
    pub fn add(&mut self, position: usize, process: Process<H>) {
        let operation = &operations()[position];
        self.paths
            .entry(operation.path)
            .or_default()
            .push((operation, process));
    }

    /// Returns the operations that have a route.
    pub fn operations(&self) -> impl Iterator<Item = &'static Operation> {
        self.paths.values().flatten().map(|(operation, _)| *operation)
    }

    /// Returns the router to a handler.
    pub fn into_route(self, edge: &Edge<H>) -> Route {
        let mut route = Route::new();
        for (path, operations) in self.paths {
            let has_rest = operations.iter().any(|(operation, _)| operation.rest);
            let mut methods = RouteMethod::new();
            for (operation, process) in operations {
                let endpoint = OperationEndpoint {
                    edge: edge.clone(),
                    operation,
                    process,
                };
                methods = methods.method(method(operation), endpoint);
            }
            // The router's syntax for `{name}` is `:name`, or `*name` for the rest of the path.
            let mut pattern = path.replace('{', ":").replace('}', "");
            if has_rest && let Some(last) = pattern.rfind(':') {
                pattern.replace_range(last..=last, "*");
            }
            route = route.at(pattern, methods);
        }
        route
    }
}

fn method(operation: &Operation) -> Method {
    match operation.method.parse() {
        Ok(method) => method,
        Err(_) => unreachable!("the generator writes valid methods"),
    }
}

/// Endpoint of one operation.
struct OperationEndpoint<H> {
    edge: Edge<H>,
    operation: &'static Operation,
    process: Process<H>,
}

impl<H: Send + Sync + 'static> Endpoint for OperationEndpoint<H> {
    type Output = Response;

    async fn call(&self, request: Request) -> poem::Result<Response> {
        let (request, body) = request.split();
        let exchange = Exchange::new(self.operation, &request, body);
        Ok((self.process)(&self.edge, exchange).await)
    }
}

mod generated {
    #![allow(clippy::all, missing_docs)]

    use contract::*;
    use domain::accounts::uploads::UploadedFile;
    use domain::identity::access;
    use domain::kernel::download::Download;
    use domain::kernel::error::Result;
    use domain::kernel::page::{Page, PageRequest};

    use super::Routes;
    use crate::api::edge::Authorized;
    use crate::api::response::{Empty, Json, OptionalJson, Redirect, WithHeaders};

    include!(env!("HOLDFAST_ROUTES"));
}
