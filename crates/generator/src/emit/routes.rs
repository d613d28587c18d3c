//! Emits one trait and one set of routes for each tag.

use heck::{ToSnakeCase, ToUpperCamelCase};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::{docs, field_ident, format, has_request, request_ident, value_type};
use crate::model::{Content, Contract, Operation, Paging, Success, Tag, Type};

/// Emits the traits of the handlers and the routes.
///
/// # Errors
/// If the emitted tokens are not valid Rust, which is a bug of this module.
pub fn routes(contract: &Contract) -> Result<String, syn::Error> {
    // The route passes the position of its operation in the table.
    let mut position = 0;
    let mut tags = Vec::new();
    for tag in &contract.tags {
        tags.push(self::tag(tag, position));
        position += tag.operations.len();
    }
    let functions = contract.tags.iter().map(|tag| tag_idents(&tag.name).1);
    let bounds = contract.tags.iter().map(|tag| tag_idents(&tag.name).0);
    format(quote! {
        #(#tags)*
        /// Adds all routes of the contract.
        pub fn add_all<H>(routes: &mut Routes<H>)
        where
            H: #(#bounds)+* + 'static,
        {
            #(#functions(routes);)*
        }
    })
}

/// Returns the names of a tag's trait and of the function that adds its routes.
fn tag_idents(name: &str) -> (Ident, Ident) {
    (
        format_ident!("{}Api", name.to_upper_camel_case()),
        format_ident!("add_{}", name.to_snake_case()),
    )
}

fn tag(tag: &Tag, first: usize) -> TokenStream {
    let (api, function) = tag_idents(&tag.name);
    let docs = docs(&[&tag.description]);
    let methods = tag.operations.iter().map(method);
    let routes = tag
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| route(operation, first + index));
    quote! {
        #docs
        pub trait #api: Send + Sync { #(#methods)* }
        fn #function<H: #api + 'static>(routes: &mut Routes<H>) { #(#routes)* }
    }
}

fn access_type(operation: &Operation) -> TokenStream {
    let name = match operation.access.on.as_str() {
        "project" => "ProjectAccess",
        "group" => "GroupAccess",
        "user" => "UserAccess",
        "scim" => "ScimAccess",
        _ => "InstanceAccess",
    };
    let ident = format_ident!("{name}");
    // Qualified, because a component schema may also be named `ProjectAccess`.
    quote!(access::#ident)
}

/// Returns the result type of the trait's method, and the function that wraps the result for the response.
fn success(success: &Success, page: Paging) -> (TokenStream, Option<TokenStream>) {
    let (plain, wrap) = match (&success.content, page) {
        (Content::Json(Type::List(inner, ..)), Paging::Offset | Paging::Keyset) => {
            let inner = value_type(inner);
            return (quote!(Page<#inner>), None);
        }
        (Content::Json(inner), _) if success.optional => {
            let inner = value_type(inner);
            (quote!(Option<#inner>), quote!(OptionalJson))
        }
        (Content::Json(inner), _) if success.nullable => {
            let inner = value_type(inner);
            (quote!(Option<#inner>), quote!(Json))
        }
        (Content::Json(inner), _) => (value_type(inner), quote!(Json)),
        (Content::Empty, _) => (quote!(()), quote!(Empty::from)),
        (Content::Download, _) => return (quote!(Download), None),
        (Content::Redirect, _) => return (quote!(Redirect), None),
    };
    if success.headers {
        (
            quote!(WithHeaders<#plain>),
            Some(quote!(|found| found.map(#wrap))),
        )
    } else {
        (plain, Some(wrap))
    }
}

fn method(operation: &Operation) -> TokenStream {
    let (name, access) = (field_ident(&operation.id), access_type(operation));
    let docs = docs(&[&format!("{}.", operation.summary), &operation.description]);
    let request = has_request(operation).then(|| {
        let ident = request_ident(operation);
        quote!(, request: #ident)
    });
    let file = match takes_file(operation) {
        None => quote!(),
        Some(true) => quote!(, file: UploadedFile),
        Some(false) => quote!(, file: Option<UploadedFile>),
    };
    let page = (operation.page != Paging::None).then(|| quote!(, page: PageRequest));
    let (result, _) = success(&operation.success, operation.page);
    quote!(#docs fn #name(&self, access: #access #request #page #file) -> impl Future<Output = Result<#result>> + Send;)
}

/// Emits one route. Everything that does not depend on the types of the operation is in the edge, because each
/// line here is compiled once for each operation.
fn route(operation: &Operation, position: usize) -> TokenStream {
    let name = field_ident(&operation.id);
    let (_, wrap) = success(&operation.success, operation.page);
    let wrap = wrap.unwrap_or_else(|| quote!(convert::identity));
    let (pattern, argument) = match has_request(operation) {
        true => (quote!(request), quote!(, request)),
        false => (quote!(()), quote!()),
    };
    let page = (operation.page != Paging::None).then(|| quote!(, exchange.page()));
    let file = takes_file(operation).map(|required| match required {
        true => quote!(, exchange.required_file()?),
        false => quote!(, exchange.file()),
    });
    let exchange = match page.is_some() || file.is_some() {
        true => quote!(exchange),
        false => quote!(_),
    };
    let position = Literal::usize_unsuffixed(position);
    quote! {
        routes.add(#position, |edge, exchange| edge.run(
            exchange,
            |handler, access, #pattern, #exchange| Ok(handler.#name(access #argument #page #file)),
            #wrap,
        ));
    }
}

/// Returns whether the handler receives a file, and whether the file is always present.
fn takes_file(operation: &Operation) -> Option<bool> {
    match &operation.file {
        Some(file) => Some(file.required),
        None => operation.raw_body.map(|_| true),
    }
}
