//! Derive macro of the trait `storage::entities::columns::ReadColumns`.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, parse_macro_input};

/// Implements `ReadColumns` for a model: its fields are read from consecutive columns, in their order.
#[proc_macro_derive(ReadColumns)]
pub fn derive_read_columns(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input)
        .unwrap_or_else(Error::into_compile_error)
        .into()
}

fn implementation(input: &DeriveInput) -> Result<proc_macro2::TokenStream, Error> {
    let fields = match &input.data {
        Data::Struct(model) => match &model.fields {
            Fields::Named(fields) => &fields.named,
            _ => {
                return Err(Error::new_spanned(
                    &input.ident,
                    "the fields of a model need names",
                ));
            }
        },
        _ => return Err(Error::new_spanned(&input.ident, "a model is a struct")),
    };
    let (model, count) = (&input.ident, fields.len());
    let names = fields.iter().map(|field| &field.ident);
    let positions = 0..count;
    Ok(quote! {
        impl crate::entities::columns::ReadColumns for #model {
            const COUNT: usize = #count;

            fn read_columns(row: &::sea_orm::QueryResult, first: usize) -> Result<Self, ::sea_orm::DbErr> {
                Ok(Self { #(#names: row.try_get_by_index(first + #positions)?),* })
            }
        }
    })
}
