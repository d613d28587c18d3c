//! The routes of the contract, and the generated handler traits. See `generator::emit`.

use contract::operation::Operation;
use contract::table::operations;
use poem::error::MethodNotAllowedError;
use poem::http::Method;
use poem::{Endpoint, Request, Response};

use crate::api::edge::{Edge, ResponseFuture};
use crate::api::exchange::Exchange;
use crate::api::route_tree::RouteTree;

pub use generated::*;

/// Processes the request of one operation: the generated code that depends on the operation's types.
pub type Process<H> = for<'a> fn(&'a Edge<H>, Exchange<'a>) -> ResponseFuture<'a>;

/// One operation with its code.
struct OperationRoute<H> {
    operation: &'static Operation,
    process: Process<H>,
}

/// The routes of the operations of a handler.
pub struct Routes<H> {
    tree: RouteTree<OperationRoute<H>>,
    operations: Vec<&'static Operation>,
}

impl<H> Default for Routes<H> {
    fn default() -> Self {
        Self {
            tree: RouteTree::default(),
            operations: Vec::new(),
        }
    }
}

impl<H: Send + Sync + 'static> Routes<H> {
    /// Adds the route of the operation at a position of the operation table.
    pub fn add(&mut self, position: usize, process: Process<H>) {
        let operation = &operations()[position];
        let route = OperationRoute { operation, process };
        self.tree.insert(operation.path, operation.rest, route);
        self.operations.push(operation);
    }

    /// Returns the operations that have a route.
    pub fn operations(&self) -> impl Iterator<Item = &'static Operation> {
        self.operations.iter().copied()
    }
}

/// Methods of the operations with the path of a request, attached to the error of a request with another method.
#[derive(Debug, Clone)]
pub struct AllowedMethods(pub Vec<&'static str>);

/// Returns the error of a request whose path only has operations with other methods.
fn method_not_allowed<H>(routes: &[OperationRoute<H>]) -> poem::Error {
    let methods = routes.iter().map(|route| route.operation.method);
    let mut error = poem::Error::from(MethodNotAllowedError);
    error.set_data(AllowedMethods(methods.collect()));
    error
}

/// Endpoint of all operations, and of the requests to other paths.
pub struct OperationsEndpoint<H: 'static, E> {
    edge: Edge<H>,
    routes: &'static Routes<H>,
    others: E,
}

impl<H, E> OperationsEndpoint<H, E> {
    /// Creates the endpoint. It passes requests to paths without an operation to `others`.
    pub fn new(edge: Edge<H>, routes: &'static Routes<H>, others: E) -> Self {
        Self { edge, routes, others }
    }
}

impl<H, E> Endpoint for OperationsEndpoint<H, E>
where
    H: Send + Sync + 'static,
    E: Endpoint<Output = Response>,
{
    type Output = Response;

    async fn call(&self, mut request: Request) -> poem::Result<Response> {
        let routes = self.routes.tree.find(request.uri().path());
        if routes.is_empty() {
            return self.others.call(request).await;
        }
        let with_method = |method: &Method| {
            let name = method.as_str();
            routes.iter().find(|route| route.operation.method == name)
        };
        let is_head = request.method() == Method::HEAD;
        let mut route = with_method(request.method());
        let has_no_body = is_head && route.is_none();
        if has_no_body {
            // A response to HEAD has the headers of GET.
            request.set_method(Method::GET);
            route = with_method(&Method::GET);
        }
        let OperationRoute { operation, process } = route.ok_or_else(|| method_not_allowed(routes))?;
        let (request, body) = request.split();
        let mut exchange = Exchange::new(operation, &request, body);
        if has_no_body {
            exchange.set_head();
        }
        let mut response = process(&self.edge, exchange).await;
        if has_no_body {
            response.set_body(());
        }
        Ok(response)
    }
}

mod generated {
    #![allow(clippy::all, missing_docs)]

    use std::convert;

    use contract::*;
    use domain::accounts::uploads::UploadedFile;
    use domain::identity::access;
    use domain::kernel::download::Download;
    use domain::kernel::error::Result;
    use domain::kernel::page::{Page, PageRequest};

    use super::Routes;
    use crate::api::response::{Empty, Json, OptionalJson, Redirect, WithHeaders};

    include!(env!("HOLDFAST_ROUTES"));
}
