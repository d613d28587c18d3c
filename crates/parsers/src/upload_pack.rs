//! Responses of a remote repository to a fetch over smart HTTP: the list of its references, and the response with the pack.
//! Versions 0 and 2 of the protocol are supported.
//!
//! The remote repository is chosen by a user and may be hostile. The functions have the limits of [`crate::receive_pack`].

use crate::pkt_line::{LENGTH_DIGITS, PacketHeader, without_capabilities};
use crate::receive_pack::{
    AdvertisedRef, ID_DIGITS, MAX_ADVERTISED_REFS, MAX_ADVERTISEMENT_BYTES, Packets, RemoteResponseError,
    capabilities, clean, without_line_break,
};

use RemoteResponseError::{Incomplete, Malformed, ObjectFormat, Remote, TooLarge};

/// Maximum number of bytes of a response with a pack that are not part of the pack, such as progress.
const MAX_OTHER_BYTES: usize = 16 << 20;
/// Packet that separates the sections of a response in version 2.
const DELIMITER: &[u8; LENGTH_DIGITS] = b"0001";
/// Attribute of `HEAD` in a list of version 2, and name of the capability in version 0.
const SYMREF_TARGET: &str = "symref-target:";
const SYMREF_OF_HEAD: &str = "symref=HEAD:";

/// Version of the protocol of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FetchVersion {
    /// The list of references is the first response.
    #[default]
    V0,
    /// The first response lists capabilities. A command requests the references.
    V2,
}

/// The branches and tags of a remote repository, and the capabilities of its server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteRefs {
    /// The branches and tags. Names that are not UTF-8 are omitted.
    pub refs: Vec<AdvertisedRef>,
    /// Full name of the branch that `HEAD` names, if known.
    pub head: Option<String>,
    /// Version of the protocol.
    pub version: FetchVersion,
    capabilities: Vec<String>,
}

impl RemoteRefs {
    /// Returns whether the server has a capability of version 0.
    #[must_use]
    pub fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|own| own == capability)
    }

    fn check_object_format(&self) -> Result<(), RemoteResponseError> {
        let mut formats = self
            .capabilities
            .iter()
            .filter_map(|own| own.strip_prefix("object-format="));
        match formats.all(|format| format == "sha1") {
            true => Ok(()),
            false => Err(ObjectFormat),
        }
    }

    /// Adds a reference unless it is neither a branch nor a tag. Peeled tags are no references.
    fn add(&mut self, id: &[u8], name: &[u8]) -> Result<(), RemoteResponseError> {
        let is_id = id.len() == ID_DIGITS && id.iter().all(u8::is_ascii_hexdigit);
        let id = std::str::from_utf8(id).ok().filter(|_| is_id).ok_or(Malformed)?;
        let Ok(name) = std::str::from_utf8(name) else {
            return Ok(());
        };
        // The name becomes part of a command, which it could change.
        if name.is_empty() || name.chars().any(|c| c.is_control() || c == ' ') {
            return Err(Malformed);
        }
        let is_mirrored = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
        if !is_mirrored || name.ends_with("^{}") {
            return Ok(());
        }
        if self.refs.len() >= MAX_ADVERTISED_REFS {
            return Err(TooLarge);
        }
        self.refs.push(AdvertisedRef {
            id: id.to_owned(),
            name: name.to_owned(),
        });
        Ok(())
    }
}

/// The response to `GET info/refs?service=git-upload-pack`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// The references, in version 0.
    Refs(RemoteRefs),
    /// The server has version 2. The references have to be requested.
    Commands,
}

/// Parses the response to `GET info/refs?service=git-upload-pack`.
///
/// # Errors
/// Returns an error if the response violates the protocol or a limit, or contains an error of the remote repository.
pub fn read_discovery(body: &[u8]) -> Result<Discovery, RemoteResponseError> {
    if body.len() > MAX_ADVERTISEMENT_BYTES {
        return Err(TooLarge);
    }
    let mut packets = Packets { rest: body };
    let mut line = Some(packets.next().map_err(|_| Malformed)?.ok_or(Malformed)?);
    if line.is_some_and(|line| without_line_break(line) == b"# service=git-upload-pack") {
        if packets.next()?.is_some() {
            return Err(Malformed);
        }
        line = packets.next()?;
    }
    if line.is_some_and(|line| without_line_break(line) == b"version 2") {
        return read_capabilities(packets);
    }
    let mut found = RemoteRefs::default();
    let mut is_first = true;
    while let Some(text) = line {
        check_error(text)?;
        let reference = without_line_break(without_capabilities(text));
        if reference != b"version 1" && !reference.starts_with(b"shallow ") {
            if is_first {
                is_first = false;
                found.capabilities = capabilities(text);
                found.check_object_format()?;
                let mut own = found.capabilities.iter();
                let head = own.find_map(|own| own.strip_prefix(SYMREF_OF_HEAD));
                found.head = head.map(str::to_owned);
            }
            let (id, name) = reference.split_at_checked(ID_DIGITS).ok_or(Malformed)?;
            found.add(id, name.strip_prefix(b" ").ok_or(Malformed)?)?;
        }
        line = packets.next()?;
    }
    Ok(Discovery::Refs(found))
}

