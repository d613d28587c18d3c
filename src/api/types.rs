//! Plain types shared by handlers, services, views and the generated code.

use bytes::Bytes;
use chrono::{DateTime, FixedOffset, NaiveDate, SecondsFormat, Utc};
use futures_util::stream::BoxStream;
use poem_openapi::{NewType, Object};
use serde::{Serialize, Serializer};

pub use super::map::Map;
pub use poem_openapi::types::MaybeUndefined;

/// Number of rows up to which totals are counted and returned.
pub const MAX_COUNTED: u64 = 10_000;

/// A time: UTC with milliseconds, or a Git time with its own offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, NewType)]
#[oai(to_header = false)]
pub struct Timestamp(DateTime<FixedOffset>);

impl Timestamp {
    /// Returns the time in UTC.
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

/// The requested page of a list.
#[derive(Debug, Clone, Copy, Object)]
pub struct PageRequest {
    /// The page number, starting at 1.
    pub number: i64,
    /// Items per page, 1 to 100.
    pub size: i64,
    /// Whether keyset pagination was requested.
    pub keyset: bool,
}

impl PageRequest {
    /// Returns the number of items before the page.
    #[must_use]
    pub fn offset(&self) -> u64 {
        let before = (self.number - 1).saturating_mul(self.size);
        u64::try_from(before).unwrap_or(0)
    }

    /// Returns the maximum number of items on the page.
    #[must_use]
    pub fn limit(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(1)
    }
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The items, at most the requested number.
    pub items: Vec<T>,
    /// Information about the rest of the list.
    pub rest: Rest,
}

/// Information about the list around a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Total number of items.
    Counted(u64),
    /// The list has more than [`MAX_COUNTED`] items.
    Uncounted {
        /// Whether at least one item follows.
        more: bool,
        /// Whether the page is after the last item.
        beyond: bool,
    },
    /// Keyset pagination: the filter of the next page, absent on the last page.
    Keyset(Option<(&'static str, i64)>),
}

impl<T> Page<T> {
    /// Creates a page from rows and a total. One row more than requested must be fetched, and the total must
    /// be counted up to [`MAX_COUNTED`] + 1.
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

    /// Returns the page of a list that is completely in memory.
    #[must_use]
    pub fn of(request: &PageRequest, all: Vec<T>) -> Self {
        let total = all.len() as u64;
        Self::within(request, all, total)
    }

    /// Returns the page of the beginning of a list whose total is unknown.
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

    /// Returns the same page with converted items.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(each).collect(),
            rest: self.rest,
        }
    }
}

/// A result with additional documented headers.
#[derive(Debug, Clone)]
pub struct WithHeaders<T> {
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: T,
}

impl<T> WithHeaders<T> {
    /// Returns the same headers with a converted body.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> WithHeaders<U> {
        WithHeaders {
            headers: self.headers,
            body: change(self.body),
        }
    }
}

/// Content of a file, blob or archive for the caller.
pub struct Download {
    /// The media type.
    pub content_type: String,
    /// The suggested file name.
    pub file_name: String,
    /// Whether the disposition is `attachment` instead of `inline`.
    pub attachment: bool,
    /// A strong entity tag without quotes, for immutable content.
    pub etag: Option<String>,
    /// Additional documented headers.
    pub headers: Vec<(&'static str, String)>,
    /// The content.
    pub content: Content,
}

/// The content of a [`Download`].
pub enum Content {
    /// Content in memory; ranges are slices of it.
    Bytes(Bytes),
    /// Content of known length that can be read from an offset. The source is opened once, for the requested
    /// range.
    Seekable {
        /// Length in bytes.
        size: u64,
        /// Returns the bytes from `start` (inclusive) to `end` (exclusive).
        open: Box<dyn FnOnce(u64, u64) -> BoxStream<'static, std::io::Result<Bytes>> + Send>,
    },
    /// Content of unknown length.
    Stream(BoxStream<'static, std::io::Result<Bytes>>),
}

/// A date, for signatures.
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
