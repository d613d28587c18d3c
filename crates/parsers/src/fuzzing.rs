//! Checks of the parsers on any input, for the fuzz targets in `fuzz/`.
//!
//! Each function calls one parser and fails if a property does not hold. A test calls each function with the committed
//! inputs of its target.

mod bodies;
mod crates;
mod gitmodules;
mod maven;
mod parameters;
mod remotes;

use std::cell::Cell;
use std::collections::HashSet;
use std::convert::Infallible;
use std::io::{BufRead, Cursor, Read};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::de::{IoRead, SliceRead};
use serde_json::{Map, Value, json};

use crate::code_owners::{CodeOwners, CodeOwnersError, PathSegments};
use crate::delta::{DeltaSizes, MAX_SIZES_LENGTH};
use crate::group_archive::layout::Relation;
use crate::group_archive::records::{
    BadgeRecord, BoardRecord, EpicRecord, GroupRecord, LabelRecord, MemberRecord, MilestoneRecord,
};
use crate::group_archive::{
    ArchiveEntry, ArchiveError, ArchiveHandler, each_line, read_archive, read_small_file,
};
use crate::json::JsonError;
use crate::npm::{
    DocumentError, MAX_DEPRECATION_LENGTH, MAX_MANIFEST_BYTES, NpmDocument, NpmTag, read_document,
};
use crate::pkt_line::{LENGTH_DIGITS, PacketHeader, PushCommand, without_capabilities};
use crate::registry::{ImageName, RegistryPath, RepositoryResource, accepts_large_body, is_registry_path};
use crate::reports::{Finding, MAX_DESCRIPTION_LENGTH, MAX_TITLE_LENGTH, ReportError, read_report};
use crate::scim::{ScimErrorType, UserOperation, UserSelector, merge_operations, parse_filter};
use crate::{form, json};

pub use bodies::{multipart_form, pack_start};
pub use crates::cargo_publication;
pub use gitmodules::gitmodules;
pub use maven::maven_path;
use parameters::check_parameters;
pub use remotes::{receive_pack, upload_pack};

/// Calls a parser with an input and fails if a property does not hold.
type Check = fn(&[u8]);

/// The fuzz targets by name.
pub const TARGETS: [(&str, Check); 20] = [
    ("archive_records", archive_records),
    ("bracket_parameters", bracket_parameters),
    ("cargo_publication", cargo_publication),
    ("code_owners", code_owners),
    ("delta_sizes", delta_sizes),
    ("form_body", form_body),
    ("gitmodules", gitmodules),
    ("group_archive", group_archive),
    ("json_body", json_body),
    ("maven_path", maven_path),
    ("multipart_form", multipart_form),
    ("npm_document", npm_document),
    ("pack_start", pack_start),
    ("pkt_line", pkt_line),
    ("receive_pack", receive_pack),
    ("registry_path", registry_path),
    ("scanner_report", scanner_report),
    ("scim_filter", scim_filter),
    ("scim_patch", scim_patch),
    ("upload_pack", upload_pack),
];

/// Parses packets up to a flush packet. Their payloads must be the input without the lengths.
pub fn pkt_line(input: &[u8]) {
    let mut rest = input;
    while let Some((digits, after)) = rest.split_first_chunk::<LENGTH_DIGITS>() {
        let Some(PacketHeader::Payload(size)) = PacketHeader::parse(*digits) else {
            return;
        };
        let size = size.get();
        assert_eq!(
            format!("{:04x}", size + LENGTH_DIGITS).as_bytes(),
            digits.to_ascii_lowercase()
        );
        let Some((payload, after)) = after.split_at_checked(size) else {
            return;
        };
        let line = without_capabilities(payload);
        assert!(payload.starts_with(line) && !line.contains(&0));
        let text = std::str::from_utf8(line)
            .unwrap_or_default()
            .trim_end_matches('\n');
        if let Some(PushCommand { old, new, reference }) = PushCommand::parse(text) {
            assert_eq!(format!("{old} {new} {reference}"), text);
            assert!(
                !reference.contains(|c: char| c.is_control() || c == ' '),
                "{reference:?}"
            );
        }
        rest = after;
    }
}

