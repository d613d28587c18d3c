//! Table of figures and missed targets.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use crate::Result;

/// Target of a figure.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// At least this ratio.
    AtLeast(f64),
    /// At most this ratio.
    AtMost(f64),
    /// No target.
    None,
}

impl Target {
    fn is_met(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
            Self::None => true,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::AtLeast(least) => format!(">= {least}"),
            Self::AtMost(most) => format!("<= {most}"),
            Self::None => "-".to_owned(),
        };
        f.pad(&text)
    }
}

/// A measurement: the server's figure and the reference.
pub struct Measurement {
    /// Name of the measurement.
    pub measure: String,
    /// Number of concurrent connections, or another number as named in the heading of the part.
    pub connections: usize,
    /// The server's figure with its unit.
    pub server: String,
    /// The reference with its unit.
    pub reference: String,
    /// The ratio of the two, or the figure itself without a reference.
    pub figure: f64,
    /// The target.
    pub target: Target,
}

impl Measurement {
    /// Returns a row with two durations; smaller is better.
    pub fn times(measure: &str, server: &mut [Duration], reference: &mut [Duration], most: f64) -> Self {
        let (server, reference) = (median(server), median(reference));
        Self {
            measure: measure.to_owned(),
            connections: 1,
            server: milliseconds(server),
            reference: milliseconds(reference),
            figure: server.as_secs_f64() / reference.as_secs_f64().max(f64::EPSILON),
            target: Target::AtMost(most),
        }
    }

    /// Returns a row without a reference.
    pub fn without_reference(measure: &str, shown: String, figure: f64, most: f64) -> Self {
        Self {
            measure: measure.to_owned(),
            connections: 0,
            server: shown,
            reference: String::new(),
            figure,
            target: Target::AtMost(most),
        }
    }
}

/// Returns a time with its unit.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

/// Returns the median; zero without values.
pub fn median<T: PartialOrd + Copy + Default>(values: &mut [T]) -> T {
    values.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The current table; every row is printed when it is added.
#[derive(Default)]
pub struct Report {
    missed: usize,
    rows: usize,
}

impl Report {
    /// Starts a part of the table.
    pub fn part(&self, title: &str, server: &str, reference: &str) -> Result<()> {
        self.part_with(title, "conn.", server, reference)
    }

    /// As above, with another number than connections.
    pub fn part_with(&self, title: &str, number: &str, server: &str, reference: &str) -> Result<()> {
        line(&format!(
            "\n{title}\n{:<55} {number:>5} {server:>14} {reference:>14} {:>8} {:>8}",
            "", "ratio", "target"
        ))
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Measurement) -> Result<()> {
        let met = row.target.is_met(row.figure);
        self.rows += 1;
        self.missed += usize::from(!met);
        let verdict = match (row.target, met) {
            (Target::None, _) => "",
            (_, true) => "ok",
            (_, false) => "MISSED",
        };
        let connections = match row.connections {
            0 => String::new(),
            number => number.to_string(),
        };
        let figure = if row.reference.is_empty() {
            String::new()
        } else {
            format!("{:.3}", row.figure)
        };
        line(&format!(
            "{:<55} {connections:>5} {:>14} {:>14} {figure:>8} {:>8} {verdict}",
            row.measure, row.server, row.reference, row.target
        ))
    }

    /// Prints how many rows missed their targets.
    pub fn end(&self) -> Result<()> {
        line(&format!(
            "\n{} of {} figures miss their targets.",
            self.missed, self.rows
        ))
    }
}

/// Writes a line to standard output.
pub fn line(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}