/// Reads the capabilities of version 2.
fn read_capabilities(mut packets: Packets<'_>) -> Result<Discovery, RemoteResponseError> {
    let mut found = RemoteRefs::default();
    while let Some(line) = packets.next()? {
        check_error(line)?;
        let line = String::from_utf8_lossy(without_line_break(line));
        found.capabilities.push(line.into_owned());
    }
    found.check_object_format()?;
    let has = |command: &str| {
        found.capabilities.iter().any(|own| {
            own.strip_prefix(command)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })
    };
    match has("ls-refs") && has("fetch") {
        true => Ok(Discovery::Commands),
        false => Err(Malformed),
    }
}

/// Parses the response to the command `ls-refs` of version 2.
///
/// # Errors
/// As [`read_discovery`].
pub fn read_refs(body: &[u8]) -> Result<RemoteRefs, RemoteResponseError> {
    if body.len() > MAX_ADVERTISEMENT_BYTES {
        return Err(TooLarge);
    }
    let mut packets = Packets { rest: body };
    let mut found = RemoteRefs {
        version: FetchVersion::V2,
        ..RemoteRefs::default()
    };
    while let Some(line) = packets.next()? {
        check_error(line)?;
        let mut words = without_line_break(line).split(|byte| *byte == b' ');
        let (id, name) = (words.next().unwrap_or_default(), words.next().ok_or(Malformed)?);
        if name == b"HEAD" {
            let target = words.find_map(|word| word.strip_prefix(SYMREF_TARGET.as_bytes()));
            let target = target.and_then(|target| std::str::from_utf8(target).ok());
            found.head = target.map(str::to_owned);
        }
        found.add(id, name)?;
    }
    Ok(found)
}

fn check_error(line: &[u8]) -> Result<(), RemoteResponseError> {
    match line.strip_prefix(b"ERR ") {
        Some(text) => Err(Remote(clean(text))),
        None => Ok(()),
    }
}

/// Extracts the pack from a response to a fetch. The response consists of packets with sidebands after a few lines.
#[derive(Debug)]
pub struct FetchReader {
    /// The start of a packet that is not complete.
    pending: Vec<u8>,
    /// Whether the lines before the pack have ended. Version 0 has no mark of their end.
    is_in_pack: bool,
    other_bytes: usize,
    has_ended: bool,
}

impl FetchReader {
    /// Returns a reader of a response in this version, to a request without negotiation.
    #[must_use]
    pub fn new(version: FetchVersion) -> Self {
        Self {
            pending: Vec::new(),
            is_in_pack: version == FetchVersion::V0,
            other_bytes: 0,
            has_ended: false,
        }
    }

