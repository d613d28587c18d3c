//! Output of the commands for administration: tables, JSON documents, and results in one line.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

use super::context::CommandResult;

/// Number of rows that are read from the database at once.
pub(super) const BATCH: u64 = 500;
/// Maximum number of characters of a cell of a table. JSON contains the whole text.
const MAX_CELL: usize = 200;
/// Columns of a table are separated by this text.
const GAP: &str = "  ";

/// Format of the output.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct OutputOptions {
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// A row of a list.
pub(super) trait Row: Serialize {
    /// Headings of the columns of the table.
    const COLUMNS: &'static [&'static str];

    /// Returns the ID, which is the sort order of the list.
    fn id(&self) -> i64;

    /// Returns the cells of the table, one for each column. Texts of users belong into the last cell: their characters
    /// can be wider than one column of the terminal.
    fn cells(&self) -> Vec<String>;
}

/// Result of a command that changes data.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    /// Whether the command changed anything.
    changed: bool,
    /// Description of the result, as it is printed without `--json`.
    message: String,
    /// ID of the user, token, job, project or group; absent if the command has several or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    /// A generated password, which is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
}

impl Outcome {
    /// Returns the result of a command for one resource.
    pub(super) fn new(changed: bool, id: Option<i64>, message: impl Into<String>) -> Self {
        Self {
            changed,
            message: message.into(),
            id,
            password: None,
        }
    }

    /// Returns the result with a generated password.
    pub(super) fn with_password(mut self, password: Option<String>) -> Self {
        self.password = password;
        self
    }
}

