//! Emits the Rust code of the contract: [`types`] for the package `contract`, and [`routes`] for the server.

mod routes;
mod types;

pub use routes::routes;
pub use types::types;

use heck::{ToSnakeCase, ToUpperCamelCase};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::model::{Operation, Parameter, Type};

/// Formats emitted tokens.
fn format(tokens: TokenStream) -> Result<String, syn::Error> {
    Ok(prettyplease::unparse(&syn::parse2(tokens)?))
}

/// Returns the Rust name of a component schema or parameter group.
fn type_ident(name: &str) -> Ident {
    format_ident!("{}", name.to_upper_camel_case())
}

fn request_ident(operation: &Operation) -> Ident {
    format_ident!("{}Request", operation.id.to_upper_camel_case())
}

fn field_ident(name: &str) -> Ident {
    let name = name.trim_start_matches('_').to_snake_case();
    match name.as_str() {
        // These keywords cannot be raw identifiers.
        "self" | "super" | "crate" => format_ident!("{name}_"),
        _ => syn::parse_str::<Ident>(&name).unwrap_or_else(|_| format_ident!("r#{name}")),
    }
}

fn docs(paragraphs: &[&str]) -> TokenStream {
    let text = paragraphs
        .iter()
        .filter(|text| !text.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join("\n\n");
    let lines = text.lines().map(|line| format!(" {line}"));
    quote!(#(#[doc = #lines])*)
}

/// Returns the Rust type of a value.
fn value_type(ty: &Type) -> TokenStream {
    match ty {
        Type::Text { .. } => quote!(String),
        Type::Integer { .. } => quote!(i64),
        Type::Number => quote!(f64),
        Type::Boolean => quote!(bool),
        Type::Timestamp => quote!(Timestamp),
        Type::Date => quote!(NaiveDate),
        Type::Any | Type::Binary => quote!(Value),
        Type::Named(name) => {
            let ident = type_ident(name);
            quote!(#ident)
        }
        Type::List(inner, ..) => {
            let inner = value_type(inner);
            quote!(Vec<#inner>)
        }
        Type::Map(inner) => {
            let inner = value_type(inner);
            quote!(Map<#inner>)
        }
        Type::Deferred(inner) => {
            let inner = value_type(inner);
            quote!(Deferred<#inner>)
        }
    }
}

/// Returns the name of the path parameter that authorization consumes, if any.
fn container(operation: &Operation) -> Option<&'static str> {
    match operation.access.on.as_str() {
        "project" | "group" => Some("id"),
        "scim" => Some("group_path"),
        "user" => {
            let named = |name: &str| {
                operation
                    .parameters
                    .iter()
                    .any(|p| p.location == "path" && p.name == name)
            };
            Some(if named("user_id") { "user_id" } else { "id" })
        }
        _ => None,
    }
}

/// Returns the parameters that the handler receives.
fn request_parameters(operation: &Operation) -> impl Iterator<Item = &Parameter> {
    let container = container(operation);
    operation.parameters.iter().filter(move |parameter| {
        let is_container = parameter.location == "path" && Some(parameter.name.as_str()) == container;
        !is_container || parameter.passed
    })
}

fn has_request(operation: &Operation) -> bool {
    operation.body.is_some() || request_parameters(operation).next().is_some()
}