/// Parses a file with code owners, and selects the owners of the paths after a NUL byte. Lines that select owners must
/// have owners and a pattern, and must not depend on the ends of lines.
pub fn code_owners(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let (file, paths) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(owners) = CodeOwners::parse(file) else {
        return;
    };
    let paths = String::from_utf8_lossy(paths);
    let paths: Vec<PathSegments> = paths.split('\0').map(PathSegments::new).collect();
    let found = owners.owned_patterns(&paths);
    if let Ok(found) = &found {
        for owned in found {
            assert!(!owned.owners.is_empty() && !owned.pattern.is_empty());
            assert!((1..=100).contains(&owned.approvals), "{}", owned.approvals);
        }
    }
    if !file.contains(&b'\r') && found != Err(CodeOwnersError::TooManyComparisons) {
        let windows = String::from_utf8_lossy(file).replace('\n', "\r\n");
        if let Ok(windows) = CodeOwners::parse(windows.as_bytes()) {
            assert_eq!(windows.owned_patterns(&paths), found);
        }
    }
}

/// Parses the sizes at the start of a delta. They must equal those of a parser without limits, and be parsed if they
/// have their shortest form.
pub fn delta_sizes(input: &[u8]) {
    let parsed = DeltaSizes::parse(input);
    let Some([base, result]) = unlimited_sizes(input) else {
        assert_eq!(parsed, None);
        return;
    };
    let is_parsed = parsed.is_some_and(|sizes| {
        assert_eq!((u128::from(sizes.base), u128::from(sizes.result)), (base, result));
        true
    });
    let shortest = [base, result].map(shortest_size).concat();
    let is_required = shortest.len() <= MAX_SIZES_LENGTH
        && input.starts_with(&shortest)
        && base.max(result) <= u128::from(u64::MAX);
    assert!(is_parsed || !is_required, "{base} {result}");
    // Further bytes do not matter.
    assert_eq!(
        DeltaSizes::parse(input.get(..MAX_SIZES_LENGTH).unwrap_or(input)),
        parsed
    );
}

/// Parses two sizes of at most 18 bytes each; `None` if they are longer or incomplete.
fn unlimited_sizes(input: &[u8]) -> Option<[u128; 2]> {
    let mut bytes = input.iter();
    let mut sizes = [0; 2];
    for size in &mut sizes {
        for shift in (0..126).step_by(7) {
            let byte = bytes.next()?;
            *size |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            if shift == 119 {
                return None;
            }
        }
    }
    Some(sizes)
}

