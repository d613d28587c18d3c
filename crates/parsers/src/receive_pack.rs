//! Responses of a remote repository to a push over smart HTTP: the list of its references, and the report on a push.
//!
//! The remote repository is chosen by a user and may be hostile. Texts of the remote repository are cut, and their control
//! characters are replaced.

use crate::pkt_line::{LENGTH_DIGITS, PacketHeader, without_capabilities};

/// Maximum length of a list of references in bytes.
pub const MAX_ADVERTISEMENT_BYTES: usize = 16 << 20;
/// Maximum number of references in a list.
pub const MAX_ADVERTISED_REFS: usize = 100_000;
/// Maximum length of the response to a push in bytes.
pub const MAX_REPORT_BYTES: usize = 8 << 20;
/// Maximum number of characters of a text of the remote repository.
const MAX_TEXT_CHARS: usize = 200;
/// Number of hex digits of an object ID.
pub(crate) const ID_DIGITS: usize = 40;
/// Name in the only line of the list of an empty repository.
const NO_REFS: &str = "capabilities^{}";

/// The references of a remote repository and the capabilities of its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advertisement {
    /// The references. Names that are not UTF-8 are omitted.
    pub refs: Vec<AdvertisedRef>,
    /// IDs of other objects that the remote repository has.
    pub others: Vec<String>,
    capabilities: Vec<String>,
}

/// A reference of a remote repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedRef {
    /// The target, in 40 hex digits.
    pub id: String,
    /// The full name.
    pub name: String,
}

impl Advertisement {
    /// Returns whether the server has a capability.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|own| own == capability)
    }

    /// Returns the value of a capability such as `object-format`.
    #[must_use]
    pub fn value(&self, capability: &str) -> Option<&str> {
        let mut own = self.capabilities.iter();
        own.find_map(|own| own.strip_prefix(capability)?.strip_prefix('='))
    }
}

/// The reason why a response of a remote repository cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteResponseError {
    /// It violates the protocol.
    #[error("the response is not valid in the Git protocol")]
    Malformed,
    /// It ends too early.
    #[error("the response is incomplete")]
    Incomplete,
    /// It has too many references or bytes.
    #[error("the remote repository has too many references")]
    TooLarge,
    /// The remote repository uses SHA-256.
    #[error("the object format of the remote repository is not SHA-1")]
    ObjectFormat,
    /// The remote repository reported an error.
    #[error("the remote repository reported: {0}")]
    Remote(String),
}

use RemoteResponseError::{Incomplete, Malformed, ObjectFormat, Remote, TooLarge};

/// Packets of a response.
pub(crate) struct Packets<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Packets<'a> {
    /// Returns the payload of the next packet, or `None` for a flush packet.
    pub(crate) fn next(&mut self) -> Result<Option<&'a [u8]>, RemoteResponseError> {
        let (digits, rest) = self.rest.split_first_chunk::<LENGTH_DIGITS>().ok_or(Incomplete)?;
        self.rest = rest;
        match PacketHeader::parse(*digits).ok_or(Malformed)? {
            PacketHeader::Flush => Ok(None),
            PacketHeader::Payload(length) => {
                let (payload, rest) = rest.split_at_checked(length.get()).ok_or(Incomplete)?;
                self.rest = rest;
                Ok(Some(payload))
            }
        }
    }
}

/// Parses the response to `GET info/refs?service=git-receive-pack`.
///
/// # Errors
/// Returns an error if the response violates the protocol or a limit, or contains an error of the remote repository.
pub fn read_advertisement(body: &[u8]) -> Result<Advertisement, RemoteResponseError> {
    if body.len() > MAX_ADVERTISEMENT_BYTES {
        return Err(TooLarge);
    }
    let mut packets = Packets { rest: body };
    let first = packets.next().map_err(|_| Malformed)?.ok_or(Malformed)?;
    if let Some(text) = first.strip_prefix(b"ERR ") {
        return Err(Remote(clean(text)));
    }
    if without_line_break(first) != b"# service=git-receive-pack" {
        return Err(Malformed);
    }
    if packets.next()?.is_some() {
        return Err(Malformed);
    }
    let mut found = Advertisement::default();
    let mut count = 0;
    while let Some(line) = packets.next()? {
        if let Some(text) = line.strip_prefix(b"ERR ") {
            return Err(Remote(clean(text)));
        }
        if line.starts_with(b"shallow ") || without_line_break(line) == b"version 1" {
            continue;
        }
        count += 1;
        if count > MAX_ADVERTISED_REFS {
            return Err(TooLarge);
        }
        if count == 1 {
            found.capabilities = capabilities(line);
            if found
                .value("object-format")
                .is_some_and(|format| format != "sha1")
            {
                return Err(ObjectFormat);
            }
        }
        add_ref(&mut found, without_capabilities(line))?;
    }
    Ok(found)
}

