//! Names of emoji.

/// Name of the upvote.
pub(super) const THUMBS_UP: &str = "thumbsup";
/// Name of the downvote.
pub(super) const THUMBS_DOWN: &str = "thumbsdown";

/// Returns the name under which an emoji is stored, or `None` if the name is unknown.
pub(super) fn stored_name(name: &str) -> Option<&str> {
    match name {
        "+1" => Some(THUMBS_UP),
        "-1" => Some(THUMBS_DOWN),
        name => emojis::get_by_shortcode(name).map(|_| name),
    }
}

/// Returns the stored name of the emoji in a text that is only an emoji name in colons, with optional trailing
/// whitespace.
pub(crate) fn sole_emoji(text: &str) -> Option<&str> {
    let name = text.trim_end().strip_prefix(':')?.strip_suffix(':')?;
    stored_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vote_aliases_map_to_one_emoji_name() {
        assert_eq!(
            (stored_name("+1"), stored_name("-1")),
            (Some("thumbsup"), Some("thumbsdown"))
        );
        assert_eq!(
            (stored_name("thumbsup"), stored_name("tada")),
            (Some("thumbsup"), Some("tada"))
        );
        assert_eq!(
            (stored_name("no emoji"), stored_name(""), stored_name(":tada:")),
            (None, None, None)
        );
    }

    #[test]
    fn only_single_name_in_colons_is_sole_emoji() {
        assert_eq!(
            (sole_emoji(":tada:"), sole_emoji(":+1: \r\n")),
            (Some("tada"), Some("thumbsup"))
        );
        for text in [
            "",
            ":",
            "::",
            "tada",
            " :tada:",
            ":tada: :tada:",
            ":tada:!",
            ":unheard of:",
        ] {
            assert_eq!(sole_emoji(text), None, "{text}");
        }
    }
}
