//! Reader of untrusted archives. It reads and validates everything, within limits, before the import starts.
//!
//! No entry is unpacked to a path. Each record is validated and written to one temporary file, grouped by
//! group and relation. Only the byte ranges stay in memory.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};

use parsers::group_archive::layout::{MAX_GROUPS, MAX_RECORDS, MAX_RECORDS_PER_GROUP, Relation};
use parsers::group_archive::records::{BoardRecord, EpicRecord, GroupRecord, MilestoneRecord};
use parsers::group_archive::{
    self as group_archive, ArchiveEntry, ArchiveError, ArchiveHandler, read_archive, read_small_file,
};
use sha2::{Digest, Sha256};

use super::{checks, tree};
use crate::kernel::error::{Error, Result};
use crate::kernel::record_validator::RecordValidator;

/// Maximum references to labels in boards and epics.
const MAX_NAMES: usize = 500_000;
/// Maximum length of an error text, in characters. It repeats content of the archive.
const MAX_FAULT_LENGTH: usize = 300;

/// Byte range of records in the temporary file.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}

/// A group of an archive.
#[derive(Debug, Default)]
pub struct GroupDraft {
    pub id: i64,
    pub parent_id: Option<i64>,
    pub name: String,
    pub path: String,
    pub attributes: Option<ByteRange>,
    pub relations: [Option<ByteRange>; Relation::ALL.len()],
    /// Number of records of all relations.
    pub records: u64,
}

/// An epic, as other epics reference it.
#[derive(Debug, Clone, Copy)]
pub struct EpicReference {
    pub group_id: i64,
    pub iid: i64,
    pub parent_id: Option<i64>,
}

/// A valid archive.
#[derive(Debug)]
pub struct ImportArchive {
    /// The records.
    pub file: File,
    /// The groups, each after its parent, starting with the exported one.
    pub groups: Vec<tree::GroupNode>,
    /// The epics, by their IDs in the archive.
    pub epics: HashMap<i64, EpicReference>,
    /// Unknown relations, by group ID and name.
    pub unknown_files: Vec<(i64, String)>,
}

/// Returns an error caused by the archive.
pub fn fault(text: impl Display) -> Error {
    let text: String = text.to_string().chars().take(MAX_FAULT_LENGTH).collect();
    Error::Rejected(text.into())
}

impl From<ArchiveError> for Error {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Invalid(text) => fault(text),
            ArchiveError::Io(error) => Self::internal(error),
        }
    }
}

/// Reads an archive into a temporary file.
///
/// # Errors
/// Returns `Error::Rejected` with the cause if the archive is invalid. Returns an error if the disk fails.
pub fn open(archive: File, spool: File, validator: &dyn RecordValidator) -> Result<ImportArchive> {
    let mut reading = ArchiveReader {
        validator,
        spool: BufWriter::new(spool),
        position: 0,
        records: 0,
        names: 0,
        drafts: HashMap::new(),
        all: None,
        version: false,
        epics: HashMap::new(),
        unknown_files: Vec::new(),
    };
    read_archive(BufReader::new(archive), &mut reading)?;
    reading.finish()
}

struct ArchiveReader<'v> {
    validator: &'v dyn RecordValidator,
    spool: BufWriter<File>,
    position: u64,
    records: u64,
    names: usize,
    drafts: HashMap<i64, GroupDraft>,
    all: Option<Vec<i64>>,
    version: bool,
    epics: HashMap<i64, EpicReference>,
    unknown_files: Vec<(i64, String)>,
}

impl ArchiveHandler for ArchiveReader<'_> {
    type Error = Error;

    fn file(&mut self, entry: ArchiveEntry, name: &str, content: &mut dyn BufRead) -> Result<()> {
        match entry {
            ArchiveEntry::Version => {
                let text = read_small_file(content, name)?;
                checks::check_version(&text)?;
                self.version = true;
            }
            ArchiveEntry::Ignored => {}
            ArchiveEntry::All => {
                let mut all = Vec::new();
                each_line(content, name, |line| {
                    if all.len() == MAX_GROUPS {
                        return Err(fault(format!(
                            "The archive has too many groups (maximum is {MAX_GROUPS})"
                        )));
                    }
                    all.push(serde_json::from_slice(line).map_err(fault)?);
                    Ok(())
                })?;
                self.all = Some(all);
            }
            ArchiveEntry::Group(id) => {
                let text = read_small_file(content, name)?;
                let group: GroupRecord = serde_json::from_str(&text)
                    .map_err(fault)
                    .map_err(with_position(name, 1))?;
                checks::check_group(self.validator, &group).map_err(with_position(name, 1))?;
                if group.id != id {
                    return Err(fault(format!("{name}: the ID belongs to the group {}", group.id)));
                }
                let attributes = self.append(&group)?;
                let draft = self.draft(id)?;
                draft.parent_id = group.parent_id;
                draft.name = group.name;
                draft.path = group.path;
                draft.attributes = Some(attributes);
            }
            ArchiveEntry::Relation(id, relation) => {
                let before = self.draft(id)?.records;
                let (range, count) = self.relation(id, relation, before, name, content)?;
                let draft = self.draft(id)?;
                draft.relations[relation as usize] = Some(range);
                draft.records += count;
            }
            ArchiveEntry::Unknown(id, word) => {
                self.draft(id)?;
                self.unknown_files.push((id, word));
            }
        }
        Ok(())
    }
}

