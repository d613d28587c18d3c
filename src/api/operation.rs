//! The static description of an operation that the generator emits and the edge works by.

pub use crate::policy::{Access, Minimum, On, Tier};

/// Everything the contract says about one operation that the edge needs at run time.
#[derive(Debug)]
pub struct Operation {
    /// operationId.
    pub id: &'static str,
    /// The tag's name.
    pub tag: &'static str,
    /// Upper-case HTTP method.
    pub method: &'static str,
    /// Path template with `{name}` placeholders.
    pub path: &'static str,
    /// Who may call.
    pub access: Access,
    /// Token scopes that are accepted.
    pub scopes: &'static [&'static str],
    /// Whether the token of a job is accepted.
    pub jobs: bool,
    /// The lowest plan that has it.
    pub tier: Tier,
    /// The feature gate it hides behind.
    pub flag: Option<Flag>,
    /// How it pages.
    pub paging: Paging,
    /// Parameters outside the body, in declared order.
    pub parameters: &'static [Parameter],
    /// The form of the body.
    pub body: Option<&'static Shape>,
    /// Of each of these lists of attributes of the body, exactly one must be sent.
    pub one_of: &'static [&'static [&'static str]],
    /// The file that a form may carry.
    pub file: Option<FilePart>,
    /// The body is handed over as it comes, as a file.
    pub raw_body: bool,
    /// Largest body in bytes.
    pub body_limit: u64,
    /// The status of a success.
    pub success: u16,
    /// Every documented status.
    pub statuses: &'static [u16],
    /// The media type of its JSON.
    pub media: &'static str,
    /// The form of its refusals.
    pub errors: Errors,
}

/// The form that refusals have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errors {
    /// That of nearly all operations: an object with `message`.
    Plain,
    /// That of RFC 7644 3.12, with `message` beside it.
    Scim,
}

impl Operation {
    /// Whether it only reads.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }
}

/// A feature gate.
#[derive(Debug)]
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// Whether it is open when nobody set it.
    pub default: bool,
    /// The service asks it, for the project that it finds.
    pub later: bool,
}

/// How an operation pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paging {
    /// It does not.
    None,
    /// By page number.
    Offset,
    /// By page number, or by key on request.
    Keyset,
}

/// The part of a form that is a file.
#[derive(Debug)]
pub struct FilePart {
    /// Its name.
    pub name: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// Whether the setting for attachments bounds its size as well.
    pub attachment: bool,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the path.
    Path,
    /// In the query; the body may carry it as well.
    Query,
    /// In a header.
    Header,
}

/// A parameter outside the body.
#[derive(Debug)]
pub struct Parameter {
    /// Its name, without a final `[]`.
    pub name: &'static str,
    /// Where it stands.
    pub place: Place,
    /// Whether it must be there.
    pub required: bool,
    /// Its default as JSON text.
    pub default: Option<&'static str>,
    /// What it may be.
    pub shape: Shape,
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// Whether null is a value of its own.
    pub nullable: bool,
    /// Its default as JSON text.
    pub default: Option<&'static str>,
    /// What it may be.
    pub shape: Shape,
}

/// What an input may be.
#[derive(Debug)]
pub enum Shape {
    /// Text of `min` to `max` characters. Only text without a `max` may hold NUL: it is file content.
    Text {
        /// Fewest characters; from 1 on, blank text is refused.
        min: u64,
        /// Most characters.
        max: Option<u64>,
        /// Regular expression it must match.
        pattern: Option<&'static str>,
    },
    /// A 64-bit integer.
    Integer {
        /// Smallest.
        min: Option<i64>,
        /// Largest.
        max: Option<i64>,
        /// The only values there are, when not empty.
        values: &'static [i64],
    },
    /// A double.
    Number,
    /// A boolean.
    Boolean,
    /// A point in time.
    Timestamp,
    /// A day.
    Date,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A component.
    Named(&'static Shape),
    /// A list.
    List {
        /// What it is a list of.
        items: &'static Shape,
        /// The fewest entries.
        min: u64,
        /// The most entries.
        max: Option<u64>,
    },
    /// An object.
    Object(&'static [Field]),
    /// A hash with free keys.
    Map(&'static Shape),
    /// Anything.
    Any,
}
