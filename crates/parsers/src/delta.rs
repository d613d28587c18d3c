//! Sizes at the start of an inflated delta of a pack.

/// Bits of the size in each byte.
const BITS: u32 = 7;
/// Flag of a byte that is followed by another one of the same size.
const MORE: u8 = 0x80;
/// Maximum length of a size in bytes: ten times seven bits contain every size of 64 bits.
const MAX_SIZE_LENGTH: usize = 10;
/// Maximum length of both sizes in bytes.
pub const MAX_SIZES_LENGTH: usize = 2 * MAX_SIZE_LENGTH;

/// The sizes that a delta declares, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaSizes {
    /// Size of the object that the delta is applied to.
    pub base: u64,
    /// Size of the result.
    pub result: u64,
}

impl DeltaSizes {
    /// Parses the start of a delta, of which at most [`MAX_SIZES_LENGTH`] bytes are read. `None` if it is too short, or if a
    /// size is longer than it may be or exceeds 64 bits: Git and its libraries read such sizes differently.
    #[must_use]
    pub fn parse(delta: &[u8]) -> Option<Self> {
        let (base, rest) = parse_size(delta)?;
        let (result, _) = parse_size(rest)?;
        Some(Self { base, result })
    }
}

/// Parses a size: seven bits in each byte, the lowest first.
fn parse_size(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut size = 0_u64;
    let mut shift = 0;
    for (at, byte) in bytes.iter().enumerate().take(MAX_SIZE_LENGTH) {
        let bits = u64::from(byte & !MORE);
        let shifted = bits
            .checked_shl(shift)
            .filter(|shifted| shifted >> shift == bits)?;
        size |= shifted;
        shift += BITS;
        if byte & MORE == 0 {
            return Some((size, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(delta: &[u8]) -> Option<(u64, u64)> {
        DeltaSizes::parse(delta).map(|sizes| (sizes.base, sizes.result))
    }

    #[test]
    fn sizes_have_seven_bits_in_each_byte() {
        assert_eq!(parsed(&[0, 0]), Some((0, 0)));
        assert_eq!(parsed(&[0x7f, 0x80, 0x01, 0xff]), Some((127, 128)));
        let mut largest = [0xff; MAX_SIZES_LENGTH];
        largest[9] = 1;
        largest[19] = 1;
        assert_eq!(parsed(&largest), Some((u64::MAX, u64::MAX)));
    }

    #[test]
    fn incomplete_long_and_overflowing_sizes_are_rejected() {
        let mut overflowing = [0xff; 11];
        overflowing[9] = 2;
        // Zeros above the highest bit, which some programs shift to its lowest bits.
        let mut long = [0x80; 13];
        long[11] = 0;
        for delta in [&[][..], &[1], &[0x80], &[1, 0x80], &overflowing, &long] {
            assert_eq!(parsed(delta), None, "{delta:?}");
        }
    }
}