/// Encodes a size in as few bytes as possible.
fn shortest_size(mut size: u128) -> Vec<u8> {
    let mut bytes = Vec::new();
    while size > 0x7f {
        bytes.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes
}

/// Parses a JSON body. The result must equal that of a parser without limits, unless keys are repeated.
pub fn json_body(input: &[u8]) {
    let reserved = Cell::new(0);
    let reserve = |bytes: u64| {
        reserved.set(reserved.get() + bytes);
        if reserved.get() > 1 << 20 {
            Err("no memory is left")
        } else {
            Ok(())
        }
    };
    let size = input.len() as u64;
    let limited = json::parse(SliceRead::new(input), size, &reserve);
    let unlimited = |_| Ok::<(), Infallible>(());
    let from_slice = json::parse(SliceRead::new(input), size, &unlimited);
    let from_reader = json::parse(IoRead::new(input), size, &unlimited);
    assert_eq!(from_slice.is_ok(), from_reader.is_ok());
    let reference = serde_json::from_slice::<Value>(input);
    match &from_slice {
        Ok(value) => {
            assert_eq!(Some(value), from_reader.as_ref().ok());
            assert_eq!(Some(value), reference.as_ref().ok());
        }
        Err(error) => {
            let text = error.to_string();
            let has_reason = reference.is_err()
                || ["duplicate key", "too many values"]
                    .iter()
                    .any(|reason| text.contains(reason));
            assert!(has_reason, "{text}");
        }
    }
    match limited {
        Ok(value) => assert_eq!(Some(value), from_slice.ok()),
        Err(JsonError::Memory(_)) => assert!(reserved.get() > 1 << 20),
        Err(JsonError::Invalid(_) | JsonError::TooManyValues) => assert!(from_slice.is_err()),
    }
}

/// Parses a URL-encoded body. The pairs must be the same after they are encoded again.
pub fn form_body(input: &[u8]) {
    let Ok(pairs) = form::pairs(input) else {
        assert!(form::parse(input).is_err());
        return;
    };
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let encoded: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    assert_eq!(form::pairs(encoded.join("&").as_bytes()).as_ref(), Ok(&pairs));
    check_parameters(&form::parse(input), &pairs);
}

/// Inserts parameters whose names are the lines of the input. Their nesting must be limited.
pub fn bracket_parameters(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let pairs: Vec<(String, String)> = text
        .lines()
        .enumerate()
        .map(|(number, name)| (name.to_owned(), number.to_string()))
        .collect();
    let mut parameters = Map::new();
    for (name, value) in &pairs {
        let before = parameters.clone();
        if form::insert(&mut parameters, name, Value::String(value.clone())).is_err() {
            // An error ends the request, so it may change only the parameter that it names.
            let base = name.split('[').next().unwrap_or_default();
            let changed = |(key, value): (&String, &Value)| before.get(key) != Some(value) && key != base;
            assert!(!parameters.iter().any(changed), "{name:?}");
            return;
        }
    }
    check_parameters(&Ok(parameters), &pairs);
}

/// Parses the path of a request to the registry. The path of the parsed name and resource must be parsed to the same.
pub fn registry_path(input: &[u8]) {
    let Ok(path) = std::str::from_utf8(input) else {
        return;
    };
    let parsed = RegistryPath::of(path);
    assert_eq!(parsed.is_some(), is_registry_path(path));
    assert!(parsed.is_some() || !accepts_large_body(path));
    let Some(Ok(RegistryPath::Of(name, resource))) = parsed else {
        return;
    };
    assert_eq!(ImageName::parse(name.as_str()).as_ref(), Ok(&name));
    for (project, image) in name.possible_splits() {
        let joined = [project, image].join(if image.is_empty() { "" } else { "/" });
        assert_eq!(joined, name.as_str());
        assert!(project.split('/').count() >= 2);
    }
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let end = match &resource {
        RepositoryResource::Tags => "tags/list".to_owned(),
        RepositoryResource::Manifest(reference) => format!("manifests/{}", encode(reference)),
        RepositoryResource::Blob(digest) => format!("blobs/{}", encode(digest)),
        RepositoryResource::Uploads => "blobs/uploads/".to_owned(),
        RepositoryResource::Upload(uuid) => format!("blobs/uploads/{}", encode(uuid)),
        RepositoryResource::Referrers(digest) => format!("referrers/{}", encode(digest)),
    };
    let again = RegistryPath::of(&format!("/v2/{name}/{end}"));
    assert_eq!(again, Some(Ok(RegistryPath::Of(name, resource))));
}

/// Parses a filter of SCIM. The canonical form of the selected user must be parsed to the same.
pub fn scim_filter(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match parse_filter(text) {
        Ok(selector) => {
            let (attribute, value) = match &selector {
                UserSelector::Uid(value) => ("externalId", value),
                UserSelector::Name(value) => ("userName", value),
            };
            assert!(!value.contains('\0'));
            let canonical = format!("{attribute} eq {}", json!(value));
            assert_eq!(parse_filter(&canonical), Ok(selector));
        }
        Err(error) => assert_eq!(error.fault, ScimErrorType::Filter),
    }
}

/// Merges the operations of a patch of SCIM. The changes must be the same after they are merged again.
pub fn scim_patch(input: &[u8]) {
    #[derive(serde::Deserialize)]
    struct Operation {
        op: String,
        path: Option<String>,
        value: Option<Value>,
    }
    let Ok(operations) = serde_json::from_slice::<Vec<Operation>>(input) else {
        return;
    };
    let operations = operations.into_iter();
    let operations = operations
        .map(|Operation { op, path, value }| UserOperation { op, path, value })
        .collect();
    let Ok(changes) = merge_operations(operations) else {
        return;
    };
    for text in [&changes.uid, &changes.username, &changes.email, &changes.name()]
        .into_iter()
        .flatten()
    {
        assert!(!text.trim().is_empty() && !text.contains('\0'), "{text:?}");
    }
    let operation = |path: &str, value: Value| {
        (!value.is_null()).then(|| UserOperation {
            op: "replace".to_owned(),
            path: Some(path.to_owned()),
            value: Some(value),
        })
    };
    let again = [
        operation("externalId", json!(changes.uid)),
        operation("userName", json!(changes.username)),
        operation("emails[type eq \"work\"].value", json!(changes.email)),
        operation("active", json!(changes.active)),
    ];
    match merge_operations(again.into_iter().flatten().collect()) {
        Ok(same) => assert_eq!(
            (same.uid, same.username, same.email, same.active),
            (changes.uid, changes.username, changes.email, changes.active)
        ),
        Err(error) => panic!("{error}"),
    }
}

/// Parses a scanner report. The findings must have limited texts and distinct fingerprints.
pub fn scanner_report(input: &[u8]) {
    let mut output = Vec::new();
    match read_report(&mut Cursor::new(input), &mut output) {
        Ok(()) => {}
        Err(ReportError::Io(error)) => panic!("{error}"),
        Err(_) => return,
    }
    let mut fingerprints = HashSet::new();
    for line in output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let Ok(finding) = serde_json::from_slice::<Finding>(line) else {
            panic!("{:?} is not a finding", String::from_utf8_lossy(line));
        };
        let description = finding.description.as_deref().unwrap_or_default();
        let title_length = finding.title.chars().count();
        assert!((1..=MAX_TITLE_LENGTH).contains(&title_length), "{title_length}");
        assert!(description.chars().count() <= MAX_DESCRIPTION_LENGTH);
        assert!(
            ![&finding.title, description]
                .iter()
                .any(|text| text.contains('\0'))
        );
        assert!(fingerprints.insert(finding.fingerprint));
    }
    // The parser must not depend on how much of the document it reads at once.
    let mut piecewise = Vec::new();
    let _ = read_report(&mut OneByte(Cursor::new(input)), &mut piecewise);
    assert_eq!(piecewise, output);
}

