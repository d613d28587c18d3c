//! The table of counts: one row for each call, and one column for each build.

use std::path::Path;

use crate::callgrind::Count;
use crate::{Result, line};

/// Path of the table in the workspace.
pub const PATH: &str = "benches/instructions/counts.tsv";
/// Maximum change of a count. A smaller count must be written to the table too, or a later growth would not be noticed.
pub const MAX_CHANGE_PERCENT: f64 = 10.0;
/// Names of the columns.
const HEADER: [&str; 3] = ["call", "debug", "release"];
/// Name of the row with the toolchain of each column.
const TOOLCHAIN: &str = "toolchain";

/// Profile of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Not optimized, as the tests are built.
    Debug,
    /// Optimized.
    Release,
}

impl Profile {
    /// Returns the profile of this build.
    pub fn current() -> Self {
        match cfg!(debug_assertions) {
            true => Self::Debug,
            false => Self::Release,
        }
    }

    /// Returns the name of the profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }

    fn select<T>(self, [debug, release]: [T; 2]) -> T {
        match self {
            Self::Debug => debug,
            Self::Release => release,
        }
    }
}

/// The table.
pub struct Table {
    rows: Vec<(String, [String; 2])>,
}

impl Table {
    /// Reads the table.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let mut rows = Vec::new();
        for row in text.lines().skip(1) {
            match row.split('\t').collect::<Vec<_>>().as_slice() {
                [name, debug, release] => {
                    rows.push(((*name).to_owned(), [(*debug).to_owned(), (*release).to_owned()]))
                }
                _ => return Err(format!("{PATH} has a row without three columns: {row}").into()),
            }
        }
        Ok(Self { rows })
    }

    /// Writes the table.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = HEADER.join("\t");
        for (name, [debug, release]) in &self.rows {
            text.push_str(&format!("\n{name}\t{debug}\t{release}"));
        }
        text.push('\n');
        Ok(std::fs::write(path, text)?)
    }

    /// Returns the toolchain of a column; empty if it has no counts.
    pub fn toolchain(&self, profile: Profile) -> &str {
        self.value(TOOLCHAIN, profile).unwrap_or_default()
    }

    /// Replaces a column.
    pub fn update(&mut self, profile: Profile, toolchain: &str, counts: &[Count]) {
        let counts = counts
            .iter()
            .map(|count| (count.name, count.instructions.to_string()));
        let rows = std::iter::once((TOOLCHAIN, toolchain.to_owned())).chain(counts);
        let old = std::mem::take(&mut self.rows);
        self.rows = rows
            .map(|(name, value)| {
                let known = old.iter().find(|(other, _)| other == name);
                let [debug, release] = known.map(|(_, values)| values.clone()).unwrap_or_default();
                let values = match profile {
                    Profile::Debug => [value, release],
                    Profile::Release => [debug, value],
                };
                (name.to_owned(), values)
            })
            .collect();
    }

    fn value(&self, name: &str, profile: Profile) -> Option<&str> {
        let (_, values) = self.rows.iter().find(|(other, _)| other == name)?;
        Some(profile.select(values.each_ref().map(String::as_str)))
    }

    /// Prints the counts with their changes. Returns the number of calls that changed by more than the maximum, or that
    /// are only in the table or missing in it.
    pub fn compare(&self, profile: Profile, counts: &[Count]) -> Result<usize> {
        line(&format!(
            "Instructions per request, {} build\n{:<36} {:>12} {:>12} {:>9}",
            profile.name(),
            "",
            "counted",
            "table",
            "change"
        ))?;
        let mut changed = 0;
        for count in counts {
            let known = self
                .value(count.name, profile)
                .and_then(|known| known.parse::<u64>().ok());
            let change = known.map(|known| (count.instructions as f64 / known.max(1) as f64 - 1.0) * 100.0);
            let is_changed = change.is_none_or(|change| change.abs() > MAX_CHANGE_PERCENT);
            changed += usize::from(is_changed);
            line(&format!(
                "{:<36} {:>12} {:>12} {:>9} {}",
                count.name,
                count.instructions,
                known.map(|known| known.to_string()).unwrap_or_default(),
                change.map(|change| format!("{change:+.1} %")).unwrap_or_default(),
                if is_changed { "CHANGED" } else { "" },
            ))?;
        }
        let is_counted = |name: &str| counts.iter().any(|count| count.name == name);
        for (name, _) in self
            .rows
            .iter()
            .filter(|(name, _)| name != TOOLCHAIN && !is_counted(name))
        {
            changed += 1;
            line(&format!("{name:<36} is only in the table"))?;
        }
        Ok(changed)
    }
}
