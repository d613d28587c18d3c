//! Changes of the state of issues, epics and merge requests.

/// A change of the state of an issue, epic or merge request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateEvent {
    /// Closes it.
    Close,
    /// Reopens it.
    Reopen,
}