/// Reader of one byte at a time.
struct OneByte<R>(R);

impl<R: Read> Read for OneByte<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(1);
        self.0.read(&mut buffer[..length])
    }
}

impl<R: std::io::Seek> std::io::Seek for OneByte<R> {
    fn seek(&mut self, position: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(position)
    }
}

/// Parses a document of npm. A published document must contain the decoded archive, as a parser of the whole document
/// finds it.
pub fn npm_document(input: &[u8]) {
    use base64::Engine;

    let unlimited = |_| Ok::<(), Infallible>(());
    let mut archive = Vec::new();
    let document = read_document(&mut Cursor::new(input), &mut archive, &unlimited);
    // The parser must not depend on how much of the document it reads at once.
    let mut piecewise = Vec::new();
    let again = read_document(&mut OneByte(Cursor::new(input)), &mut piecewise, &unlimited);
    let document = match (document, again) {
        (Ok(document), Ok(again)) => {
            assert_eq!((&document, &archive), (&again, &piecewise));
            document
        }
        (Err(DocumentError::Invalid(error)), Err(DocumentError::Invalid(again))) => {
            assert_eq!(error, again);
            return;
        }
        (document, again) => panic!("{document:?} {again:?}"),
    };
    let Ok(whole) = serde_json::from_slice::<Value>(input) else {
        // Omitted values are not checked.
        let has_provenance = input.windows(9).any(|bytes| bytes == b".sigstore");
        let may_omit = has_provenance || matches!(document, NpmDocument::Deprecate { .. });
        assert!(may_omit, "the document is not valid JSON");
        return;
    };
    match document {
        NpmDocument::Publish(publication) => {
            let version = publication.version.as_str();
            let attachments = whole["_attachments"].as_object();
            let mut archives = attachments
                .into_iter()
                .flatten()
                .filter(|(name, _)| !name.ends_with(".sigstore"));
            let data = archives.next().and_then(|(_, archive)| archive["data"].as_str());
            let decoded = data.and_then(|data| base64::engine::general_purpose::STANDARD.decode(data).ok());
            assert_eq!(decoded.as_ref(), Some(&archive));
            assert_eq!(publication.archive.size, archive.len() as u64);
            assert!(!archive.is_empty() && !publication.tags.is_empty());
            assert_eq!(whole["name"], publication.name.as_str());
            for (attribute, value) in &publication.manifest {
                assert_eq!(&whole["versions"][version][attribute], value);
            }
            let written = Value::Object(publication.manifest).to_string();
            assert!(written.len() <= MAX_MANIFEST_BYTES && !written.contains("\\u0000"));
            for tag in &publication.tags {
                assert_eq!(NpmTag::parse(tag.as_str()).as_ref(), Some(tag));
            }
        }
        NpmDocument::Deprecate { name, changes } => {
            assert!(archive.is_empty());
            assert_eq!(whole["name"], name.as_str());
            for change in changes {
                let message = change.message.unwrap_or_default();
                assert!(message.chars().count() <= MAX_DEPRECATION_LENGTH && !message.contains('\0'));
                let sent = &whole["versions"][change.version.as_str()]["deprecated"];
                assert_eq!(sent.as_str().unwrap_or_default(), message);
            }
        }
    }
}

