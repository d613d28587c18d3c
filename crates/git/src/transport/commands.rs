//! Parser of the command list at the start of a push, and of the push options that follow it.

use parsers::pkt_line::{LENGTH_DIGITS, PacketHeader, PushCommand, without_capabilities};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::slots::RequestSpace;
use crate::{Error, Oid, Result};

/// Maximum number of commands in a push.
const COMMANDS: usize = 10_000;
/// Maximum length of the list in bytes.
const BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of options in a push.
const OPTIONS: usize = 32;
/// Maximum length of an option in bytes. Git passes all options to the hooks as environment variables.
const OPTION_BYTES: usize = 4096;

/// A requested creation, update or deletion of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefCommand {
    /// The old target; `None` if the reference is created.
    pub old: Option<Oid>,
    /// The new target; `None` if the reference is deleted.
    pub new: Option<Oid>,
    /// Full name of the reference.
    pub reference: String,
}

impl RefCommand {
    /// Parses `<old> <new> <reference>`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let command = PushCommand::parse(line)?;
        Some(Self {
            old: id(command.old)?,
            new: id(command.new)?,
            reference: command.reference.to_owned(),
        })
    }
}

/// Parses an ID; the ID of all zeros becomes `Some(None)`.
fn id(hex: &str) -> Option<Option<Oid>> {
    let id = Oid::from_str(hex).ok()?;
    Some((!id.is_zero()).then_some(id))
}

/// The start of a push, before its pack.
#[derive(Debug)]
pub(super) struct PushHead {
    /// The commands in the client's order.
    pub commands: Vec<RefCommand>,
    /// The options in the client's order.
    pub options: Vec<String>,
    /// All bytes that were read, because the program needs them.
    pub consumed: Vec<u8>,
}

/// Returns whether the capabilities after the first command request sidebands. `consumed` are all bytes that were read.
pub(super) fn wants_sideband(consumed: &[u8]) -> bool {
    has_capability(consumed, b"side-band")
}

/// Returns whether the name of a capability after the first command starts with a word.
fn has_capability(consumed: &[u8], word: &[u8]) -> bool {
    let capabilities = consumed.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    let end = capabilities.iter().position(|byte| *byte == b'\n');
    let capabilities = capabilities
        .get(..end.unwrap_or(capabilities.len()))
        .unwrap_or_default();
    capabilities
        .split(|byte| *byte == b' ')
        .any(|name| name.starts_with(word))
}

/// Reads the commands up to the flush packet, and then the options if the client sends some.
pub(super) async fn read(body: &mut (impl AsyncRead + Unpin), space: &mut RequestSpace) -> Result<PushHead> {
    let mut consumed = Vec::new();
    let mut commands = Vec::new();
    while let Some(line) = packet(body, &mut consumed, space).await? {
        if line.starts_with(b"shallow ") {
            continue;
        }
        let line = std::str::from_utf8(without_capabilities(&line))
            .map_err(|_| Error::Protocol("a reference name is not UTF-8"))?;
        let command = RefCommand::parse(line.trim_end_matches('\n'));
        commands.push(command.ok_or(Error::Protocol("a command of the push is malformed"))?);
        if commands.len() > COMMANDS {
            return Err(Error::LimitExceeded("the push has too many commands"));
        }
    }
    let mut options = Vec::new();
    if has_capability(&consumed, b"push-options") {
        while let Some(line) = packet(body, &mut consumed, space).await? {
            if options.len() == OPTIONS || line.len() > OPTION_BYTES {
                return Err(Error::LimitExceeded("the push has too many or too long options"));
            }
            let option =
                String::from_utf8(line).map_err(|_| Error::Protocol("an option of the push is not UTF-8"))?;
            options.push(option.trim_end_matches('\n').to_owned());
        }
    }
    Ok(PushHead {
        commands,
        options,
        consumed,
    })
}

