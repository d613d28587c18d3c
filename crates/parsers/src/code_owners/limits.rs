//! Limits of files with code owners.

/// Maximum size of a file in bytes.
pub const MAX_BYTES: usize = 512 << 10;
/// Maximum number of lines.
pub const MAX_LINES: usize = 10_000;
/// Maximum length of a pattern or of the name of a section, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;
/// Maximum number of owners of a line, and default owners of a section.
pub const MAX_OWNERS: usize = 100;
/// Maximum number of approvals that a section can require.
pub const MAX_APPROVALS: u8 = 100;
/// Maximum number of comparisons of characters to match the paths of a change.
pub const MAX_COMPARISONS: u64 = 50_000_000;

/// Error of a file or change that exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodeOwnersError {
    /// The file has more than [`MAX_BYTES`].
    #[error("the file is larger than 512 KiB")]
    TooLarge,
    /// The file has more than [`MAX_LINES`].
    #[error("the file has more than 10,000 lines")]
    TooManyLines,
    /// A pattern or the name of a section has more than [`MAX_PATTERN_BYTES`].
    #[error("a pattern or section name is longer than 1,024 bytes")]
    PatternTooLong,
    /// A line has more than [`MAX_OWNERS`].
    #[error("a line has more than 100 owners")]
    TooManyOwners,
    /// The paths need more than [`MAX_COMPARISONS`].
    #[error("the change has too many paths for the patterns of the file")]
    TooManyComparisons,
}
