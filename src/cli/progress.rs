//! Progress of long commands on standard error: a bar on a terminal, or else lines.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use domain::operations::backups::BackupEvent;
use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two changes of the spinner.
const TICK: Duration = Duration::from_millis(100);
/// Bar of a task whose extent is known.
const BAR: &str = "{msg} [{bar:30}] {percent}% ({eta})";
/// Line of a task whose extent is not known.
const SPINNER: &str = "{spinner} {msg}";

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskState<'a> {
    /// The state as a text, without a percentage.
    pub text: &'a str,
    /// The completed part, and the whole if it is known.
    pub done: u64,
    /// The whole, if it is known.
    pub total: Option<u64>,
}

impl TaskState<'_> {
    /// Returns the state as a line of a log.
    fn line(&self) -> String {
        match self.total {
            Some(total) => {
                let percent = self.done.saturating_mul(100) / total.max(1);
                format!("{} ({}%)", self.text, percent.min(100))
            }
            None => self.text.to_owned(),
        }
    }
}

/// Shows the progress of a command.
pub(super) struct Progress {
    /// None if the output is not a terminal.
    bar: Option<ProgressBar>,
    printed_at: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::no_length);
        // A step without a known extent can take minutes.
        if let Some(bar) = &bar {
            bar.enable_steady_tick(TICK);
        }
        Self {
            bar,
            printed_at: Instant::now(),
        }
    }

    /// Shows a state: on a terminal in the bar, or else in a line if the last one is old enough or the state is important.
    pub(super) fn show(&mut self, state: TaskState<'_>, is_important: bool) {
        let Some(bar) = &self.bar else {
            if is_important || self.printed_at.elapsed() >= LOG_INTERVAL {
                self.printed_at = Instant::now();
                write_line(&state.line());
            }
            return;
        };
        let template = match state.total {
            Some(total) => {
                bar.set_length(total);
                BAR
            }
            None => {
                bar.unset_length();
                SPINNER
            }
        };
        // Both templates are valid.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(state.text.to_owned());
        bar.set_position(state.done);
    }

    /// Prints a line that remains, above the bar.
    pub(super) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| write_line(text)),
            None => write_line(text),
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Writes to standard error. A closed output does not stop the command.
fn write_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Progress of a command for backups.
pub(super) struct BackupProgress {
    /// The past participle of the command, such as "Copied".
    verb: &'static str,
    progress: Progress,
}

impl BackupProgress {
    pub(super) fn new(verb: &'static str) -> Self {
        let progress = Progress::new();
        Self { verb, progress }
    }

    /// Shows an event.
    pub(super) fn report(&mut self, event: BackupEvent) {
        let (text, done, total) = state(self.verb, event);
        let text = &text;
        self.progress.show(TaskState { text, done, total }, false);
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.progress.finish();
    }
}

/// Returns the text of an event, the completed part, and the whole if it is known.
fn state(verb: &str, event: BackupEvent) -> (String, u64, Option<u64>) {
    match event {
        BackupEvent::Repositories { done, total } => (
            format!("{verb} {done} of {total} repositories"),
            done,
            Some(total),
        ),
        BackupEvent::Objects { done, total } => {
            (format!("{verb} {done} of {total} objects"), done, Some(total))
        }
        BackupEvent::Database => ("The database is next".to_owned(), 0, None),
        BackupEvent::Files { done } => (format!("{verb} {done} files"), done, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_name_the_command_and_the_numbers() {
        let event = BackupEvent::Repositories { done: 1, total: 2 };
        let expected = ("Copied 1 of 2 repositories".to_owned(), 1, Some(2));
        assert_eq!(state("Copied", event), expected);
        let expected = ("Copied 3 files".to_owned(), 3, None);
        assert_eq!(state("Copied", BackupEvent::Files { done: 3 }), expected);
    }

    #[test]
    fn lines_of_a_log_contain_the_percentage() {
        let text = "Copied issues: 3 rows";
        let state = |done, total| TaskState { text, done, total };
        assert_eq!(state(1, Some(3)).line(), "Copied issues: 3 rows (33%)");
        assert_eq!(state(0, Some(0)).line(), "Copied issues: 3 rows (0%)");
        assert_eq!(state(1, None).line(), text);
    }

    #[test]
    fn templates_are_valid() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