    /// Reads the next bytes of the response, and returns the next bytes of the pack.
    ///
    /// # Errors
    /// Returns an error if the response violates the protocol or a limit, or contains an error of the remote repository.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<u8>, RemoteResponseError> {
        self.pending.extend_from_slice(bytes);
        let (mut pack, mut read) = (Vec::new(), 0);
        while !self.has_ended {
            let rest = self.pending.get(read..).unwrap_or_default();
            let Some((digits, rest)) = rest.split_first_chunk::<LENGTH_DIGITS>() else {
                break;
            };
            if digits == DELIMITER && !self.is_in_pack {
                read += LENGTH_DIGITS;
                continue;
            }
            match PacketHeader::parse(*digits).ok_or(Malformed)? {
                PacketHeader::Flush if self.is_in_pack => self.has_ended = true,
                PacketHeader::Flush => return Err(Malformed),
                PacketHeader::Payload(length) => {
                    let Some(payload) = rest.get(..length.get()) else {
                        break;
                    };
                    read += length.get();
                    match (self.is_in_pack, payload.split_first()) {
                        (true, Some((1, data))) => pack.extend_from_slice(data),
                        (true, Some((3, text))) => return Err(Remote(clean(text))),
                        (is_in_pack, _) => {
                            self.other_bytes += payload.len();
                            self.is_in_pack = other_packet(payload, is_in_pack)?;
                        }
                    }
                }
            }
            read += LENGTH_DIGITS;
        }
        self.pending.drain(..read.min(self.pending.len()));
        match self.other_bytes > MAX_OTHER_BYTES {
            true => Err(TooLarge),
            false => Ok(pack),
        }
    }

    /// Checks that the response was complete.
    ///
    /// # Errors
    /// Returns `Incomplete` if it was not.
    pub fn finish(&self) -> Result<(), RemoteResponseError> {
        match self.has_ended {
            true => Ok(()),
            false => Err(Incomplete),
        }
    }
}