/// Adds the reference of a line `<id> <name>`.
fn add_ref(found: &mut Advertisement, line: &[u8]) -> Result<(), RemoteResponseError> {
    let (id, name) = line.split_at_checked(ID_DIGITS).ok_or(Malformed)?;
    let name = name.strip_prefix(b" ").ok_or(Malformed)?;
    let is_id = id.iter().all(u8::is_ascii_hexdigit);
    let id = std::str::from_utf8(id).ok().filter(|_| is_id).ok_or(Malformed)?;
    let Ok(name) = std::str::from_utf8(without_line_break(name)) else {
        return Ok(());
    };
    match name {
        NO_REFS => {}
        ".have" => found.others.push(id.to_owned()),
        // The name is sent back in a command, which it could change.
        _ if name.is_empty() || name.chars().any(|c| c.is_control() || c == ' ') => return Err(Malformed),
        _ => found.refs.push(AdvertisedRef {
            id: id.to_owned(),
            name: name.to_owned(),
        }),
    }
    Ok(())
}

pub(crate) fn capabilities(line: &[u8]) -> Vec<String> {
    let list = line.splitn(2, |byte| *byte == 0).nth(1).unwrap_or_default();
    let text = String::from_utf8_lossy(list);
    text.split_whitespace().map(str::to_owned).collect()
}

/// The result of a push, as the remote repository reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushReport {
    /// The updated references.
    pub accepted: Vec<String>,
    /// The other references and the reasons.
    pub rejected: Vec<(String, String)>,
}

