//! Checks of the parsers of crates.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io::Cursor;
use std::path::Component;

use flate2::read::MultiGzDecoder;
use tar::Archive;

use crate::cargo::{
    CrateArchiveError, CrateName, MAX_ENTRY_BYTES, PublicationError, check_archive, read_publication,
};

/// Parses a body of `cargo publish`. The archive is a tar file, or, if it starts like one, a gzip file. All paths of an accepted
/// archive, as other readers find them, must be below the folder of the version.
pub fn cargo_publication(input: &[u8]) {
    let unlimited = |_| Ok::<(), Infallible>(());
    let size = input.len() as u64;
    let publication = match read_publication(&mut Cursor::new(input), size, &unlimited) {
        Ok(publication) => publication,
        Err(PublicationError::Invalid(_)) => return,
        Err(error) => panic!("{error}"),
    };
    let Ok(line) = publication.entry.to_line() else {
        panic!("an entry cannot be written");
    };
    assert!(line.len() <= MAX_ENTRY_BYTES && !line.contains('\n'));
    let path = publication.name.index_path();
    assert_eq!(
        CrateName::of_index_path(&path).map(|name| name.canonical()),
        Some(publication.name.canonical())
    );
    let start = usize::try_from(publication.archive_start).unwrap_or(usize::MAX);
    let archive = input.get(start..).unwrap_or_default();
    assert_eq!(archive.len() as u64, publication.archive_size);
    let archive = packed(archive);
    match check_archive(&archive[..], &publication.name, &publication.version) {
        Ok(()) => check_paths(
            &archive,
            &format!("{}-{}", publication.name, publication.version.as_str()),
        ),
        Err(CrateArchiveError::Invalid(_)) => {}
        Err(CrateArchiveError::Io(error)) => panic!("{error}"),
    }
}

/// Checks the paths of an archive as the library reads them, which is the library of Cargo.
fn check_paths(archive: &[u8], folder: &str) {
    let mut archive = Archive::new(MultiGzDecoder::new(archive));
    let Ok(entries) = archive.entries() else {
        panic!("the archive cannot be read");
    };
    let mut paths = HashSet::new();
    for entry in entries {
        let Ok(entry) = entry else {
            panic!("the archive cannot be read");
        };
        let Ok(path) = entry.path() else {
            panic!("a path cannot be read");
        };
        let is_plain = |part| matches!(part, Component::Normal(_));
        assert!(
            path.starts_with(folder) && path.components().all(is_plain),
            "{path:?}"
        );
        assert!(entry.link_name().is_ok_and(|link| link.is_none()), "{path:?}");
        paths.insert(path.to_string_lossy().into_owned());
    }
    assert!(paths.contains(&format!("{folder}/Cargo.toml")), "{paths:?}");
}

/// Compresses an input that is not a gzip file.
pub(super) fn packed(input: &[u8]) -> Vec<u8> {
    use std::io::Write;

    if input.starts_with(&[0x1F, 0x8B]) {
        return input.to_vec();
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    match encoder.write_all(input).and_then(|()| encoder.finish()) {
        Ok(packed) => packed,
        Err(error) => panic!("{error}"),
    }
}
