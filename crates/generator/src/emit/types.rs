//! Emits the component schemas and the requests of the operations.

use heck::ToUpperCamelCase;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{
    docs, field_ident, format, has_request, request_ident, request_parameters, type_ident, value_type,
};
use crate::model::{Contract, Form, Group, Operation, Parameter, Property, Schema};

/// Emits all component schemas and requests.
///
/// # Errors
/// If the emitted tokens are not valid Rust, which is a bug of this module.
pub fn types(contract: &Contract) -> Result<String, syn::Error> {
    let schemas = contract.schemas.iter().map(|one| schema(contract, one));
    let groups = contract.groups.iter().map(group);
    let operations = contract.tags.iter().flat_map(|tag| &tag.operations);
    let requests = operations
        .filter(|operation| has_request(operation))
        .map(|operation| request(contract, operation));
    format(quote! {
        #(#schemas)*
        #(#groups)*
        #(#requests)*
    })
}

fn schema(contract: &Contract, schema: &Schema) -> TokenStream {
    let ident = type_ident(&schema.name);
    let docs = docs(&[&schema.description]);
    match &schema.form {
        Form::Alias(target) => {
            let target = value_type(target);
            quote!(#docs pub type #ident = #target;)
        }
        Form::Enum(values) => enumeration(schema, &ident, &docs, values),
        Form::Object(properties) => object(contract, schema, &ident, &docs, properties),
    }
}

fn enumeration(schema: &Schema, ident: &Ident, docs: &TokenStream, values: &[String]) -> TokenStream {
    let variants = values.iter().map(|value| {
        let variant = format_ident!("{}", variant(value));
        let text = format!(" `{value}`.");
        let oai = schema.is_input().then(|| quote!(#[oai(rename = #value)]));
        let serde = schema.output.then(|| quote!(#[serde(rename = #value)]));
        quote!(#[doc = #text] #oai #serde #variant)
    });
    let arms = values.iter().map(|value| {
        let variant = format_ident!("{}", variant(value));
        quote!(Self::#variant => #value)
    });
    let parse = schema.is_input().then(|| quote!(, Enum));
    let serialize = schema.output.then(|| quote!(, Serialize));
    quote! {
        #docs
        #[derive(Debug, Clone, Copy, PartialEq, Eq #parse #serialize)]
        pub enum #ident { #(#variants),* }
        impl #ident {
            /// Returns the value in JSON.
            #[must_use]
            pub fn as_str(self) -> &'static str { match self { #(#arms),* } }
        }
    }
}

/// Returns a Rust name for an enum value, even if the value is not a word.
fn variant(value: &str) -> String {
    match value {
        "" => "Empty".to_owned(),
        value if value.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("V{}", value.to_upper_camel_case())
        }
        value => value.replace('.', "_").to_upper_camel_case(),
    }
}

/// Emits an object. Only objects within other input derive `Object`: requests parse their bodies directly, and no
/// type is described to the router. There are hundreds of types, and all derived code must be compiled.
fn object(
    contract: &Contract,
    schema: &Schema,
    ident: &Ident,
    docs: &TokenStream,
    properties: &[Property],
) -> TokenStream {
    let groups: Vec<&Group> = groups_of(contract, &schema.groups).collect();
    let grouped = |name: &str| {
        let mut members = groups.iter().flat_map(|group| &group.properties);
        members.any(|member| member.name == name)
    };
    let own: Vec<&Property> = properties
        .iter()
        .filter(|property| !grouped(&property.name))
        .collect();
    let fields = own.iter().map(|property| {
        let (name, ident) = (&property.name, field_ident(&property.name));
        let docs = self::docs(&[&property.description]);
        let (ty, skip) = property_type(schema.output, property);
        let oai = schema.nested.then(|| quote!(#[oai(rename = #name)]));
        let serde = schema.output.then(|| quote!(#[serde(rename = #name #skip)]));
        quote!(#docs #oai #serde pub #ident: #ty)
    });
    let group_fields = groups.iter().map(|group| group_field(group));
    let mut derives = Vec::new();
    derives.extend(schema.nested.then(|| quote!(Object)));
    derives.extend(schema.output.then(|| quote!(Serialize)));
    let derives = (!derives.is_empty()).then(|| quote!(#[derive(#(#derives),*)]));
    let only = schema.nested.then(|| quote!(#[oai(write_only_all)]));
    let parse = schema.body.then(|| {
        let names = own.iter().map(|property| property.name.as_str());
        from_input(ident, names, groups.iter().map(|group| group_value(group)))
    });
    quote! {
        #docs
        #derives
        #only
        pub struct #ident { #(#fields,)* #(#group_fields,)* }
        #parse
    }
}

/// Returns the groups with these names.
fn groups_of<'a>(contract: &'a Contract, names: &'a [String]) -> impl Iterator<Item = &'a Group> {
    let named = |name: &String| contract.groups.iter().find(|group| group.name == *name);
    names.iter().filter_map(named)
}

fn group_field(group: &Group) -> TokenStream {
    let (field, ident) = (field_ident(&group.name), type_ident(&group.name));
    let docs = docs(&[&group.description]);
    quote!(#docs pub #field: #ident)
}

fn group_value(group: &Group) -> TokenStream {
    let field = field_ident(&group.name);
    quote!(#field: FromInput::from_input(input)?)
}

/// Emits a group of parameters or attributes.
fn group(group: &Group) -> TokenStream {
    let ident = type_ident(&group.name);
    let docs = docs(&[&group.description]);
    let parameters = group.parameters.iter().map(parameter);
    let properties = group.properties.iter().map(|property| {
        let ident = field_ident(&property.name);
        let docs = self::docs(&[&property.description]);
        let (ty, _) = property_type(false, property);
        quote!(#docs pub #ident: #ty,)
    });
    let names = group.parameters.iter().map(|parameter| parameter.name.as_str());
    let names = names.chain(group.properties.iter().map(|property| property.name.as_str()));
    let parse = from_input(&ident, names, std::iter::empty());
    quote! {
        #docs
        pub struct #ident { #(#parameters)* #(#properties)* }
        #parse
    }
}

/// Returns the type of a field, and the attribute that omits an absent value from JSON.
fn property_type(output: bool, property: &Property) -> (TokenStream, TokenStream) {
    let inner = value_type(&property.ty);
    let always = property.required || (!output && property.default.is_some());
    match (always, property.nullable) {
        (true, false) => (inner, quote!()),
        (true, true) => (quote!(Option<#inner>), quote!()),
        (false, true) => (
            quote!(MaybeUndefined<#inner>),
            quote!(, skip_serializing_if = "MaybeUndefined::is_undefined"),
        ),
        (false, false) => (
            quote!(Option<#inner>),
            quote!(, skip_serializing_if = "Option::is_none"),
        ),
    }
}

/// Emits the parser of a type from validated input.
fn from_input<'a>(
    ident: &Ident,
    names: impl Iterator<Item = &'a str>,
    others: impl Iterator<Item = TokenStream>,
) -> TokenStream {
    let fields = names.map(|name| {
        let field = field_ident(name);
        quote!(#field: input.take(#name)?)
    });
    let fields = fields.chain(others);
    quote! {
        impl FromInput for #ident {
            fn from_input(input: &mut Input) -> Result<Self, InputError> {
                Ok(Self { #(#fields),* })
            }
        }
    }
}

fn request(contract: &Contract, operation: &Operation) -> TokenStream {
    let ident = request_ident(operation);
    let title = format!(" Request of `{}`.", operation.id);
    let groups: Vec<&Group> = groups_of(contract, &operation.groups).collect();
    let grouped = |name: &str| {
        let mut members = groups.iter().flat_map(|group| &group.parameters);
        members.any(|member| member.name == name)
    };
    let own: Vec<&Parameter> = request_parameters(operation)
        .filter(|parameter| !grouped(&parameter.name))
        .collect();
    let fields = own.iter().map(|one| parameter(one));
    let group_fields = groups.iter().map(|group| group_field(group));
    let body = operation.body.as_ref().map(|body| {
        let schema = type_ident(&body.schema);
        quote!(
            /// The body.
            pub body: #schema,
        )
    });
    let names = own.iter().map(|parameter| parameter.name.as_str());
    let parse_groups = groups.iter().map(|group| group_value(group));
    let parse_body = operation
        .body
        .as_ref()
        .map(|_| quote!(body: input.object("body")?));
    let parse = from_input(&ident, names, parse_groups.chain(parse_body));
    quote! {
        #[doc = #title]
        pub struct #ident { #(#fields)* #(#group_fields,)* #body }
        #parse
    }
}

fn parameter(parameter: &Parameter) -> TokenStream {
    let (ident, inner) = (field_ident(&parameter.name), value_type(&parameter.ty));
    let docs = docs(&[&parameter.description]);
    let ty = if parameter.required || parameter.default.is_some() {
        inner
    } else {
        quote!(Option<#inner>)
    };
    quote!(#docs pub #ident: #ty,)
}
