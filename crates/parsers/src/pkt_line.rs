//! Packets of the Git protocol (pkt-line), and the commands of a push.

use std::num::NonZeroUsize;

/// Number of hex digits of the length at the start of a packet.
pub const LENGTH_DIGITS: usize = 4;
/// The end of a list of packets.
pub const FLUSH: &str = "0000";
/// Number of hex digits of an object ID.
const ID_DIGITS: usize = 40;

/// Start of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketHeader {
    /// The end of a list.
    Flush,
    /// A payload of this many bytes follows.
    Payload(NonZeroUsize),
}

impl PacketHeader {
    /// Parses the length at the start of a packet. Returns `None` for other lengths, which the server does not use.
    #[must_use]
    pub fn parse(digits: [u8; LENGTH_DIGITS]) -> Option<Self> {
        // The conversion of a number would accept a sign.
        let digits = std::str::from_utf8(&digits).ok();
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match usize::from_str_radix(digits?, 16).ok()? {
            0 => Some(Self::Flush),
            length => NonZeroUsize::new(length.checked_sub(LENGTH_DIGITS)?).map(Self::Payload),
        }
    }
}

/// Returns a packet with a text, which can have at most 65,516 bytes.
#[must_use]
pub fn packet(text: &str) -> String {
    format!("{:04x}{text}", text.len() + LENGTH_DIGITS)
}

/// A requested creation, update or deletion of a reference, with the IDs in hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushCommand<'a> {
    /// The old target; all zeros if the reference is created.
    pub old: &'a str,
    /// The new target; all zeros if the reference is deleted.
    pub new: &'a str,
    /// Full name of the reference. It contains no spaces and no control characters.
    pub reference: &'a str,
}

impl<'a> PushCommand<'a> {
    /// Parses `<old> <new> <reference>`.
    #[must_use]
    pub fn parse(line: &'a str) -> Option<Self> {
        let (old, rest) = line.split_once(' ')?;
        let (new, reference) = rest.split_once(' ')?;
        let is_id = |text: &str| text.len() == ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Valid names contain none of these characters, and the hooks rely on it.
        let is_plain = !reference.is_empty() && !reference.chars().any(|c| c.is_control() || c == ' ');
        (is_id(old) && is_id(new) && is_plain).then_some(Self { old, new, reference })
    }
}

/// Returns the command line of a packet: the payload without the capabilities that follow the first command.
#[must_use]
pub fn without_capabilities(payload: &[u8]) -> &[u8] {
    let end = payload.iter().position(|byte| *byte == 0);
    payload.get(..end.unwrap_or(payload.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_length_includes_its_digits() {
        assert_eq!(PacketHeader::parse(*b"0000"), Some(PacketHeader::Flush));
        assert_eq!(
            PacketHeader::parse(*b"0005"),
            NonZeroUsize::new(1).map(PacketHeader::Payload)
        );
        assert_eq!(
            PacketHeader::parse(*b"FfFf"),
            NonZeroUsize::new(0xfffb).map(PacketHeader::Payload)
        );
        for digits in [
            *b"0001",
            *b"0003",
            *b"0004",
            *b"+123",
            *b" 123",
            *b"zzzz",
            *b"\xc3\xa41 ",
            [0; 4],
        ] {
            assert_eq!(PacketHeader::parse(digits), None, "{digits:?}");
        }
    }

    #[test]
    fn packet_starts_with_its_length() {
        assert_eq!(packet("done\n"), "0009done\n");
        assert_eq!(packet("ä"), "0006ä");
    }

    #[test]
    fn push_command_has_two_ids_and_a_plain_reference() {
        let (old, new) = ("0".repeat(40), "aB".repeat(20));
        let line = format!("{old} {new} refs/heads/ä");
        let command = PushCommand {
            old: &old,
            new: &new,
            reference: "refs/heads/ä",
        };
        assert_eq!(PushCommand::parse(&line), Some(command));
        for line in [
            String::new(),
            format!("{old} {new}"),
            format!("{old} {new} "),
            format!("{old} {new} a b"),
            format!("{old} {new} a\n"),
            format!("{old} {new} a\u{85}"),
            format!("{old}0 {new} a"),
            format!("{} {new} a", &old[1..]),
            format!("{} {new} a", "g".repeat(40)),
            format!("{old}  {new} a"),
        ] {
            assert_eq!(PushCommand::parse(&line), None, "{line:?}");
        }
    }

    #[test]
    fn capabilities_are_not_part_of_the_command() {
        assert_eq!(without_capabilities(b"a\0b\0c"), b"a");
        assert_eq!(without_capabilities(b"a"), b"a");
        assert_eq!(without_capabilities(b"\0"), b"");
    }
}
