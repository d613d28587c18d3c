//! Pages of lists.

/// Number of rows up to which the total of a list is counted. Longer lists omit their totals.
pub const MAX_COUNTED: u64 = 10_000;

/// Number of rows that the pages of some lists reach, because the database reads all rows before a page.
pub const MAX_OFFSET: i64 = 50_000;

/// The page of a list that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRequest {
    /// The page, from 1.
    pub number: i64,
    /// Entries per page, 1 to 100.
    pub size: i64,
    /// Whether keyset pagination is requested.
    pub keyset: bool,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self {
            number: 1,
            size: 20,
            keyset: false,
        }
    }
}

impl PageRequest {
    /// Number of entries before the page.
    #[must_use]
    pub fn offset(&self) -> u64 {
        let before = (self.number - 1).saturating_mul(self.size);
        u64::try_from(before).unwrap_or(0)
    }

    /// Whether the page reaches beyond [`MAX_OFFSET`].
    #[must_use]
    pub fn is_beyond_max_offset(&self) -> bool {
        self.number.saturating_mul(self.size) > MAX_OFFSET
    }

    /// Maximum number of entries on the page.
    #[must_use]
    pub fn limit(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(1)
    }
}

/// One page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The entries, at most [`PageRequest::limit`].
    pub items: Vec<T>,
    /// Size of the whole list, as far as it is known.
    pub rest: PagePosition,
}

/// Size and position of a page within its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePosition {
    /// Number of entries in the whole list.
    Counted(u64),
    /// The list has more than [`MAX_COUNTED`] entries.
    Uncounted {
        /// Whether at least one entry follows.
        more: bool,
        /// Whether the page starts after the last entry.
        beyond: bool,
    },
    /// Keyset pagination: the filter that selects the next page. `None` on the last page.
    Keyset(Option<(&'static str, i64)>),
}

impl PagePosition {
    /// Returns the position of a page by a total counted up to [`MAX_COUNTED`] + 1. `more` is whether an entry follows, and
    /// `beyond` whether the page has no entries.
    #[must_use]
    pub fn of_total(total: u64, more: bool, beyond: bool) -> Self {
        match total > MAX_COUNTED {
            true => Self::Uncounted { more, beyond },
            false => Self::Counted(total),
        }
    }
}

impl<T> Page<T> {
    /// Creates a page from rows fetched with one row more than the page size, and a total counted up to
    /// [`MAX_COUNTED`] + 1.
    #[must_use]
    pub fn new(request: &PageRequest, mut items: Vec<T>, total: u64) -> Self {
        let size = usize::try_from(request.size).unwrap_or(1);
        let more = items.len() > size;
        items.truncate(size);
        let rest = PagePosition::of_total(total, more, items.is_empty());
        Self { items, rest }
    }

    /// Cuts a page out of a list that is completely in memory.
    #[must_use]
    pub fn from_all(request: &PageRequest, all: Vec<T>) -> Self {
        let total = all.len() as u64;
        Self::within(request, all, total)
    }

    /// Cuts a page out of the first part of a list of unknown length.
    #[must_use]
    pub fn from_prefix(request: &PageRequest, all: Vec<T>) -> Self {
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

    /// Converts the entries of the page.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(each).collect(),
            rest: self.rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_in_memory_list_has_total() {
        let request = PageRequest {
            number: 2,
            size: 3,
            keyset: false,
        };
        let page = Page::from_all(&request, (1..=7).collect());
        assert_eq!((page.items, page.rest), (vec![4, 5, 6], PagePosition::Counted(7)));
    }

    #[test]
    fn page_far_past_the_end_is_empty() {
        let request = PageRequest {
            number: i64::MAX,
            size: 100,
            keyset: false,
        };
        let page = Page::from_all(&request, vec![1, 2]);
        assert_eq!((page.items, page.rest), (vec![], PagePosition::Counted(2)));
    }

    #[test]
    fn page_of_list_over_10000_items_has_no_total() {
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
                PagePosition::Uncounted {
                    more: true,
                    beyond: false
                }
            )
        );
    }
}