impl ArchiveReader<'_> {
    fn draft(&mut self, id: i64) -> Result<&mut GroupDraft> {
        if self.drafts.len() >= MAX_GROUPS && !self.drafts.contains_key(&id) {
            return Err(fault(format!(
                "The archive has too many groups (maximum is {MAX_GROUPS})"
            )));
        }
        Ok(self.drafts.entry(id).or_insert_with(|| GroupDraft {
            id,
            ..GroupDraft::default()
        }))
    }

    /// Reads the records of a group and relation. `before` is the number of its records in other relations.
    /// Validates each record, and all of them for duplicates. Returns their byte range and number.
    fn relation(
        &mut self,
        group_id: i64,
        relation: Relation,
        before: u64,
        name: &str,
        content: &mut dyn BufRead,
    ) -> Result<(ByteRange, u64)> {
        let start = self.position;
        let (mut numbers, mut titles) = (HashSet::new(), HashSet::new());
        let mut count = 0;
        each_line(content, name, |line| {
            count += 1;
            checks::check_count(relation, count)?;
            if before + count > MAX_RECORDS_PER_GROUP {
                return Err(fault(format!(
                    "the group has too many records (maximum is {MAX_RECORDS_PER_GROUP})"
                )));
            }
            self.records += 1;
            if self.records > MAX_RECORDS {
                return Err(fault(format!(
                    "The archive has too many records (maximum is {MAX_RECORDS})"
                )));
            }
            match relation {
                Relation::Milestones => {
                    let record: MilestoneRecord = serde_json::from_slice(line).map_err(fault)?;
                    checks::check_milestone(self.validator, &record)?;
                    check_unique(&mut numbers, record.iid, "iid")?;
                    check_unique(&mut titles, text_digest(record.title.trim()), "title")?;
                    self.append(&record)?;
                }
                Relation::Labels => {
                    let record = serde_json::from_slice(line).map_err(fault)?;
                    checks::check_label(self.validator, &record)?;
                    check_unique(&mut titles, text_digest(record.title.trim()), "title")?;
                    self.append(&record)?;
                }
                Relation::Badges => {
                    let record = serde_json::from_slice(line).map_err(fault)?;
                    checks::check_badge(self.validator, &record)?;
                    self.append(&record)?;
                }
                Relation::Members => {
                    let record = serde_json::from_slice(line).map_err(fault)?;
                    checks::check_member(self.validator, &record)?;
                    self.append(&record)?;
                }
                Relation::Boards => {
                    let record: BoardRecord = serde_json::from_slice(line).map_err(fault)?;
                    checks::check_board(self.validator, &record)?;
                    self.count_names(record.labels.0.len() + record.lists.0.len())?;
                    self.append(&record)?;
                }
                Relation::Epics => {
                    let record: EpicRecord = serde_json::from_slice(line).map_err(fault)?;
                    checks::check_epic(self.validator, &record)?;
                    self.count_names(record.labels.0.len())?;
                    check_unique(&mut numbers, record.iid, "iid")?;
                    let named = EpicReference {
                        group_id,
                        iid: record.iid,
                        parent_id: record.parent_id,
                    };
                    if self.epics.insert(record.id, named).is_some() {
                        return Err(fault("id is used more than once"));
                    }
                    self.append(&record)?;
                }
            }
            Ok(())
        })?;
        let end = self.position;
        Ok((ByteRange { start, end }, count))
    }

    fn count_names(&mut self, further: usize) -> Result<()> {
        self.names += further;
        match self.names > MAX_NAMES {
            true => Err(fault(format!(
                "The archive refers to labels too often (maximum is {MAX_NAMES})"
            ))),
            false => Ok(()),
        }
    }

    /// Appends a record as a line to the temporary file.
    fn append(&mut self, record: &impl serde::Serialize) -> Result<ByteRange> {
        let start = self.position;
        let mut line = serde_json::to_vec(record).map_err(Error::internal)?;
        line.push(b'\n');
        self.spool.write_all(&line).map_err(Error::internal)?;
        self.position += line.len() as u64;
        Ok(ByteRange {
            start,
            end: self.position,
        })
    }

    fn finish(self) -> Result<ImportArchive> {
        if !self.version {
            return Err(fault("The archive has no VERSION file"));
        }
        let all = self.all.ok_or_else(|| {
            fault(
                "The archive has no list of groups (tree/groups/_all.ndjson); archives in the \
                 single-file format are not supported",
            )
        })?;
        let groups = tree::sort_groups(&all, self.drafts)?;
        tree::check_epics(&groups, &self.epics)?;
        let mut file = self
            .spool
            .into_inner()
            .map_err(|error| Error::internal(error.into_error()))?;
        file.rewind().map_err(Error::internal)?;
        Ok(ImportArchive {
            file,
            groups,
            epics: self.epics,
            unknown_files: self.unknown_files,
        })
    }
}

/// Adds the position in the archive to an error.
fn with_position(name: &str, line: usize) -> impl Fn(Error) -> Error {
    move |error| match checks::text_of(&error, ToString::to_string) {
        Some(text) => fault(format!("{name}, line {line}: {text}")),
        None => error,
    }
}

fn check_unique<T: Eq + std::hash::Hash>(seen: &mut HashSet<T>, value: T, what: &str) -> Result<()> {
    match seen.insert(value) {
        true => Ok(()),
        false => Err(fault(format!("{what} is used more than once"))),
    }
}

/// Returns a 128-bit digest of a text for duplicate checks, which bounds memory.
fn text_digest(text: &str) -> [u8; 16] {
    let digest: [u8; 32] = Sha256::digest(text).into();
    std::array::from_fn(|at| digest[at])
}

/// Reads a file line by line and skips empty lines. Errors name the line.
fn each_line(content: &mut dyn BufRead, name: &str, mut read: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    group_archive::each_line(content, name, |number, line| {
        read(line).map_err(with_position(name, number))
    })
}
