//! Values in a form that does not depend on the database, and their checksum.

use std::fmt;

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use sha2::{Digest, Sha256};

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Boolean(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// Truncated to microseconds, the precision of PostgreSQL.
    Time(DateTime<Utc>),
    Date(NaiveDate),
}

/// The values of a row, in the order of the columns.
pub(super) type Row = Vec<Value>;

impl Value {
    /// Returns the approximate memory of the value, in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Text(text) => text.len(),
                Self::Bytes(bytes) => bytes.len(),
                _ => 0,
            }
    }

    /// Adds the canonical form: a byte for the kind, and the value with its length if that varies.
    fn hash(&self, hash: &mut Sha256) {
        let mut add = |kind: u8, bytes: &[u8]| {
            hash.update([kind]);
            hash.update(bytes);
        };
        match self {
            Self::Null => add(0, &[]),
            Self::Boolean(value) => add(1, &[u8::from(*value)]),
            Self::Integer(value) => add(2, &value.to_le_bytes()),
            // SQLite stores the negative zero as zero.
            Self::Real(value) => add(3, &(value + 0.0).to_bits().to_le_bytes()),
            Self::Text(text) => {
                add(4, &(text.len() as u64).to_le_bytes());
                hash.update(text);
            }
            Self::Bytes(bytes) => {
                add(5, &(bytes.len() as u64).to_le_bytes());
                hash.update(bytes);
            }
            Self::Time(time) => add(6, &time.timestamp_micros().to_le_bytes()),
            Self::Date(date) => add(7, &date.num_days_from_ce().to_le_bytes()),
        }
    }
}

/// Number of rows and checksum of a table. The checksum is the sum of the SHA-256 digests of the rows, so it does not
/// depend on their order: the databases sort text differently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableDigest {
    /// Number of rows.
    pub rows: u64,
    sum: [u64; 4],
}

impl TableDigest {
    /// Adds a row.
    pub(super) fn add(&mut self, row: &[Value]) {
        let mut hash = Sha256::new();
        row.iter().for_each(|value| value.hash(&mut hash));
        self.rows += 1;
        for (sum, part) in self.sum.iter_mut().zip(hash.finalize().chunks_exact(8)) {
            let part = part.try_into().map_or(0, u64::from_le_bytes);
            *sum = sum.wrapping_add(part);
        }
    }

    /// Returns the checksum in hexadecimal digits.
    #[must_use]
    pub fn checksum(&self) -> String {
        self.sum.iter().map(|part| format!("{part:016x}")).collect()
    }

    /// Returns the digest with these parts, if the checksum is valid.
    pub(super) fn parse(rows: i64, checksum: &str) -> Option<Self> {
        let mut sum = [0; 4];
        let parts = checksum.as_bytes().chunks(16);
        if checksum.len() != 64 {
            return None;
        }
        for (sum, part) in sum.iter_mut().zip(parts) {
            *sum = u64::from_str_radix(std::str::from_utf8(part).ok()?, 16).ok()?;
        }
        Some(Self {
            rows: rows.try_into().ok()?,
            sum,
        })
    }
}

impl fmt::Display for TableDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows with the checksum {}", self.rows, self.checksum())
    }
}
