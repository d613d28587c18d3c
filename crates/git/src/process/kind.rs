//! Kinds of programs in metrics and traces.

use std::time::Duration;

use tokio::time::Instant;
use tracing::Span;

use crate::metric_names::{GIT_PROGRAMS, GIT_SECONDS};

/// Purpose of a program, a label of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// Sends the list of references to a client.
    Advertisement,
    /// Sends objects to a client or another repository.
    Fetch,
    /// Receives a push.
    Push,
    /// Writes an archive of a tree.
    Archive,
    /// Merges two commits.
    Merge,
    /// Repacks or checks a repository.
    Maintenance,
    /// Copies objects from another repository.
    Import,
    /// Reads objects or history.
    Read,
}

impl ProgramKind {
    /// Returns the usual purpose of a program.
    pub(super) fn of_program(name: &str) -> Self {
        match name {
            "upload-pack" | "pack-objects" => Self::Fetch,
            "receive-pack" => Self::Push,
            "archive" => Self::Archive,
            "merge-tree" => Self::Merge,
            "repack" | "pack-refs" | "commit-graph" | "fsck" => Self::Maintenance,
            "fetch" => Self::Import,
            _ => Self::Read,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Advertisement => "advertisement",
            Self::Fetch => "fetch",
            Self::Push => "push",
            Self::Archive => "archive",
            Self::Merge => "merge",
            Self::Maintenance => "maintenance",
            Self::Import => "import",
            Self::Read => "read",
        }
    }
}

/// Result of a program in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProgramResult {
    /// It ended with an accepted exit code.
    Success,
    /// It failed, or exceeded a limit.
    Failure,
    /// The server ended it, because a client left or the rest of the output is not needed.
    Stopped,
}

impl ProgramResult {
    fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Stopped => "stopped",
        }
    }
}

/// The run of one program for metrics and traces. Dropping it records the run.
pub(super) struct ProgramRun {
    kind: ProgramKind,
    started: Instant,
    span: Span,
    /// The result if the run is dropped now.
    pub(super) result: ProgramResult,
}

impl ProgramRun {
    /// Starts to measure a run within the current span.
    pub(super) fn start(kind: ProgramKind, program: &'static str) -> Self {
        let span = tracing::info_span!(
            target: "holdfast::trace",
            "git",
            otel.name = program,
            git.kind = kind.name(),
            git.result = tracing::field::Empty,
            git.exit_code = tracing::field::Empty,
        );
        Self {
            kind,
            started: Instant::now(),
            span,
            result: ProgramResult::Stopped,
        }
    }

    /// Records the exit code in the trace; `None` after a signal.
    pub(super) fn exit(&self, code: Option<i32>) {
        if let Some(code) = code {
            self.span.record("git.exit_code", code);
        }
    }
}

impl Drop for ProgramRun {
    fn drop(&mut self) {
        let (kind, result) = (self.kind.name(), self.result.name());
        self.span.record("git.result", result);
        let elapsed: Duration = self.started.elapsed();
        metrics::histogram!(GIT_SECONDS, "kind" => kind).record(elapsed.as_secs_f64());
        metrics::counter!(GIT_PROGRAMS, "kind" => kind, "result" => result).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_kind() {
        for (program, kind) in [
            ("upload-pack", "fetch"),
            ("pack-objects", "fetch"),
            ("receive-pack", "push"),
            ("archive", "archive"),
            ("merge-tree", "merge"),
            ("fsck", "maintenance"),
            ("fetch", "import"),
            ("blame", "read"),
        ] {
            assert_eq!(ProgramKind::of_program(program).name(), kind, "{program}");
        }
    }
}
