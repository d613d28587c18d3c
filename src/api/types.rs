//! The plain types that handlers, services and views exchange with the generated code.

use bytes::Bytes;
use chrono::{DateTime, FixedOffset, NaiveDate, SecondsFormat, Utc};
use futures_util::stream::BoxStream;
use poem_openapi::{NewType, Object};
use serde::{Serialize, Serializer};

pub use super::map::Map;
pub use poem_openapi::types::MaybeUndefined;

/// Rows beyond which totals are neither counted nor told (specification 8).
pub const MAX_COUNTED: u64 = 10_000;

/// A point in time: UTC with milliseconds, or a Git time in its own offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, NewType)]
#[oai(to_header = false)]
pub struct Timestamp(DateTime<FixedOffset>);

impl Timestamp {
    /// The instant in UTC.
    #[must_use]
    pub fn to_utc(self) -> DateTime<Utc> {
        self.0.to_utc()
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time.fixed_offset())
    }
}

impl From<DateTime<FixedOffset>> for Timestamp {
    fn from(time: DateTime<FixedOffset>) -> Self {
        Self(time)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let in_utc = self.0.offset().local_minus_utc() == 0;
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, in_utc))
    }
}

/// The part of a list that a caller wants.
#[derive(Debug, Clone, Copy, Object)]
pub struct PageRequest {
    /// The page, from 1.
    pub number: i64,
    /// Entries per page, 1 to 100.
    pub size: i64,
    /// Keyset paging was asked for.
    pub keyset: bool,
}

impl PageRequest {
    /// How many entries come before the page.
    #[must_use]
    pub fn offset(&self) -> u64 {
        let before = (self.number - 1).saturating_mul(self.size);
        u64::try_from(before).unwrap_or(0)
    }

    /// How many entries the page holds at most.
    #[must_use]
    pub fn limit(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(1)
    }
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// Its entries, at most as many as were asked for.
    pub items: Vec<T>,
    /// What is known of the rest of the list.
    pub rest: Rest,
}

/// What is known of the list around a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// The whole list has this many entries.
    Counted(u64),
    /// There are more than [`MAX_COUNTED`] entries.
    Uncounted {
        /// At least one entry follows.
        more: bool,
        /// The page lies behind the last entry.
        beyond: bool,
    },
    /// Keyset paging: the filter that leads to the next page, absent at the end.
    Keyset(Option<(&'static str, i64)>),
}

impl<T> Page<T> {
    /// A page out of rows that were fetched with one more than asked for, and a total counted to
    /// [`MAX_COUNTED`] + 1 at most.
    #[must_use]
    pub fn new(request: &PageRequest, mut items: Vec<T>, total: u64) -> Self {
        let size = usize::try_from(request.size).unwrap_or(1);
        let more = items.len() > size;
        items.truncate(size);
        let rest = if total > MAX_COUNTED {
            Rest::Uncounted {
                more,
                beyond: items.is_empty(),
            }
        } else {
            Rest::Counted(total)
        };
        Self { items, rest }
    }

    /// The page of a list that is wholly in memory.
    #[must_use]
    pub fn of(request: &PageRequest, all: Vec<T>) -> Self {
        let total = all.len() as u64;
        Self::within(request, all, total)
    }

    /// The page of the beginning of a list whose end nobody has seen.
    #[must_use]
    pub fn of_beginning(request: &PageRequest, all: Vec<T>) -> Self {
        Self::within(request, all, MAX_COUNTED + 1)
    }

    fn within(request: &PageRequest, all: Vec<T>, total: u64) -> Self {
        let start = usize::try_from(request.offset()).unwrap_or(usize::MAX);
        let size = usize::try_from(request.size).unwrap_or(1);
        Self::new(
            request,
            all.into_iter().skip(start).take(size.saturating_add(1)).collect(),
            total,
        )
    }

    /// The same page with other entries.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(each).collect(),
            rest: self.rest,
        }
    }
}

/// A success with headers that the contract documents for it.
#[derive(Debug, Clone)]
pub struct WithHeaders<T> {
    /// Name and value.
    pub headers: Vec<(&'static str, String)>,
    /// What goes into the body.
    pub body: T,
}

impl<T> WithHeaders<T> {
    /// The same headers around something else.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> WithHeaders<U> {
        WithHeaders {
            headers: self.headers,
            body: change(self.body),
        }
    }
}

/// Bytes for the caller: a raw file, a blob, an archive.
pub struct Download {
    /// The media type.
    pub content_type: String,
    /// The file name to suggest; `inline` or `attachment` by `attachment`.
    pub file_name: String,
    /// Offered for saving instead of showing.
    pub attachment: bool,
    /// A strong entity tag without quotes, for content that never changes under its id.
    pub etag: Option<String>,
    /// Headers that the contract documents beside these.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes.
    pub content: Content,
}

/// The bytes of a [`Download`].
pub enum Content {
    /// All in memory; ranges are cut out of them.
    Bytes(Bytes),
    /// Of known length, produced from an offset on; the source is asked once, for the range that is wanted.
    Seekable {
        /// Length in bytes.
        size: u64,
        /// Gives the bytes from `start` (inclusive) to `end` (exclusive).
        open: Box<dyn FnOnce(u64, u64) -> BoxStream<'static, std::io::Result<Bytes>> + Send>,
    },
    /// Of unknown length.
    Stream(BoxStream<'static, std::io::Result<Bytes>>),
}

/// A day, for signatures.
pub type Day = NaiveDate;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_show_milliseconds_and_keep_their_offset() {
        let shown = |text: &str| {
            let time = DateTime::parse_from_rfc3339(text).map(Timestamp).expect("a time");
            serde_json::to_string(&time).expect("JSON")
        };
        assert_eq!(shown("2020-07-01T12:00:00Z"), "\"2020-07-01T12:00:00.000Z\"");
        assert_eq!(
            shown("2014-02-27T10:14:56.5+02:00"),
            "\"2014-02-27T10:14:56.500+02:00\""
        );
    }

    #[test]
    fn pages_of_a_list_in_memory_know_its_length() {
        let request = PageRequest {
            number: 2,
            size: 3,
            keyset: false,
        };
        let page = Page::of(&request, (1..=7).collect());
        assert_eq!((page.items, page.rest), (vec![4, 5, 6], Rest::Counted(7)));
    }

    #[test]
    fn a_page_far_beyond_the_end_is_empty() {
        let request = PageRequest {
            number: i64::MAX,
            size: 100,
            keyset: false,
        };
        let page = Page::of(&request, vec![1, 2]);
        assert_eq!((page.items, page.rest), (vec![], Rest::Counted(2)));
    }

    #[test]
    fn lists_beyond_ten_thousand_keep_only_whether_more_follow() {
        let request = PageRequest {
            number: 1,
            size: 2,
            keyset: false,
        };
        let page = Page::new(&request, vec![1, 2, 3], MAX_COUNTED + 1);
        assert_eq!(
            (page.items, page.rest),
            (
                vec![1, 2],
                Rest::Uncounted {
                    more: true,
                    beyond: false
                }
            )
        );
    }
}
