//! Emits the Rust code of the contract: types, one trait for each tag, routes, and the operation table.

use heck::{ToShoutySnakeCase, ToSnakeCase, ToUpperCamelCase};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::model::{
    Content, Contract, FilePart, Form, Operation, Paging, Parameter, Property, Schema, Success, Tag, Type,
};
use crate::shapes;

/// Emits the whole contract as formatted Rust code.
///
/// # Errors
/// If the emitted tokens are not valid Rust, which is a bug of this module.
pub fn emit(contract: &Contract) -> Result<String, syn::Error> {
    let schemas = contract.schemas.iter().map(schema);
    let shapes = shapes::statics(contract);
    let tags = contract.tags.iter().map(tag);
    let operations = contract.tags.iter().flat_map(|tag| &tag.operations);
    let names = operations.map(|operation| constant(&operation.id));
    let mounts = contract.tags.iter().map(|tag| tag_idents(&tag.name).1);
    let bounds = contract.tags.iter().map(|tag| tag_idents(&tag.name).0);
    let apis: Vec<TokenStream> = mounts.map(|routes| quote!(#routes(edge.clone()))).collect();
    let apis = tuples(apis);
    let tokens = quote! {
        #(#schemas)*
        #shapes
        #(#tags)*
        /// All operations of the contract, in the order of the document.
        pub static OPERATIONS: &[&Operation] = &[#(&#names),*];

        /// Returns all routes of the contract for a handler.
        pub fn routes<H>(edge: Edge<H>) -> impl OpenApi
        where
            H: #(#bounds)+* + 'static,
        {
            #apis
        }
    };
    Ok(prettyplease::unparse(&syn::parse2(tokens)?))
}

/// Returns a tuple, nested if it has more members than the router supports in one.
fn tuples(members: Vec<TokenStream>) -> TokenStream {
    const MOST: usize = 16;
    if members.len() <= MOST {
        return quote!((#(#members,)*));
    }
    let parts = members.chunks(MOST).map(|part| match part {
        // A single part needs no tuple.
        [only] => only.clone(),
        part => quote!((#(#part,)*)),
    });
    tuples(parts.collect())
}

fn tag_idents(name: &str) -> (Ident, Ident) {
    let base = name.to_upper_camel_case();
    (format_ident!("{base}Api"), format_ident!("{base}Routes"))
}

fn constant(id: &str) -> Ident {
    format_ident!("{}", id.to_shouty_snake_case())
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

fn ty(ty: &Type) -> TokenStream {
    match ty {
        Type::Text { .. } => quote!(String),
        Type::Integer { .. } => quote!(i64),
        Type::Number => quote!(f64),
        Type::Boolean => quote!(bool),
        Type::Timestamp => quote!(Timestamp),
        Type::Date => quote!(NaiveDate),
        Type::Any | Type::Binary => quote!(Value),
        Type::Named(name) => {
            let ident = format_ident!("{}", name.to_upper_camel_case());
            quote!(#ident)
        }
        Type::List(inner, ..) => {
            let inner = self::ty(inner);
            quote!(Vec<#inner>)
        }
        Type::Map(inner) => {
            let inner = self::ty(inner);
            quote!(Map<#inner>)
        }
    }
}

fn schema(schema: &Schema) -> TokenStream {
    let ident = format_ident!("{}", schema.name.to_upper_camel_case());
    let docs = docs(&[&schema.description]);
    match &schema.form {
        Form::Alias(target) => {
            let target = ty(target);
            quote!(#docs pub type #ident = #target;)
        }
        Form::Enum(values) => {
            let variants = values.iter().map(|value| {
                let variant = format_ident!("{}", variant(value));
                let text = format!(" `{value}`.");
                let (oai, serde) = renames(schema.input, schema.output, value, &quote!());
                quote!(#[doc = #text] #oai #serde #variant)
            });
            let arms = values.iter().map(|value| {
                let variant = format_ident!("{}", variant(value));
                quote!(Self::#variant => #value)
            });
            let parse = schema.input.then(|| quote!(, Enum));
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
        Form::Object(properties) => object(&ident, &docs, properties, schema.input, schema.output),
    }
}

/// Returns the attributes that rename a field or value in JSON, for parsing and serializing.
fn renames(input: bool, output: bool, name: &str, how: &TokenStream) -> (TokenStream, TokenStream) {
    let oai = input.then(|| quote!(#[oai(rename = #name)]));
    let serde = output.then(|| quote!(#[serde(rename = #name #how)]));
    (quote!(#oai), quote!(#serde))
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

fn object(
    ident: &Ident,
    docs: &TokenStream,
    properties: &[Property],
    input: bool,
    output: bool,
) -> TokenStream {
    let fields = properties.iter().map(|property| {
        let (name, ident, inner) = (&property.name, field_ident(&property.name), ty(&property.ty));
        let docs = self::docs(&[&property.description]);
        let always = property.required || (!output && property.default.is_some());
        let (ty, serde) = match (always, property.nullable) {
            (true, false) => (quote!(#inner), quote!()),
            (true, true) => (quote!(Option<#inner>), quote!()),
            (false, true) if input && !output => (quote!(MaybeUndefined<#inner>), quote!()),
            (false, true) => (
                quote!(MaybeUndefined<#inner>),
                quote!(, skip_serializing_if = "MaybeUndefined::is_undefined"),
            ),
            (false, false) => (
                quote!(Option<#inner>),
                quote!(, skip_serializing_if = "Option::is_none"),
            ),
        };
        let (oai, serde) = renames(input, output, name, &serde);
        quote!(#docs #oai #serde pub #ident: #ty)
    });
    // Types derive only what they need, and nothing describes them to the router: there are hundreds of them,
    // and all derived code must be compiled.
    let serialize = output.then(|| quote!(, Serialize));
    let (parse, only) = match input {
        true => (quote!(, Object), quote!(#[oai(write_only_all)])),
        false => (quote!(), quote!()),
    };
    quote! {
        #docs
        #[derive(Debug, Clone #parse #serialize)]
        #only
        pub struct #ident { #(#fields),* }
    }
}

fn tag(tag: &Tag) -> TokenStream {
    let (api, routes) = tag_idents(&tag.name);
    let docs = docs(&[&tag.description]);
    let requests = tag.operations.iter().map(request);
    let tables = tag.operations.iter().map(|operation| table(&tag.name, operation));
    let methods = tag.operations.iter().map(method);
    let handlers = tag.operations.iter().map(route);
    let title = format!(" Routes of {}.", tag.name);
    quote! {
        #(#requests)*
        #(#tables)*
        #docs
        pub trait #api: Send + Sync { #(#methods)* }
        #[doc = #title]
        pub struct #routes<H>(pub Edge<H>);
        #[OpenApi]
        impl<H: #api + 'static> #routes<H> { #(#handlers)* }
    }
}

/// Returns the name of the path parameter that the guard consumes, if any.
fn container(operation: &Operation) -> Option<&'static str> {
    match operation.access.on.as_str() {
        "project" | "group" => Some("id"),
        "scim" => Some("group_path"),
        "user" => {
            let named = |name: &str| {
                operation
                    .parameters
                    .iter()
                    .any(|p| p.place == "path" && p.name == name)
            };
            Some(if named("user_id") { "user_id" } else { "id" })
        }
        _ => None,
    }
}

fn request_ident(operation: &Operation) -> Ident {
    format_ident!("{}Request", operation.id.to_upper_camel_case())
}

fn request_parameters(operation: &Operation) -> impl Iterator<Item = &Parameter> {
    let container = container(operation);
    operation
        .parameters
        .iter()
        .filter(move |parameter| !(parameter.place == "path" && Some(parameter.name.as_str()) == container))
}

fn has_request(operation: &Operation) -> bool {
    operation.body.is_some() || request_parameters(operation).next().is_some()
}

fn request(operation: &Operation) -> TokenStream {
    if !has_request(operation) {
        return quote!();
    }
    let ident = request_ident(operation);
    let title = format!(" Request of `{}`.", operation.id);
    let fields = request_parameters(operation).map(|parameter| {
        let (name, ident, inner) = (&parameter.name, field_ident(&parameter.name), ty(&parameter.ty));
        let docs = docs(&[&parameter.description]);
        let ty = if parameter.required || parameter.default.is_some() {
            inner
        } else {
            quote!(Option<#inner>)
        };
        quote!(#docs #[oai(rename = #name)] pub #ident: #ty,)
    });
    let body = operation.body.as_ref().map(|body| {
        let schema = format_ident!("{}", body.schema.to_upper_camel_case());
        quote!(
            /// The body.
            pub body: #schema,
        )
    });
    quote! {
        #[doc = #title]
        #[derive(Debug, Clone, Object)]
        #[oai(write_only_all)]
        pub struct #ident { #(#fields)* #body }
    }
}

fn context(operation: &Operation) -> TokenStream {
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

/// Returns the result type of the trait's method, and the expression that converts the result to a response.
fn success(success: &Success, page: Paging) -> (TokenStream, TokenStream) {
    let (plain, wrap) = match (&success.content, page) {
        (Content::Json(Type::List(inner, ..)), Paging::Offset | Paging::Keyset) => {
            let inner = ty(inner);
            return (quote!(Page<#inner>), quote!(outcome));
        }
        (Content::Json(inner), _) => (ty(inner), quote!(Json)),
        (Content::Empty, _) => (quote!(()), quote!(Empty::from)),
        (Content::Download, _) => return (quote!(Download), quote!(outcome)),
    };
    if success.headers {
        let wrapped = quote!(outcome.map(|answer| answer.map(#wrap)));
        (quote!(WithHeaders<#plain>), wrapped)
    } else {
        (plain, quote!(outcome.map(#wrap)))
    }
}

fn method(operation: &Operation) -> TokenStream {
    let (name, context) = (field_ident(&operation.id), context(operation));
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
    let (answer, _) = success(&operation.success, operation.page);
    quote!(#docs fn #name(&self, access: #context #request #page #file) -> impl Future<Output = Result<#answer>> + Send;)
}

fn route(operation: &Operation) -> TokenStream {
    let (id, name, table) = (&operation.id, field_ident(&operation.id), constant(&operation.id));
    let (path, method, status) = (
        colons(&operation.path),
        &operation.method,
        operation.success.status,
    );
    let (_, wrap) = success(&operation.success, operation.page);
    let docs = docs(&[&operation.summary]);
    let (request, pattern, argument) = if has_request(operation) {
        let request = request_ident(operation);
        (quote!(#request), quote!(request), quote!(, request))
    } else {
        (quote!(NoRequest), quote!(_), quote!())
    };
    let page = (operation.page != Paging::None).then(|| quote!(, exchange.page().unwrap_or_default()));
    let call = match takes_file(operation) {
        None => quote!(self.0.handler().#name(access #argument #page).await),
        Some(true) => quote! {
            match exchange.required_file() {
                Ok(file) => self.0.handler().#name(access #argument, file).await,
                Err(error) => Err(error),
            }
        },
        Some(false) => quote!(self.0.handler().#name(access #argument, exchange.file()).await),
    };
    let admit = quote! {
        match self.0.admit(&mut exchange).await.and_then(Admitted::request::<#request>) {
            Ok((access, #pattern)) => #call,
            Err(error) => Err(error),
        }
    };
    let recall = is_memorable(operation).then(|| {
        quote! {
            if let Some(known) = self.0.recall(&mut exchange).await {
                return Reply::new(known);
            }
        }
    });
    quote! {
        #docs
        #[oai(path = #path, method = #method, operation_id = #id)]
        async fn #name(&self, call: Call<'_>) -> Reply<#status> {
            let mut exchange = Exchange::new(&#table, call);
            #recall
            let outcome = #admit;
            self.0.answer(exchange, #wrap)
        }
    }
}

/// Returns whether the handler receives a file, and whether the file is always present.
fn takes_file(operation: &Operation) -> Option<bool> {
    match &operation.file {
        Some(file) => Some(file.required),
        None => operation.raw_body.map(|_| true),
    }
}

/// Returns whether the response depends only on the URL and the database, that is, whether it is JSON or
/// bytes.
fn is_memorable(operation: &Operation) -> bool {
    operation.method == "get" && matches!(operation.success.content, Content::Json(_) | Content::Download)
}

/// Converts `{name}` placeholders to the router's syntax.
fn colons(path: &str) -> String {
    path.replace('{', ":").replace('}', "")
}

fn table(tag: &str, operation: &Operation) -> TokenStream {
    let (ident, id, path) = (constant(&operation.id), &operation.id, &operation.path);
    let method = operation.method.to_uppercase();
    let access = &operation.access;
    let on = format_ident!("{}", access.on.to_upper_camel_case());
    let min = format_ident!("{}", access.min.to_upper_camel_case());
    let tier = format_ident!("{}", operation.tier.to_upper_camel_case());
    let (anonymous, archived, first) = (access.anonymous, access.archived, access.first);
    let (scopes, jobs, statuses) = (&operation.scopes, operation.jobs, &operation.statuses);
    let status = operation.success.status;
    let flag = match &operation.flag {
        Some(gate) => {
            let (name, default, later) = (&gate.name, gate.default, gate.later);
            quote!(Some(Flag { name: #name, default: #default, later: #later }))
        }
        None => quote!(None),
    };
    let paging = format_ident!(
        "{}",
        match operation.page {
            Paging::None => "None",
            Paging::Offset => "Offset",
            Paging::Keyset => "Keyset",
        }
    );
    let parameters = operation.parameters.iter().map(|parameter| {
        let (name, required) = (&parameter.name, parameter.required);
        let place = format_ident!("{}", parameter.place.to_upper_camel_case());
        let (shape, default) = (shapes::shape(&parameter.ty), shapes::default(parameter.default.as_ref()));
        quote!(Parameter { name: #name, place: Place::#place, required: #required, default: #default, shape: #shape })
    });
    let body = match &operation.body {
        Some(body) => {
            let shape = shapes::ident(&body.schema);
            quote!(Some(&#shape))
        }
        None => quote!(None),
    };
    let file = match &operation.file {
        Some(FilePart {
            name,
            required,
            attachment,
            ..
        }) => quote!(Some(FilePart { name: #name, required: #required, attachment: #attachment })),
        None => quote!(None),
    };
    let of_body = operation.body.as_ref().map(|body| body.limit);
    let of_file = operation.file.as_ref().map(|file| file.limit);
    let limit: u64 = of_body.or(of_file).or(operation.raw_body).unwrap_or(1 << 20);
    let raw_body = operation.raw_body.is_some();
    let (media, errors) = (
        &operation.media,
        format_ident!("{}", operation.errors.to_upper_camel_case()),
    );
    let one_of = operation.one_of.iter().map(|names| quote!(&[#(#names),*]));
    let docs = format!(" Operation `{id}` of the contract.");
    quote! {
        #[doc = #docs]
        pub static #ident: Operation = Operation {
            id: #id,
            tag: #tag,
            method: #method,
            path: #path,
            access: Access { on: On::#on, min: Minimum::#min, anonymous: #anonymous, archived: #archived, first: #first },
            scopes: &[#(#scopes),*],
            jobs: #jobs,
            tier: Tier::#tier,
            flag: #flag,
            paging: Paging::#paging,
            parameters: &[#(#parameters),*],
            body: #body,
            one_of: &[#(#one_of),*],
            file: #file,
            raw_body: #raw_body,
            body_limit: #limit,
            success: #status,
            statuses: &[#(#statuses),*],
            media: #media,
            errors: Errors::#errors,
        };
    }
}