impl OutputOptions {
    /// Prints the result of a change.
    pub(super) fn print_outcome(self, outcome: &Outcome) -> CommandResult {
        if self.json {
            write(&format!("{}\n", json_text(outcome)?));
            return Ok(ExitCode::SUCCESS);
        }
        write(&format!("{}\n", printable(&outcome.message)));
        if let Some(password) = &outcome.password {
            write(&format!("Password (shown once): {password}\n"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints one resource: a JSON object, or a line for each of its fields.
    pub(super) fn print_resource(self, resource: &impl Serialize) -> CommandResult {
        if self.json {
            write(&format!("{}\n", json_text(resource)?));
            return Ok(ExitCode::SUCCESS);
        }
        let fields = match serde_json::to_value(resource)? {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let mut table = Table::new(&["FIELD", "VALUE"]);
        let rows: Vec<Vec<String>> = fields
            .iter()
            .map(|(name, value)| vec![name.clone(), cell(&value_text(value))])
            .collect();
        rows.iter().for_each(|cells| table.measure(cells));
        let lines: String = rows.iter().map(|cells| table.line(cells)).collect();
        write(&format!("{}{lines}", table.headings()));
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a list. `next` returns the rows after an ID, at most [`BATCH`]; the list ends with an empty answer. Only
    /// one batch is in memory: for a table, the list is read once for the widths of the columns and once for the rows.
    pub(super) async fn print_list<R: Row>(
        self,
        next: impl AsyncFn(i64) -> Result<Vec<R>, Box<dyn Error>>,
    ) -> CommandResult {
        if self.json {
            return print_json_list(next).await;
        }
        let mut table = Table::new(R::COLUMNS);
        let mut after = 0;
        loop {
            let batch = next(after).await?;
            let Some(last) = batch.last() else { break };
            after = last.id();
            batch.iter().for_each(|row| table.measure(&cells(row)));
        }
        let mut is_open = write(&table.headings());
        after = 0;
        while is_open {
            let batch = next(after).await?;
            let Some(last) = batch.last() else { break };
            after = last.id();
            let lines: String = batch.iter().map(|row| table.line(&cells(row))).collect();
            is_open = write(&lines);
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn print_json_list<R: Row>(next: impl AsyncFn(i64) -> Result<Vec<R>, Box<dyn Error>>) -> CommandResult {
    let mut after = 0;
    let mut is_open = write("[");
    let mut separator = "\n";
    while is_open {
        let batch = next(after).await?;
        let Some(last) = batch.last() else { break };
        after = last.id();
        let mut text = String::new();
        for row in &batch {
            write!(text, "{separator}{}", json_text(row)?)?;
            separator = ",\n";
        }
        is_open = write(&text);
    }
    write("\n]\n");
    Ok(ExitCode::SUCCESS)
}

/// A table whose rows are measured before they are printed.
struct Table {
    columns: &'static [&'static str],
    widths: Vec<usize>,
}

impl Table {
    fn new(columns: &'static [&'static str]) -> Self {
        Self {
            columns,
            widths: columns.iter().map(|name| name.chars().count()).collect(),
        }
    }

    fn measure(&mut self, cells: &[String]) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }

    fn headings(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|name| (*name).to_owned()).collect();
        self.line(&names)
    }

    fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(&self.widths) {
            let padding = width.saturating_sub(cell.chars().count());
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', padding));
            line.push_str(GAP);
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

fn cells(row: &impl Row) -> Vec<String> {
    row.cells().iter().map(|text| cell(text)).collect()
}

/// Returns a text as a cell: without control characters, of limited length, and never empty.
fn cell(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    let mut shortened: String = text.chars().take(MAX_CELL).collect();
    if shortened.len() < text.len() {
        shortened.push('…');
    }
    printable(&shortened)
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(value_text).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => {
            let fields = fields.iter();
            let texts = fields.map(|(name, value)| format!("{name} {}", value_text(value)));
            texts.collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns whether a character can change how a terminal displays other text: control characters, and invisible
/// characters that change the direction of text.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

/// Returns a text with escapes in place of characters that can change how a terminal displays other text.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unsafe(character) {
            true if character.is_ascii() => shown.extend(character.escape_default()),
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

/// Returns a JSON document in one line. Unsafe characters occur only in its strings, where JSON has escapes for them.
fn json_text(value: &impl Serialize) -> Result<String, Box<dyn Error>> {
    let text = serde_json::to_string(value)?;
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unsafe(character) {
            true => write!(shown, "\\u{:04x}", u32::from(character))?,
            false => shown.push(character),
        }
    }
    Ok(shown)
}

/// Returns a point in time with seconds, as in RFC 3339.
pub(super) fn time_text(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes to standard output. Returns `false` if its reader closed it, which is not an error.
fn write(text: &str) -> bool {
    std::io::stdout().write_all(text.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_aligns_columns_without_trailing_spaces() {
        let mut table = Table::new(&["ID", "STATE", "NAME"]);
        let rows = [["7", "active", "Ann"], ["1234", "blocked", ""]].map(|cells| cells.map(cell).to_vec());
        rows.iter().for_each(|cells| table.measure(cells));
        let lines: Vec<String> = rows.iter().map(|cells| table.line(cells)).collect();
        assert_eq!(
            format!("{}{}", table.headings(), lines.concat()),
            "ID    STATE    NAME\n7     active   Ann\n1234  blocked  -\n"
        );
    }

    #[test]
    fn cells_contain_no_characters_that_control_a_terminal() {
        for (text, expected) in [
            ("a\nb\tc\r", "a\\nb\\tc\\r"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("user\u{202e}nimda", "user\\u{202e}nimda"),
            ("\u{200b}\u{feff}\u{2066}", "\\u{200b}\\u{feff}\\u{2066}"),
            ("Zoë 東京", "Zoë 東京"),
        ] {
            assert_eq!(cell(text), expected);
        }
        let long = cell(&"x".repeat(MAX_CELL + 1));
        assert_eq!(long.chars().count(), MAX_CELL + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn json_escapes_characters_that_control_a_terminal() {
        let text = "\u{1b}[2J\u{9b}\u{202e}\n\"é";
        let shown = json_text(&text).expect("JSON");
        assert!(!shown.chars().any(is_unsafe), "{shown}");
        let read: String = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(read, text);
    }
}
