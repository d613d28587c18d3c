//! Explanation of a push that failed because of a limit on memory or on its size, for the messages that the pusher sees.

use bytes::{Bytes, BytesMut};
use parsers::pkt_line::{LENGTH_DIGITS, packet};

use super::process::is_out_of_memory;

/// The sideband of progress messages.
const PROGRESS_BAND: u8 = 2;
/// Part of the message of Git about a push that is too large.
const TOO_LARGE: &str = "exceeds maximum allowed size";

/// Inserts an explanation after the message of Git. The output consists of packets with sidebands.
pub(super) struct PushExplanation {
    max_object_bytes: u64,
    /// The start of a packet whose end was not read yet.
    pending: BytesMut,
    explained: bool,
}

impl PushExplanation {
    /// Creates the explanation of a limit on the size of an object.
    pub(super) fn new(max_object_bytes: u64) -> Self {
        Self {
            max_object_bytes,
            pending: BytesMut::new(),
            explained: false,
        }
    }

    /// Returns the output to send after a chunk was read.
    pub(super) fn after(&mut self, chunk: &[u8]) -> Bytes {
        self.pending.extend_from_slice(chunk);
        let mut output = BytesMut::with_capacity(self.pending.len());
        while let Some(length) = packet_length(&self.pending) {
            let packet = self.pending.split_to(length);
            output.extend_from_slice(&packet);
            let is_message = packet.get(LENGTH_DIGITS) == Some(&PROGRESS_BAND);
            if is_message
                && !self.explained
                && let Some(text) = self.explanation(&String::from_utf8_lossy(&packet))
            {
                self.explained = true;
                output.extend_from_slice(packet_of(&text).as_bytes());
            }
        }
        output.freeze()
    }

    /// Returns the start of an incomplete packet at the end of the output.
    pub(super) fn rest(&mut self) -> Bytes {
        self.pending.split().freeze()
    }

    /// Returns whether the output so far consists of complete packets, so that another one can be inserted.
    pub(super) fn is_between_packets(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the explanation of a message of Git.
    fn explanation(&self, message: &str) -> Option<String> {
        if message.contains(TOO_LARGE) {
            let text = "error: The setting max_push_bytes of the server limits the size of a push.\n";
            return Some(text.to_owned());
        }
        is_out_of_memory(message).then(|| {
            format!(
                "error: The pack contains an object that takes too much memory; the limit is {} MiB for an object that \
                 is sent as a delta, with its base. Store large files with Git LFS.\n",
                self.max_object_bytes >> 20
            )
        })
    }
}

/// Returns the packet of a message.
fn packet_of(text: &str) -> String {
    packet(&format!("\u{2}{text}"))
}

/// Returns the length of the packet at the start of `bytes`, or `None` if it is incomplete or not a packet.
fn packet_length(bytes: &[u8]) -> Option<usize> {
    let digits = std::str::from_utf8(bytes.get(..LENGTH_DIGITS)?).ok()?;
    // Lengths below four are of packets without content, such as a flush.
    let length = usize::from_str_radix(digits, 16).ok()?.max(LENGTH_DIGITS);
    (length <= bytes.len()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanation_follows_the_message_of_git_once() {
        let memory = "fatal: attempting to allocate 2147483649 over limit 67108864\n";
        let size = "fatal: pack exceeds maximum allowed size (48.83 KiB)\n";
        for (message, part, size) in [
            (memory, "64 MiB", 1),
            (memory, "64 MiB", 7),
            (memory, "64 MiB", 1000),
            (size, "max_push_bytes", 1000),
        ] {
            let explained = PushExplanation::new(64 << 20).explanation(message).unwrap();
            let message = packet_of(message);
            let output = [
                &packet_of("progress"),
                &message,
                &message,
                "000eunpack ok\n",
                "0000",
            ]
            .concat();
            let mut explanation = PushExplanation::new(64 << 20);
            let mut sent = Vec::new();
            for chunk in output.as_bytes().chunks(size) {
                sent.extend_from_slice(&explanation.after(chunk));
            }
            sent.extend_from_slice(&explanation.rest());
            let sent = String::from_utf8(sent).unwrap();
            let (before, after) = sent.split_once(&packet_of(&explained)).unwrap();
            assert_eq!([before, after].concat(), output, "{size}");
            assert!(before.ends_with(&message) && explained.contains(part), "{size}");
        }
    }

    #[test]
    fn other_output_is_unchanged() {
        let output = [&packet_of("fatal: early EOF\n"), "0000", "00"].concat();
        let mut explanation = PushExplanation::new(1);
        let sent = [explanation.after(output.as_bytes()), explanation.rest()].concat();
        assert_eq!(sent, output.as_bytes());
    }
}
