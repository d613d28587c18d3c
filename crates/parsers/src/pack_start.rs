//! Search for the start of a pack in a response that arrives in pieces.

/// Signature and version at the start of a pack.
pub const PACK_START: &[u8] = b"PACK\0\0\0\x02";

/// Maximum number of bytes of a response that are searched. Messages about the progress precede the pack.
pub const MAX_SEARCHED: usize = 1 << 20;

/// Search for the start of a pack in the pieces of a response.
#[derive(Debug, Default)]
pub struct PackSearch {
    /// Number of bytes that were searched.
    searched: usize,
    /// The last bytes, in which the start of a pack may begin.
    tail: Vec<u8>,
}

/// Result of a search in the pieces so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchResult {
    /// The pieces contain the start of a pack.
    Found,
    /// The start of a pack can follow.
    Continues,
    /// The limit is reached without a pack.
    Absent,
}

impl PackSearch {
    /// Searches the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> SearchResult {
        let contains = |bytes: &[u8]| bytes.windows(PACK_START.len()).any(|window| window == PACK_START);
        let start = piece.get(..PACK_START.len() - 1).unwrap_or(piece);
        self.tail.extend_from_slice(start);
        if contains(&self.tail) || contains(piece) {
            return SearchResult::Found;
        }
        self.searched += piece.len();
        if self.searched > MAX_SEARCHED {
            return SearchResult::Absent;
        }
        if piece.len() >= PACK_START.len() {
            self.tail = piece.to_vec();
        }
        let surplus = self.tail.len().saturating_sub(PACK_START.len() - 1);
        self.tail.drain(..surplus);
        SearchResult::Continues
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pack_is_found_across_pieces() {
        let response = b"0008NAK\n0020\x02Enumerating\n1000\x01PACK\0\0\0\x02\0\0\0\x05";
        for size in 1..=response.len() {
            let mut search = PackSearch::default();
            let mut pieces = response.chunks(size);
            assert!(
                pieces.any(|piece| search.feed(piece) == SearchResult::Found),
                "{size}"
            );
        }
        let mut search = PackSearch::default();
        for piece in [
            &b"PACK"[..],
            b"\0\0\0\x03PACK",
            b"\0\0",
            b"\0",
            b"",
            b"x",
            b"\x02",
        ] {
            assert_eq!(search.feed(piece), SearchResult::Continues);
        }
        assert_eq!(search.feed(b"PACK\0\0\0\x02"), SearchResult::Found);
    }

    #[test]
    fn search_ends_after_the_limit() {
        let mut search = PackSearch::default();
        assert_eq!(search.feed(&vec![0; MAX_SEARCHED]), SearchResult::Continues);
        assert_eq!(search.feed(b"x"), SearchResult::Absent);
    }
}