/// Parses the response to `POST git-receive-pack` with the capability `report-status`. If `sideband` is true, the request
/// has the capability `side-band-64k` too.
///
/// # Errors
/// Returns an error if the response violates the protocol or a limit, or if the remote repository could not store the
/// objects.
pub fn read_report(body: &[u8], sideband: bool) -> Result<PushReport, RemoteResponseError> {
    if body.len() > MAX_REPORT_BYTES {
        return Err(TooLarge);
    }
    let report = if sideband { unwrapped(body)? } else { body.to_vec() };
    let mut packets = Packets { rest: &report };
    let first = packets.next()?.ok_or(Malformed)?;
    match without_line_break(first).strip_prefix(b"unpack ") {
        Some(b"ok") => {}
        Some(reason) => return Err(Remote(clean(reason))),
        None => match first.strip_prefix(b"ERR ") {
            Some(text) => return Err(Remote(clean(text))),
            None => return Err(Malformed),
        },
    }
    let mut result = PushReport::default();
    while let Some(line) = packets.next()? {
        let line = String::from_utf8_lossy(without_line_break(line));
        if result.accepted.len() + result.rejected.len() >= MAX_ADVERTISED_REFS {
            return Err(TooLarge);
        }
        if let Some(name) = line.strip_prefix("ok ") {
            result.accepted.push(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("ng ") {
            let (name, reason) = rest.split_once(' ').unwrap_or((rest, "rejected"));
            result
                .rejected
                .push((clean(name.as_bytes()), clean(reason.as_bytes())));
        } else {
            return Err(Malformed);
        }
    }
    Ok(result)
}

/// Returns the content of the first sideband.
fn unwrapped(body: &[u8]) -> Result<Vec<u8>, RemoteResponseError> {
    let mut packets = Packets { rest: body };
    let mut report = Vec::new();
    while let Some(payload) = packets.next()? {
        match payload.split_first() {
            Some((1, data)) => report.extend_from_slice(data),
            Some((2, _)) => {}
            Some((3, text)) => return Err(Remote(clean(text))),
            _ => return Err(Malformed),
        }
    }
    Ok(report)
}

pub(crate) fn without_line_break(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Returns the start of a text without control characters.
pub(crate) fn clean(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let plain = text.trim().chars().take(MAX_TEXT_CHARS);
    plain.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1234567890123456789012345678901234567890";

    fn packet(payload: &[u8]) -> Vec<u8> {
        [format!("{:04x}", payload.len() + 4).as_bytes(), payload].concat()
    }

    fn advertisement(lines: &[&[u8]]) -> Vec<u8> {
        let mut body = packet(b"# service=git-receive-pack\n");
        body.extend_from_slice(b"0000");
        lines.iter().for_each(|line| body.extend(packet(line)));
        body.extend_from_slice(b"0000");
        body
    }

    #[test]
    fn advertisement_contains_refs_and_capabilities() {
        let first =
            format!("{ID} refs/heads/main\0 report-status delete-refs object-format=sha1 agent=x/1\n");
        let second = format!("{ID} refs/tags/v1\n");
        let body = advertisement(&[
            first.as_bytes(),
            second.as_bytes(),
            format!("{ID} .have\n").as_bytes(),
            &[ID.as_bytes(), b" refs/heads/\xff\n"].concat(),
            format!("shallow {ID}").as_bytes(),
        ]);
        let found = read_advertisement(&body).expect("an advertisement");
        let names: Vec<&str> = found.refs.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
        assert!(found.refs.iter().all(|found| found.id == ID));
        assert_eq!(found.others, [ID]);
        assert!(found.has("report-status") && found.has("delete-refs") && !found.has("delete"));
        assert_eq!(found.value("agent"), Some("x/1"));
        let empty = format!("{} capabilities^{{}}\0report-status\n", "0".repeat(40));
        let empty = read_advertisement(&advertisement(&[empty.as_bytes()])).expect("an empty list");
        assert!(empty.refs.is_empty() && empty.has("report-status"));
        assert_eq!(
            read_advertisement(&advertisement(&[])),
            Ok(Advertisement::default())
        );
    }

    #[test]
    fn invalid_advertisement_is_rejected() {
        let line = |text: &str| read_advertisement(&advertisement(&[text.as_bytes()]));
        for text in [
            "x".to_owned(),
            ID.to_string(),
            format!("{ID} "),
            format!("{ID} refs/heads/a b"),
            format!("{ID} refs/heads/a\x01"),
            format!("{ID}0 refs/heads/a"),
            format!("{} refs/heads/a", "g".repeat(40)),
        ] {
            assert_eq!(line(&text), Err(Malformed), "{text:?}");
        }
        assert_eq!(
            line(&format!("{ID} refs/heads/a\0object-format=sha256")),
            Err(ObjectFormat)
        );
        assert_eq!(line("ERR no\naccess\n"), Err(Remote("no access".to_owned())));
        assert_eq!(
            read_advertisement(&packet(b"ERR moved")),
            Err(Remote("moved".to_owned()))
        );
        for body in [&b""[..], b"<html>", b"0000", b"00", b"0008abcd"] {
            assert_eq!(read_advertisement(body), Err(Malformed), "{body:?}");
        }
        let body = advertisement(&[format!("{ID} refs/heads/a\n").as_bytes()]);
        for length in 40..body.len() {
            assert_eq!(read_advertisement(&body[..length]), Err(Incomplete), "{length}");
        }
    }

    #[test]
    fn advertisement_has_limits() {
        assert_eq!(
            read_advertisement(&vec![b'0'; MAX_ADVERTISEMENT_BYTES + 1]),
            Err(TooLarge)
        );
        let lines: Vec<String> = (0..=MAX_ADVERTISED_REFS)
            .map(|number| format!("{ID} refs/heads/{number}"))
            .collect();
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        assert_eq!(read_advertisement(&advertisement(&lines)), Err(TooLarge));
        assert!(read_advertisement(&advertisement(&lines[1..])).is_ok());
    }

    fn report(lines: &[&[u8]]) -> Vec<u8> {
        let mut body: Vec<u8> = lines.iter().flat_map(|line| packet(line)).collect();
        body.extend_from_slice(b"0000");
        body
    }

    #[test]
    fn report_lists_accepted_and_rejected_refs() {
        let lines: [&[u8]; 4] = [
            b"unpack ok\n",
            b"ok refs/heads/a\n",
            b"ng refs/heads/b hook\tdeclined\n",
            b"ng refs/heads/c",
        ];
        let plain = report(&lines);
        let expected = PushReport {
            accepted: vec!["refs/heads/a".to_owned()],
            rejected: vec![
                ("refs/heads/b".to_owned(), "hook declined".to_owned()),
                ("refs/heads/c".to_owned(), "rejected".to_owned()),
            ],
        };
        assert_eq!(read_report(&plain, false), Ok(expected.clone()));
        let (one, other) = plain.split_at(7);
        let mut wrapped = Vec::new();
        for (band, data) in [(1, one), (2, b"progress"), (1, b""), (1, other)] {
            wrapped.extend(packet(&[&[band], data].concat()));
        }
        wrapped.extend_from_slice(b"0000");
        assert_eq!(read_report(&wrapped, true), Ok(expected));
        wrapped.truncate(wrapped.len() - 4);
        wrapped.extend(packet(b"\x03out of\x1b space"));
        assert_eq!(
            read_report(&wrapped, true),
            Err(Remote("out of  space".to_owned()))
        );
    }

    #[test]
    fn invalid_report_is_rejected() {
        assert_eq!(
            read_report(&report(&[b"unpack index-pack failed\n"]), false),
            Err(Remote("index-pack failed".to_owned()))
        );
        for (body, error) in [
            (&b""[..], Incomplete),
            (b"0000", Malformed),
            (b"000bunpack", Incomplete),
            (b"<html></html>", Malformed),
        ] {
            assert_eq!(read_report(body, false), Err(error.clone()), "{body:?}");
            let wrapped = read_report(body, true);
            assert!(wrapped.is_err(), "{body:?}");
        }
        assert_eq!(
            read_report(&report(&[b"unpack ok", b"maybe x"]), false),
            Err(Malformed)
        );
        assert_eq!(read_report(&vec![0; MAX_REPORT_BYTES + 1], false), Err(TooLarge));
        let long = [&b"unpack "[..], &[b'x'; 5000]].concat();
        assert_eq!(
            read_report(&report(&[&long]), false),
            Err(Remote("x".repeat(MAX_TEXT_CHARS)))
        );
    }
}
