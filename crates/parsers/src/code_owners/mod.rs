//! Files that name the owners of paths (`CODEOWNERS`).
//!
//! A line has a pattern and its owners. Sections group lines; each section selects the owners of a path on its own, by the last
//! line that matches. The syntax and the patterns are those of the reference service.

mod limits;
mod line;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use line::Line;
use pattern::Pattern;

pub use limits::{
    CodeOwnersError, MAX_APPROVALS, MAX_BYTES, MAX_COMPARISONS, MAX_LINES, MAX_OWNERS, MAX_PATTERN_BYTES,
};
pub use line::Owner;
pub use pattern::PathSegments;

/// The owners of paths.
#[derive(Debug, Clone, Default)]
pub struct CodeOwners {
    sections: Vec<Section>,
}

#[derive(Debug, Clone)]
struct Section {
    /// The name; `None` for the lines before the first section.
    name: Option<String>,
    key: Option<String>,
    is_optional: bool,
    approvals: u8,
    entries: Vec<Entry>,
    /// Patterns of paths without owners in the section.
    exclusions: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Entry {
    text: String,
    pattern: Pattern,
    owners: Vec<Owner>,
}

/// A line that selects the owners of at least one path of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedPattern {
    /// The pattern as the file contains it.
    pub pattern: String,
    /// Name of the section.
    pub section: Option<String>,
    /// Whether the section does not require approvals.
    pub is_optional: bool,
    /// Number of approvals of owners that the section requires.
    pub approvals: u8,
    /// The owners; not empty.
    pub owners: Vec<Owner>,
}

impl CodeOwners {
    /// Parses a file. Bytes that are not UTF-8 are replaced, as in the paths of Git that are compared. Malformed owners are
    /// ignored.
    ///
    /// # Errors
    /// Returns an error if the file exceeds a limit.
    pub fn parse(file: &[u8]) -> Result<Self, CodeOwnersError> {
        if file.len() > MAX_BYTES {
            return Err(CodeOwnersError::TooLarge);
        }
        let text = String::from_utf8_lossy(file);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let mut sections = vec![Section::new(None, false, 1)];
        let (mut current, mut defaults) = (0, Vec::new());
        for (number, text) in text.lines().enumerate() {
            if number >= MAX_LINES {
                return Err(CodeOwnersError::TooManyLines);
            }
            match line::parse(text)? {
                None => {}
                Some(Line::Section(header)) => {
                    current = open_section(&mut sections, &header);
                    defaults = header.owners;
                }
                Some(Line::Exclusion(pattern)) => {
                    if let Some(section) = sections.get_mut(current) {
                        section.exclusions.push(Pattern::new(&pattern));
                    }
                }
                Some(Line::Entry(text, owners)) => {
                    let owners = match owners.is_empty() {
                        true => defaults.clone(),
                        false => owners,
                    };
                    if let Some(section) = sections.get_mut(current) {
                        section.entries.push(Entry {
                            pattern: Pattern::new(&text),
                            text,
                            owners,
                        });
                    }
                }
            }
        }
        Ok(Self { sections })
    }

    /// Returns the lines that select the owners of these paths, in the order of the file.
    ///
    /// # Errors
    /// Returns an error if the patterns and paths need too many comparisons.
    pub fn owned_patterns(&self, paths: &[PathSegments]) -> Result<Vec<OwnedPattern>, CodeOwnersError> {
        let mut budget = MAX_COMPARISONS;
        let mut found = Vec::new();
        for section in &self.sections {
            let mut selected = BTreeSet::new();
            for path in paths {
                selected.extend(section.select(path, &mut budget)?);
            }
            let entries = selected
                .into_iter()
                .filter_map(|index| section.entries.get(index));
            found.extend(entries.map(|entry| OwnedPattern {
                pattern: entry.text.clone(),
                section: section.name.clone(),
                is_optional: section.is_optional,
                approvals: section.approvals,
                owners: entry.owners.clone(),
            }));
        }
        Ok(found)
    }
}

/// Returns the index of the section with the name of a header. Headers with one name are one section, which is as strict as the
/// strictest of them.
fn open_section(sections: &mut Vec<Section>, header: &line::Header) -> usize {
    let key = Some(header.name.to_lowercase());
    if let Some(index) = sections.iter().position(|known| known.key == key) {
        if let Some(known) = sections.get_mut(index) {
            known.is_optional &= header.is_optional;
            known.approvals = known.approvals.max(header.approvals);
        }
        return index;
    }
    sections.push(Section::new(
        Some(header.name.clone()),
        header.is_optional,
        header.approvals,
    ));
    sections.len() - 1
}

impl Section {
    fn new(name: Option<String>, is_optional: bool, approvals: u8) -> Self {
        Self {
            key: name.as_deref().map(str::to_lowercase),
            name,
            is_optional,
            approvals,
            entries: Vec::new(),
            exclusions: Vec::new(),
        }
    }

    /// Returns the index of the last line that matches a path, if the line has owners.
    fn select(&self, path: &PathSegments, budget: &mut u64) -> Result<Option<usize>, CodeOwnersError> {
        let mut matches = |pattern: &Pattern| {
            let found = pattern.matches(path, budget);
            found.ok_or(CodeOwnersError::TooManyComparisons)
        };
        let mut selected = None;
        for (index, entry) in self.entries.iter().enumerate().rev() {
            if matches(&entry.pattern)? {
                selected = (!entry.owners.is_empty()).then_some(index);
                break;
            }
        }
        if selected.is_some() {
            for exclusion in &self.exclusions {
                if matches(exclusion)? {
                    return Ok(None);
                }
            }
        }
        Ok(selected)
    }
}
