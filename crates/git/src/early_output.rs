//! Buffers the output that a program writes before the request body was read.
//!
//! A response must not begin before that: a proxy stops forwarding a body once it has received a response head. The output
//! is read all the same, because a program whose output is not read stops reading the body.

use bytes::{Buf, Bytes, BytesMut};

/// Maximum size of the buffered output, in bytes. Progress and reports take a few kilobytes.
const MAX_BYTES: usize = 1 << 20;
/// The longest packet with its length, in bytes.
const MAX_PACKET_BYTES: usize = 65_520;
/// The digits of the length at the start of a packet.
pub(super) const LENGTH_DIGITS: usize = 4;
/// The sideband of progress messages.
pub(super) const PROGRESS_BAND: u8 = 2;

/// Handling of output beyond the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overflow {
    /// The response begins.
    Begins,
    /// The output is kept: the length of the report depends only on the commands.
    Buffered,
    /// Progress messages are dropped and all else is kept: the output consists of packets with sidebands.
    DropsProgress,
}

/// The output so far.
pub(super) struct EarlyOutput {
    overflow: Overflow,
    buffered: BytesMut,
    /// Number of buffered bytes whose packets were checked.
    checked_bytes: usize,
}

impl EarlyOutput {
    /// Without any output yet.
    pub(super) fn new(overflow: Overflow) -> Self {
        Self {
            overflow,
            buffered: BytesMut::new(),
            checked_bytes: 0,
        }
    }

    /// Returns the buffer for further output.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        self.buffered.reserve(8 << 10);
        &mut self.buffered
    }

    /// Drops progress messages beyond the limit; returns whether more output can be taken.
    pub(super) fn has_room(&mut self) -> bool {
        if self.overflow == Overflow::DropsProgress {
            self.drop_progress();
        }
        self.overflow == Overflow::Buffered
            || self.buffered.len() < MAX_BYTES
            || (self.overflow == Overflow::DropsProgress
                && self.buffered.len() - self.checked_bytes < MAX_PACKET_BYTES)
    }

    /// Returns the buffered output.
    pub(super) fn into_bytes(self) -> Bytes {
        self.buffered.freeze()
    }

    fn drop_progress(&mut self) {
        while let Some(length) = packet(self.buffered.get(self.checked_bytes..).unwrap_or_default()) {
            let end = self.checked_bytes + length;
            let is_progress = self.buffered.get(self.checked_bytes + LENGTH_DIGITS) == Some(&PROGRESS_BAND)
                && length > LENGTH_DIGITS;
            if is_progress && end > MAX_BYTES {
                let mut rest = self.buffered.split_off(self.checked_bytes);
                rest.advance(length);
                self.buffered.extend_from_slice(&rest);
            } else {
                self.checked_bytes = end;
            }
        }
    }
}

/// Returns the length of the packet at the start of `bytes`, or `None` if it is incomplete or not a packet.
pub(super) fn packet(bytes: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(bytes.get(..LENGTH_DIGITS)?).ok()?;
    // Lengths below four are of packets without content, such as a flush.
    let length = usize::from_str_radix(digits, 16).ok()?.max(LENGTH_DIGITS);
    (length <= bytes.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(band: u8, text: &str) -> Vec<u8> {
        let mut line = format!("{:04x}", text.len() + 5).into_bytes();
        line.push(band);
        line.extend_from_slice(text.as_bytes());
        line
    }

    /// Takes output in pieces of a size; returns what is kept and whether all could be taken.
    fn buffered_output(overflow: Overflow, output: &[u8], size: usize) -> (Bytes, bool) {
        let mut early = EarlyOutput::new(overflow);
        for piece in output.chunks(size) {
            if !early.has_room() {
                return (early.into_bytes(), false);
            }
            early.buffer().extend_from_slice(piece);
        }
        let has_room = early.has_room();
        (early.into_bytes(), has_room)
    }

    #[test]
    fn progress_over_limit_is_dropped_but_report_is_not() {
        let mut output = Vec::new();
        for number in 0..40_000 {
            output.extend(line(
                2,
                &format!("warning: object {number} has a fault in a tree\n"),
            ));
        }
        let report = [line(1, "000eunpack ok\n0000"), b"0000".to_vec()].concat();
        output.extend_from_slice(&report);
        assert!(output.len() > MAX_BYTES + MAX_PACKET_BYTES);
        for size in [1000, 4096, 65_536] {
            let (buffered, has_room) = buffered_output(Overflow::DropsProgress, &output, size);
            assert!(has_room && buffered.len() <= MAX_BYTES + report.len(), "{size}");
            assert!(buffered.ends_with(&report), "{size}");
            let first = buffered.len() - report.len();
            assert!(
                first > MAX_BYTES - 100 && output.starts_with(&buffered[..first]),
                "{size}"
            );
        }
    }

    #[test]
    fn output_below_limit_is_unchanged() {
        let output = [line(2, "progress"), line(1, "report"), b"0000".to_vec()].concat();
        for overflow in [Overflow::Begins, Overflow::Buffered, Overflow::DropsProgress] {
            let (buffered, has_room) = buffered_output(overflow, &output, 3);
            assert!(has_room && buffered == output, "{overflow:?}");
        }
    }

    #[test]
    fn output_without_packets_has_no_room_over_limit() {
        let output = vec![b'x'; 2 << 20];
        for overflow in [Overflow::Begins, Overflow::DropsProgress] {
            let (buffered, has_room) = buffered_output(overflow, &output, 4096);
            assert!(!has_room && buffered.len() <= MAX_BYTES + 4096, "{overflow:?}");
        }
        assert!(buffered_output(Overflow::Buffered, &output, 4096).1);
    }
}