/// Reads an archive of groups: the input is a tar file, or, if it starts like one, a gzip file.
pub fn group_archive(input: &[u8]) {
    let mut files = ArchiveFiles::default();
    match read_archive(Cursor::new(crates::packed(input)), &mut files) {
        Ok(()) | Err(ArchiveError::Invalid(_)) => {}
        Err(ArchiveError::Io(error)) => panic!("{error}"),
    }
    let names: HashSet<&str> = files.names.iter().map(String::as_str).collect();
    assert_eq!(names.len(), files.names.len());
}

/// The names of the files of an archive.
#[derive(Default)]
struct ArchiveFiles {
    names: Vec<String>,
}

impl ArchiveHandler for ArchiveFiles {
    type Error = ArchiveError;

    fn file(
        &mut self,
        entry: ArchiveEntry,
        name: &str,
        content: &mut dyn BufRead,
    ) -> Result<(), ArchiveError> {
        let plain = name.strip_prefix("./").unwrap_or(name);
        assert!(
            !plain.starts_with('/') && !plain.split('/').any(|part| part == ".."),
            "{name:?}"
        );
        self.names.push(plain.to_owned());
        match entry {
            ArchiveEntry::Version | ArchiveEntry::Group(_) => read_small_file(content, name).map(drop),
            ArchiveEntry::Ignored | ArchiveEntry::Unknown(..) => Ok(()),
            ArchiveEntry::All | ArchiveEntry::Relation(..) => {
                let mut last = 0;
                each_line(content, name, |number, line| {
                    assert!(number > last && !line.is_empty() && !line.contains(&b'\n'));
                    last = number;
                    Ok(())
                })
            }
        }
    }
}

/// Parses records of archives: the first byte of the input selects the relation, the lines after it are records.
/// A written record must be read as the same.
pub fn archive_records(input: &[u8]) {
    let Some((kind, lines)) = input.split_first() else {
        return;
    };
    let relation = Relation::ALL.get(usize::from(kind.wrapping_sub(b'a')));
    for line in lines.split(|byte| *byte == b'\n') {
        match relation {
            Some(Relation::Milestones) => round_trip::<MilestoneRecord>(line),
            Some(Relation::Labels) => round_trip::<LabelRecord>(line),
            Some(Relation::Badges) => round_trip::<BadgeRecord>(line),
            Some(Relation::Members) => round_trip::<MemberRecord>(line),
            Some(Relation::Boards) => round_trip::<BoardRecord>(line),
            Some(Relation::Epics) => round_trip::<EpicRecord>(line),
            None => round_trip::<GroupRecord>(line),
        }
    }
}

fn round_trip<T: Serialize + DeserializeOwned>(line: &[u8]) {
    let Ok(record) = serde_json::from_slice::<T>(line) else {
        return;
    };
    let Ok(written) = serde_json::to_vec(&record) else {
        panic!("a record cannot be written");
    };
    assert!(!written.contains(&b'\n'));
    let again = serde_json::from_slice::<T>(&written).and_then(|record| serde_json::to_vec(&record));
    match again {
        Ok(again) => assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&written)),
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&written)),
    }
}

#[cfg(test)]
mod tests;
