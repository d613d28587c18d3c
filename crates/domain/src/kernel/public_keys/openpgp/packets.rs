//! Packets of keys and signatures, checked before the library parses them.
//!
//! The library computes a power of the numbers of a DSA key when it parses the key. This takes seconds for large numbers.

use std::io::Read;

use pgp::armor::Dearmor;
use pgp::packet::PacketParser;
use pgp::types::Tag;

/// Maximum number of primary keys and subkeys in a text.
const MAX_KEYS: usize = 100;
/// Maximum number of bits of the modulus of an RSA key.
const MAX_RSA_BITS: u16 = 8192;
/// Maximum number of bits of `p` and of `q` of a DSA key: the largest of FIPS 186-4.
const MAX_DSA_BITS: [u16; 2] = [3072, 256];

/// Returns the packets of an ASCII-armored key in binary form. Returns `None` for other packets, and for keys that are too
/// large.
pub(super) fn of_key(text: &str) -> Option<Vec<u8>> {
    let mut keys = 0;
    packets(text, |tag, body| match tag {
        Tag::PublicKey | Tag::PublicSubkey => {
            keys += 1;
            keys <= MAX_KEYS && has_allowed_size(body)
        }
        Tag::UserId | Tag::UserAttribute | Tag::Signature | Tag::Trust | Tag::Marker | Tag::Padding => true,
        _ => false,
    })
}

/// Returns the packets of ASCII-armored signatures in binary form. Returns `None` for other packets.
pub(super) fn of_signatures(text: &str) -> Option<Vec<u8>> {
    packets(text, |tag, _| tag == Tag::Signature)
}

/// Decodes a text and returns its packets, if each of them is allowed.
fn packets(text: &str, mut is_allowed: impl FnMut(Tag, &[u8]) -> bool) -> Option<Vec<u8>> {
    let mut packets = Vec::new();
    Dearmor::new(text.as_bytes()).read_to_end(&mut packets).ok()?;
    let mut parser = PacketParser::new(packets.as_slice());
    while let Some(packet) = parser.next_ref() {
        let mut packet = packet.ok()?;
        let mut body = Vec::new();
        packet.read_to_end(&mut body).ok()?;
        if !is_allowed(packet.packet_header().tag(), &body) {
            return None;
        }
    }
    Some(packets)
}

/// Returns whether the numbers of a key are small enough. The sizes of other algorithms are fixed.
fn has_allowed_size(key: &[u8]) -> bool {
    // The version, the time, the period of old versions, the algorithm, and the length that new versions have.
    let (algorithm, numbers) = match key.first() {
        Some(0..=3) => (key.get(7), key.get(8..)),
        Some(4) => (key.get(5), key.get(6..)),
        _ => (key.get(5), key.get(10..)),
    };
    let (Some(algorithm), Some(numbers)) = (algorithm, numbers) else {
        return false;
    };
    let limits: &[u16] = match algorithm {
        1..=3 => &[MAX_RSA_BITS],
        17 => &MAX_DSA_BITS,
        _ => return true,
    };
    let mut rest = numbers;
    limits.iter().all(|limit| {
        let Some((size, number)) = rest.split_first_chunk::<2>() else {
            return false;
        };
        let bits = u16::from_be_bytes(*size);
        rest = number.get(usize::from(bits.div_ceil(8))..).unwrap_or_default();
        bits <= *limit
    })
}