/// Returns the payload of the next packet; `None` for a flush packet.
async fn packet(
    body: &mut (impl AsyncRead + Unpin),
    consumed: &mut Vec<u8>,
    space: &mut RequestSpace,
) -> Result<Option<Vec<u8>>> {
    const MALFORMED: Error = Error::Protocol("a packet of the push is malformed");
    let mut digits = [0; LENGTH_DIGITS];
    body.read_exact(&mut digits)
        .await
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => MALFORMED,
            _ => Error::Io(error),
        })?;
    consumed.extend_from_slice(&digits);
    let size = match PacketHeader::parse(digits).ok_or(MALFORMED)? {
        PacketHeader::Flush => return Ok(None),
        PacketHeader::Payload(size) => size.get(),
    };
    if consumed.len() + size > BYTES {
        return Err(Error::LimitExceeded("the push has too many commands"));
    }
    space.reserve((consumed.len() + size) as u64)?;
    let mut payload = vec![0; size];
    body.read_exact(&mut payload).await.map_err(|_| MALFORMED)?;
    consumed.extend_from_slice(&payload);
    Ok(Some(payload))
}

#[cfg(test)]
mod tests {
    use parsers::pkt_line::{self, FLUSH};

    use super::*;
    use crate::test_repository::TestRepository;

    async fn read(body: &mut &[u8]) -> Result<PushHead> {
        let sample = TestRepository::empty();
        super::read(body, &mut sample.repository.request_space()).await
    }

    fn packets(lines: &[&str]) -> Vec<u8> {
        let lines = lines.iter().map(|line| pkt_line::packet(line));
        (lines.collect::<String>() + FLUSH + "PACK").into_bytes()
    }

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const ZERO: &str = "0000000000000000000000000000000000000000";

    #[tokio::test]
    async fn command_reader_stops_before_pack() {
        let body = packets(&[
            &format!("{ZERO} {A} refs/heads/new\0report-status atomic"),
            &format!("{A} {ZERO} refs/tags/old\n"),
        ]);
        let mut rest = body.as_slice();
        let PushHead {
            commands,
            options,
            consumed,
        } = read(&mut rest).await.unwrap();
        let a = Oid::from_str(A).unwrap();
        let expected = [
            RefCommand {
                old: None,
                new: Some(a),
                reference: "refs/heads/new".to_owned(),
            },
            RefCommand {
                old: Some(a),
                new: None,
                reference: "refs/tags/old".to_owned(),
            },
        ];
        assert_eq!((commands.as_slice(), options.len()), (&expected[..], 0));
        assert_eq!(rest, b"PACK");
        assert_eq!(consumed, body[..body.len() - 4]);
    }

    #[tokio::test]
    async fn command_reader_rejects_malformed_packets() {
        let long_id = format!("{A}{A} {A} refs/heads/x");
        let control = format!("{A} {A} refs/heads/x\ty");
        for line in ["nonsense", "push-cert\0x", &long_id, &control] {
            let answer = read(&mut packets(&[line]).as_slice()).await;
            assert!(matches!(answer, Err(Error::Protocol(_))), "{line}: {answer:?}");
        }
        for body in [&b"00"[..], b"zzzz", b"0003", b"+123", b"0010short"] {
            let answer = read(&mut &*body).await;
            assert!(matches!(answer, Err(Error::Protocol(_))), "{body:?}: {answer:?}");
        }
    }

    #[tokio::test]
    async fn command_reader_reads_announced_options() {
        let command = format!("{ZERO} {A} refs/heads/new\0report-status push-options agent=git/2");
        let options = |lines: &[&str]| [&packets(&[&command])[..], &packets(lines)[..]].concat();
        // The first list ends with the start of a pack, which the options replace.
        let body = |lines: &[&str]| {
            let bytes = options(lines);
            let end = packets(&[&command]).len();
            [&bytes[..end - 4], &bytes[end..]].concat()
        };
        let sent = body(&["merge_request.create\n", "a=b c"]);
        let mut rest = sent.as_slice();
        let head = read(&mut rest).await.unwrap();
        assert_eq!(head.options, ["merge_request.create", "a=b c"]);
        assert_eq!((rest, head.consumed.len()), (&b"PACK"[..], sent.len() - 4));
        let long = "y".repeat(OPTION_BYTES + 1);
        for lines in [vec!["x"; OPTIONS + 1], vec![long.as_str()]] {
            let answer = read(&mut body(&lines).as_slice()).await;
            assert!(matches!(answer, Err(Error::LimitExceeded(_))), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn command_reader_rejects_too_many_commands() {
        let line = format!("{ZERO} {A} refs/heads/new");
        let answer = read(&mut packets(&vec![line.as_str(); COMMANDS + 1]).as_slice()).await;
        assert!(matches!(answer, Err(Error::LimitExceeded(_))), "{answer:?}");
    }
}
