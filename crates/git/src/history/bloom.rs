//! Changed-path filters of the commit-graph: Bloom filters that show which paths a commit did not change.

use super::graph::be32;

/// Seeds of Git's two hashes, fixed by the format.
const SEEDS: [u32; 2] = [0x293a_e76f, 0x7e64_6e2c];
/// The header of the data chunk: hash version, hashes per path, bits per path.
const HEADER: usize = 12;
/// Maximum number of hashes for each path; no known writer uses more.
const HASHES_LIMIT: u32 = 64;

/// Hashes of a path and of each parent directory. If a filter contains the path, it contains all of them.
pub(super) struct PathKeys {
    keys: Vec<[u32; 2]>,
    /// Version 1 of the hash handles bytes above 0x7f incorrectly; such paths need version 2.
    ascii: bool,
}

impl PathKeys {
    /// Returns the keys of a path without leading or trailing slash.
    pub(super) fn new(path: &[u8]) -> Self {
        let ends = path
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'/')
            .map(|(at, _)| at);
        let keys = ends
            .chain([path.len()])
            .filter_map(|end| path.get(..end))
            .map(|prefix| SEEDS.map(|seed| murmur3(seed, prefix)))
            .collect();
        Self {
            keys,
            ascii: path.is_ascii(),
        }
    }
}

/// Filters of one commit-graph file.
pub(super) struct BloomFilters<'a> {
    index: &'a [u8],
    data: &'a [u8],
    version: u32,
    hashes: u32,
}

impl<'a> BloomFilters<'a> {
    /// Returns the filters of the two chunks, or `None` if they are absent or of an unknown version.
    pub(super) fn new(index: Option<&'a [u8]>, data: Option<&'a [u8]>) -> Option<Self> {
        let (index, data) = (index?, data?);
        let (version, hashes) = (be32(data, 0)?, be32(data, 4)?);
        let known = (version == 1 || version == 2) && (1..=HASHES_LIMIT).contains(&hashes);
        known.then(|| Self {
            index,
            data: data.get(HEADER..).unwrap_or_default(),
            version,
            hashes,
        })
    }

    /// Returns whether the commit at `index` of a file may have changed the path; `true` if unknown.
    pub(super) fn may_contain(&self, index: u32, keys: &PathKeys) -> bool {
        if self.version == 1 && !keys.ascii {
            return true;
        }
        match self.filter(index) {
            None | Some([]) => true,
            Some(filter) => keys.keys.iter().all(|key| self.has(filter, *key)),
        }
    }

    fn filter(&self, index: u32) -> Option<&[u8]> {
        let at = index as usize * 4;
        let start = if index == 0 { 0 } else { be32(self.index, at - 4)? };
        self.data.get(start as usize..be32(self.index, at)? as usize)
    }

    fn has(&self, filter: &[u8], [first, second]: [u32; 2]) -> bool {
        let bits = filter.len() as u64 * 8;
        (0..self.hashes).all(|round| {
            let bit = u64::from(first.wrapping_add(round.wrapping_mul(second))) % bits;
            filter
                .get((bit / 8) as usize)
                .is_some_and(|byte| byte & (1 << (bit % 8)) != 0)
        })
    }
}

/// Computes MurmurHash3 (32 bits) as in Git's version 2; equal to version 1 for ASCII.
fn murmur3(seed: u32, bytes: &[u8]) -> u32 {
    fn mix(word: u32) -> u32 {
        word.wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593)
    }
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(seed, |hash, word| {
        (hash ^ mix(u32::from_le_bytes(*word)))
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64)
    });
    let tail = rest
        .iter()
        .rev()
        .fold(0, |word, byte| (word << 8) | u32::from(*byte));
    hash ^= mix(tail);
    hash ^= bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur3_returns_published_values() {
        assert_eq!(murmur3(0, b""), 0);
        assert_eq!(murmur3(0, b"Hello world!"), 0x627b_0c2c);
        assert_eq!(
            murmur3(0, b"The quick brown fox jumps over the lazy dog"),
            0x2e4f_f723
        );
    }

    #[test]
    fn path_keys_include_parent_directories() {
        assert_eq!(PathKeys::new(b"a/b/c.txt").keys.len(), 3);
        assert_eq!(PathKeys::new(b"README").keys.len(), 1);
    }
}
