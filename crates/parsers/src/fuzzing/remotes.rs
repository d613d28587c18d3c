//! Checks of the parsers of responses of remote repositories.

use crate::pkt_line::PushCommand;
use crate::receive_pack::{read_advertisement, read_report};
use crate::upload_pack::{Discovery, FetchReader, FetchVersion, RemoteRefs, read_discovery, read_refs};

/// Parses the responses of a remote repository. Names and IDs can be sent back in commands, and texts have no control
/// characters.
pub fn receive_pack(input: &[u8]) {
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    if let Ok(found) = read_advertisement(input) {
        for target in found.refs {
            let line = format!("{} {} {}", target.id, target.id, target.name);
            assert!(PushCommand::parse(&line).is_some(), "{line:?}");
        }
    }
    for sideband in [false, true] {
        match read_report(input, sideband) {
            Ok(report) => assert!(
                report
                    .rejected
                    .iter()
                    .all(|(name, reason)| is_plain(name) && is_plain(reason))
            ),
            Err(error) => assert!(is_plain(&error.to_string())),
        }
    }
}

/// Parses the responses of a remote repository to a fetch. Names and IDs can be part of commands, texts have no control
/// characters, and the pack does not depend on the pieces in which the response arrives.
pub fn upload_pack(input: &[u8]) {
    let is_plain = |text: &str| !text.chars().any(char::is_control);
    let listed = match read_discovery(input) {
        Ok(Discovery::Refs(found)) => Ok(found),
        Ok(Discovery::Commands) => Ok(RemoteRefs::default()),
        Err(error) => Err(error),
    };
    for found in [listed, read_refs(input)] {
        match found {
            Ok(found) => {
                for target in found.refs {
                    let line = format!("{} {} {}", target.id, target.id, target.name);
                    assert!(PushCommand::parse(&line).is_some(), "{line:?}");
                }
            }
            Err(error) => assert!(is_plain(&error.to_string())),
        }
    }
    for version in [FetchVersion::V0, FetchVersion::V2] {
        let read = |length: usize| {
            let mut reader = FetchReader::new(version);
            let mut pack = Vec::new();
            for piece in input.chunks(length) {
                pack.extend(reader.feed(piece)?);
            }
            reader.finish().map(|()| pack)
        };
        assert_eq!(read(1).ok(), read(input.len().max(1)).ok());
    }
}
