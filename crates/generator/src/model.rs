//! The contract as the emitter sees it: only what the server needs, already resolved.

use serde_json::Value;

/// The whole contract.
pub struct Contract {
    /// Tags in the order of their files.
    pub tags: Vec<Tag>,
    /// Component schemas that some operation takes or answers with.
    pub schemas: Vec<Schema>,
}

/// One tag: one trait, one handler file.
pub struct Tag {
    /// As shown (`Repository Files`).
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its operations, in the order written.
    pub operations: Vec<Operation>,
}

/// One operation.
pub struct Operation {
    /// snake_case, unique; the method's name.
    pub id: String,
    /// Lower-case HTTP method.
    pub method: String,
    /// Path template with `{name}` placeholders.
    pub path: String,
    /// One line.
    pub summary: String,
    /// Paragraphs.
    pub description: String,
    /// Path, query and header parameters, without paging.
    pub parameters: Vec<Parameter>,
    /// The schema of the JSON body, its limit in bytes.
    pub body: Option<Body>,
    /// The file that a form may carry.
    pub file: Option<FilePart>,
    /// The largest size in bytes of a body that is handed over as it comes.
    pub raw_body: Option<u64>,
    /// The documented success.
    pub success: Success,
    /// Every documented status.
    pub statuses: Vec<u16>,
    /// Who may call.
    pub access: Access,
    /// Token scopes that are accepted.
    pub scopes: Vec<String>,
    /// Whether the token of a job is accepted.
    pub jobs: bool,
    /// The lowest plan that has it.
    pub tier: String,
    /// The feature gate.
    pub flag: Option<Flag>,
    /// How it pages.
    pub page: Paging,
    /// Of each of these lists of attributes, exactly one must be sent.
    pub one_of: Vec<Vec<String>>,
    /// The media type of its JSON.
    pub media: String,
    /// The form of its refusals: plain or scim.
    pub errors: String,
}

/// `x-flag`.
pub struct Flag {
    /// The name of the gate.
    pub name: String,
    /// Whether it is open when nobody set it.
    pub default: bool,
    /// The service asks it, for the project that it finds.
    pub later: bool,
}

/// How an operation pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Paging {
    /// One answer.
    None,
    /// By page number.
    Offset,
    /// By page number, or by key on request.
    Keyset,
}

/// `x-access`.
pub struct Access {
    /// instance, user, group, project or scim.
    pub on: String,
    /// The least role.
    pub min: String,
    /// Open to everyone on public things.
    pub anonymous: bool,
    /// A write that an archived project takes.
    pub archived: bool,
    /// Permission is answered before parameter faults.
    pub first: bool,
}

/// A parameter outside the body.
pub struct Parameter {
    /// As sent, without a final `[]`.
    pub name: String,
    /// path, query or header.
    pub place: String,
    /// What it is for.
    pub description: String,
    /// Whether it must be there.
    pub required: bool,
    /// Its type.
    pub ty: Type,
    /// Its default.
    pub default: Option<Value>,
}

/// A request body.
pub struct Body {
    /// Name of the component schema.
    pub schema: String,
    /// Largest size in bytes.
    pub limit: u64,
}

/// The part of a form that is a file.
pub struct FilePart {
    /// Its name.
    pub name: String,
    /// Whether it must be there.
    pub required: bool,
    /// Whether the setting for attachments bounds its size as well.
    pub attachment: bool,
    /// Largest size of the whole body in bytes.
    pub limit: u64,
}

/// What a success carries.
pub struct Success {
    /// Its status.
    pub status: u16,
    /// Its content.
    pub content: Content,
    /// Whether headers beside paging are documented.
    pub headers: bool,
}

/// The content of a success.
pub enum Content {
    /// Nothing.
    Empty,
    /// JSON of this type.
    Json(Type),
    /// Bytes.
    Download,
}

/// A component schema.
pub struct Schema {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Reachable from a request.
    pub input: bool,
    /// Reachable from a success.
    pub output: bool,
    /// Its form.
    pub form: Form,
}

/// The form of a component schema.
pub enum Form {
    /// An object with these properties.
    Object(Vec<Property>),
    /// One of these texts.
    Enum(Vec<String>),
    /// Another name of this type.
    Alias(Type),
}

/// A property of an object.
pub struct Property {
    /// As in JSON.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Always present.
    pub required: bool,
    /// May be null.
    pub nullable: bool,
    /// Its default.
    pub default: Option<Value>,
    /// Its type.
    pub ty: Type,
}

/// A type, with the limits that input is held to.
#[derive(Clone)]
pub enum Type {
    /// Text.
    Text {
        /// Fewest characters.
        min: Option<u64>,
        /// Most characters.
        max: Option<u64>,
        /// Regular expression.
        pattern: Option<String>,
    },
    /// A 64-bit integer.
    Integer {
        /// Smallest.
        min: Option<i64>,
        /// Largest.
        max: Option<i64>,
        /// The only values there are, when not empty.
        values: Vec<i64>,
    },
    /// A double.
    Number,
    /// true or false.
    Boolean,
    /// RFC 3339.
    Timestamp,
    /// `YYYY-MM-DD`.
    Date,
    /// Any JSON.
    Any,
    /// An uploaded file or raw bytes.
    Binary,
    /// A component schema.
    Named(String),
    /// A list of these, with the fewest and the most there may be.
    List(Box<Type>, u64, Option<u64>),
    /// A hash with free keys.
    Map(Box<Type>),
}