/// Reads a packet that has no part of the pack, and returns whether the pack follows.
fn other_packet(payload: &[u8], is_in_pack: bool) -> Result<bool, RemoteResponseError> {
    check_error(payload)?;
    let line = without_line_break(payload);
    let is_answer = line == b"NAK" || line.starts_with(b"ACK ");
    match is_in_pack {
        true if is_answer || payload.first() == Some(&2) => Ok(true),
        true => Err(Malformed),
        false => Ok(line == b"packfile"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1234567890123456789012345678901234567890";

    fn packets(lines: &[&[u8]]) -> Vec<u8> {
        let packet = |line: &&[u8]| [format!("{:04x}", line.len() + 4).as_bytes(), line].concat();
        let mut body: Vec<u8> = lines.iter().flat_map(packet).collect();
        body.extend_from_slice(b"0000");
        body
    }

    fn discovery(lines: &[&[u8]]) -> Vec<u8> {
        [packets(&[b"# service=git-upload-pack\n"]), packets(lines)].concat()
    }

    fn names(found: &RemoteRefs) -> Vec<&str> {
        found.refs.iter().map(|found| found.name.as_str()).collect()
    }

    #[test]
    fn list_of_version_0_contains_branches_tags_and_head() {
        let line = |name: &str| format!("{ID} {name}\n").into_bytes();
        let first = line("HEAD\0side-band-64k symref=HEAD:refs/heads/main object-format=sha1 agent=x");
        let body = discovery(&[
            &first,
            &line("refs/heads/main"),
            &line("refs/pull/1/head"),
            &line("refs/tags/v1"),
            &line("refs/tags/v1^{}"),
            &[ID.as_bytes(), b" refs/heads/\xff\n"].concat(),
        ]);
        let Ok(Discovery::Refs(found)) = read_discovery(&body) else {
            panic!("no list");
        };
        assert_eq!(names(&found), ["refs/heads/main", "refs/tags/v1"]);
        assert_eq!(found.head.as_deref(), Some("refs/heads/main"));
        assert!(found.has("side-band-64k") && !found.has("side-band") && found.version == FetchVersion::V0);
        let empty = format!("{} capabilities^{{}}\0side-band-64k", "0".repeat(40));
        for empty in [discovery(&[empty.as_bytes()]), discovery(&[])] {
            let Ok(Discovery::Refs(found)) = read_discovery(&empty) else {
                panic!("no list");
            };
            assert!(found.refs.is_empty());
        }
    }

    #[test]
    fn version_2_has_commands_and_a_list_with_symbolic_refs() {
        let lines: [&[u8]; 4] = [
            b"version 2\n",
            b"ls-refs=unborn\n",
            b"fetch=shallow\n",
            b"object-format=sha1\n",
        ];
        for body in [packets(&lines), discovery(&lines)] {
            assert_eq!(read_discovery(&body), Ok(Discovery::Commands));
        }
        assert_eq!(read_discovery(&packets(&lines[..2])), Err(Malformed));
        let sha256: [&[u8]; 2] = [b"version 2", b"object-format=sha256"];
        assert_eq!(read_discovery(&packets(&sha256)), Err(ObjectFormat));
        let head = format!("{ID} HEAD symref-target:refs/heads/trunk\n");
        let tag = format!("{ID} refs/tags/v1 peeled:{ID}\n");
        let branch = format!("{ID} refs/heads/trunk\n");
        let found = read_refs(&packets(&[head.as_bytes(), branch.as_bytes(), tag.as_bytes()]));
        let found = found.expect("a list");
        assert_eq!(names(&found), ["refs/heads/trunk", "refs/tags/v1"]);
        assert_eq!(
            (found.head.as_deref(), found.version),
            (Some("refs/heads/trunk"), FetchVersion::V2)
        );
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for line in [
            "x".to_owned(),
            format!("{ID} "),
            format!("{ID} refs/heads/a\x01"),
            format!("{ID}0 refs/heads/a"),
            format!("{} refs/heads/a", "g".repeat(40)),
        ] {
            assert_eq!(
                read_discovery(&discovery(&[line.as_bytes()])),
                Err(Malformed),
                "{line:?}"
            );
            assert_eq!(
                read_refs(&packets(&[line.as_bytes()])),
                Err(Malformed),
                "{line:?}"
            );
        }
        let error = Err(Remote("no access".to_owned()));
        assert_eq!(read_discovery(&packets(&[b"ERR no access\n"])), error);
        assert_eq!(
            read_refs(&packets(&[b"ERR no\naccess"])),
            Err(Remote("no access".to_owned()))
        );
        for body in [&b""[..], b"<html>", b"0000", b"0008abcd"] {
            assert!(read_discovery(body).is_err(), "{body:?}");
        }
        let line = format!("{ID} refs/heads/a\n");
        let body = packets(&[line.as_bytes()]);
        assert_eq!(read_refs(&body[..body.len() - 4]), Err(Incomplete));
        assert_eq!(read_refs(&vec![b'0'; MAX_ADVERTISEMENT_BYTES + 1]), Err(TooLarge));
        let lines: Vec<String> = (0..=MAX_ADVERTISED_REFS)
            .map(|number| format!("{ID} refs/heads/{number}"))
            .collect();
        let lines: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
        assert_eq!(read_refs(&packets(&lines)), Err(TooLarge));
        assert!(read_refs(&packets(&lines[1..])).is_ok());
    }

    /// Reads a response in pieces of this length.
    fn pack(version: FetchVersion, body: &[u8], length: usize) -> Result<Vec<u8>, RemoteResponseError> {
        let mut reader = FetchReader::new(version);
        let mut pack = Vec::new();
        for piece in body.chunks(length) {
            pack.extend(reader.feed(piece)?);
            assert!(reader.pending.len() < 65_520);
        }
        reader.finish().map(|()| pack)
    }

    #[test]
    fn pack_is_extracted_from_sidebands() {
        let ack = format!("ACK {ID}\n");
        let old = packets(&[ack.as_bytes(), b"\x01PACK", b"\x02progress", b"\x01 rest"]);
        let answers = packets(&[b"acknowledgments\n", b"NAK\n"]);
        let answers = answers.strip_suffix(b"0000").expect("a flush packet");
        let rest = packets(&[b"packfile\n", b"\x02x", b"\x01PACK", b"\x01 rest"]);
        let new = [answers, &DELIMITER[..], &rest[..]].concat();
        for length in [1, 3, 7, 1000] {
            assert_eq!(
                pack(FetchVersion::V0, &old, length),
                Ok(b"PACK rest".to_vec()),
                "{length}"
            );
            assert_eq!(
                pack(FetchVersion::V2, &new, length),
                Ok(b"PACK rest".to_vec()),
                "{length}"
            );
        }
        assert_eq!(pack(FetchVersion::V0, &old[..old.len() - 4], 8), Err(Incomplete));
        assert_eq!(pack(FetchVersion::V2, b"0000", 8), Err(Malformed));
        assert_eq!(
            pack(FetchVersion::V0, &packets(&[b"\x03no\x1bspace"]), 8),
            Err(Remote("no space".to_owned()))
        );
        assert_eq!(pack(FetchVersion::V0, &packets(&[b"<html>"]), 8), Err(Malformed));
        assert_eq!(
            pack(FetchVersion::V2, &packets(&[b"ERR not our ref"]), 8),
            Err(Remote("not our ref".to_owned()))
        );
        let progress = [&[2][..], &vec![b'.'; 60_000]].concat();
        let endless = packets(&vec![progress.as_slice(); MAX_OTHER_BYTES / 60_000 + 1]);
        assert_eq!(pack(FetchVersion::V0, &endless, 1 << 16), Err(TooLarge));
    }
}
