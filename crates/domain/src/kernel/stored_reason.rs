//! Texts of errors that are stored in rows and shown to clients later.

use crate::kernel::error::Error;

/// Returns the reason why a background operation was refused, as clients know it from responses. Stored rows contain
/// these texts, and clients compare them.
#[must_use]
pub(crate) fn stored_reason(error: &Error) -> String {
    match error {
        Error::Unauthorized => "401 Unauthorized".to_owned(),
        Error::Forbidden(_) => "403 Forbidden".to_owned(),
        Error::NotFound(kind) => format!("404 {kind} Not Found"),
        Error::NotFoundOrExpired => "404 Not found or has expired".to_owned(),
        Error::ResourceLocked => "409 Conflict: Resource lock".to_owned(),
        Error::PreconditionFailed => "412 Precondition Failed".to_owned(),
        Error::TooLarge => "413 Request Entity Too Large".to_owned(),
        Error::NotModified => "304 Not Modified".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_reasons_are_messages_of_responses_and_others_are_unchanged() {
        assert_eq!(stored_reason(&Error::Unauthorized), "401 Unauthorized");
        assert_eq!(stored_reason(&Error::forbidden_because("why")), "403 Forbidden");
        assert_eq!(stored_reason(&Error::not_found("Group")), "404 Group Not Found");
        assert_eq!(stored_reason(&Error::Rejected("refused".into())), "refused");
    }
}
