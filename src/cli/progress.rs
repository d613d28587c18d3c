//! Progress of long commands on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use domain::operations::backups::BackupEvent;

/// Time between two lines on a terminal, where each line replaces the former one.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
/// Time between two lines of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Prints the progress of a command, at most once in an interval.
pub(super) struct Progress {
    /// The past participle of the command, such as "Copied".
    verb: &'static str,
    is_terminal: bool,
    printed_at: Instant,
    has_line: bool,
}

impl Progress {
    pub(super) fn new(verb: &'static str) -> Self {
        Self {
            verb,
            is_terminal: std::io::stderr().is_terminal(),
            printed_at: Instant::now(),
            has_line: false,
        }
    }

    /// Prints an event if the last line is old enough.
    pub(super) fn report(&mut self, event: BackupEvent) {
        let interval = match self.is_terminal {
            true => TERMINAL_INTERVAL,
            false => LOG_INTERVAL,
        };
        if self.printed_at.elapsed() < interval {
            return;
        }
        self.printed_at = Instant::now();
        let text = self.line(event);
        let mut output = std::io::stderr();
        // A closed output does not stop the command.
        let _ = match self.is_terminal {
            true => write!(output, "\r\x1b[K{text}"),
            false => writeln!(output, "{text}"),
        };
        self.has_line = self.is_terminal;
    }

    /// Removes the line from a terminal.
    pub(super) fn finish(&mut self) {
        if self.has_line {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    fn line(&self, event: BackupEvent) -> String {
        let verb = self.verb;
        match event {
            BackupEvent::Repositories { done, total } => format!("{verb} {done} of {total} repositories"),
            BackupEvent::Objects { done, total } => format!("{verb} {done} of {total} objects"),
            BackupEvent::Database => "The database is next".to_owned(),
            BackupEvent::Files { done } => format!("{verb} {done} files"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_command_and_the_numbers() {
        let progress = Progress::new("Copied");
        let event = BackupEvent::Repositories { done: 1, total: 2 };
        assert_eq!(progress.line(event), "Copied 1 of 2 repositories");
        assert_eq!(progress.line(BackupEvent::Files { done: 3 }), "Copied 3 files");
    }
}
