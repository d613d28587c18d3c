//! Emits static descriptions of all input types, with which the parameter layer coerces and checks input.

use heck::ToShoutySnakeCase;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;

use crate::model::{Contract, Form, Property, Type};

/// Returns the statics of all component schemas used in requests.
pub fn statics(contract: &Contract) -> TokenStream {
    let shapes = contract
        .schemas
        .iter()
        .filter(|schema| schema.input)
        .map(|schema| {
            let ident = ident(&schema.name);
            let shape = match &schema.form {
                Form::Object(properties) => {
                    let fields = properties.iter().map(field);
                    quote!(Shape::Object(&[#(#fields),*]))
                }
                Form::Enum(values) => quote!(Shape::Choice(&[#(#values),*])),
                Form::Alias(ty) => shape(ty),
            };
            quote!(static #ident: Shape = #shape;)
        });
    quote!(#(#shapes)*)
}

/// Returns the name of a component's static.
pub fn ident(name: &str) -> proc_macro2::Ident {
    format_ident!("SHAPE_{}", name.to_shouty_snake_case())
}

fn field(property: &Property) -> TokenStream {
    let (name, required, nullable) = (&property.name, property.required, property.nullable);
    let (shape, default) = (shape(&property.ty), default(property.default.as_ref()));
    quote!(Field { name: #name, required: #required, nullable: #nullable, default: #default, shape: #shape })
}

/// Returns a default as JSON text.
pub fn default(value: Option<&Value>) -> TokenStream {
    match value {
        Some(value) if !value.is_null() => {
            let text = value.to_string();
            quote!(Some(#text))
        }
        _ => quote!(None),
    }
}

fn option<T: quote::ToTokens>(value: Option<T>) -> TokenStream {
    match value {
        Some(value) => quote!(Some(#value)),
        None => quote!(None),
    }
}

/// Returns the expression that describes a type.
pub fn shape(ty: &Type) -> TokenStream {
    match ty {
        Type::Text { min, max, pattern } => {
            let (min, max, pattern) = (min.unwrap_or(0), option(*max), option(pattern.as_deref()));
            quote!(Shape::Text { min: #min, max: #max, pattern: #pattern })
        }
        Type::Integer { min, max, values } => {
            let (min, max) = (option(*min), option(*max));
            quote!(Shape::Integer { min: #min, max: #max, values: &[#(#values),*] })
        }
        Type::Number => quote!(Shape::Number),
        Type::Boolean => quote!(Shape::Boolean),
        Type::Timestamp => quote!(Shape::Timestamp),
        Type::Date => quote!(Shape::Date),
        Type::Any | Type::Binary => quote!(Shape::Any),
        Type::Named(name) => {
            let ident = ident(name);
            quote!(Shape::Named(&#ident))
        }
        Type::List(inner, min, max) => {
            let (inner, max) = (shape(inner), option(*max));
            quote!(Shape::List { items: &#inner, min: #min, max: #max })
        }
        Type::Map(inner) => {
            let inner = shape(inner);
            quote!(Shape::Map(&#inner))
        }
    }
}
