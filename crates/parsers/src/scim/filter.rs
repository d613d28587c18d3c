//! Filters of user lists: one comparison in the grammar of RFC 7644, section 3.4.2.2.

use scim_v2::filter::{AttrExp, AttrPath, CompValue, CompareOp, Filter};

use super::error::{ScimError, ScimErrorType};
use super::schema::USER_SCHEMA;

/// The requested user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserSelector {
    /// The user with this ID at the provider.
    Uid(String),
    /// The user with this user name or address.
    Name(String),
}

/// Parses a filter. Unsupported filters are refused: ignoring one would return all users instead of one.
///
/// # Errors
/// Returns a [`ScimError`] for an invalid filter, and for any other than `eq` on one of three attributes.
pub fn parse_filter(text: &str) -> Result<UserSelector, ScimError> {
    let Ok(Filter::Attr(AttrExp::Comparison(path, CompareOp::Eq, CompValue::Str(value)))) =
        text.trim().parse()
    else {
        return Err(unsupported());
    };
    // PostgreSQL does not accept this character, so no name contains it.
    if value.contains('\0') {
        return Err(unsupported());
    }
    match attribute(&path).as_deref() {
        Some("id" | "externalid") => Ok(UserSelector::Uid(value)),
        Some("username") => Ok(UserSelector::Name(value)),
        _ => Err(unsupported()),
    }
}

fn unsupported() -> ScimError {
    let text = "Unsupported Filter: compare `id`, `externalId` or `userName` with a quoted string by `eq`";
    ScimError::new(ScimErrorType::Filter, text)
}

/// Returns a user attribute in lowercase, or `None` for one of another schema. Names are compared without
/// case.
pub(super) fn attribute(path: &AttrPath) -> Option<String> {
    let of_users = path
        .uri
        .as_ref()
        .is_none_or(|uri| uri.eq_ignore_ascii_case(USER_SCHEMA));
    let name = match &path.sub_attr {
        Some(part) => format!("{}.{part}", path.name),
        None => path.name.clone(),
    };
    of_users.then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    #[test]
    fn filter_accepts_supported_attributes_in_any_case() {
        for text in [
            r#"id eq "a""#,
            r#"externalId eq "a""#,
            r#"EXTERNALID EQ "a""#,
            r#"  id   Eq   "a"  "#,
            r#"urn:ietf:params:scim:schemas:core:2.0:User:id eq "a""#,
            r#"(id eq "a")"#,
        ] {
            assert_eq!(
                parse_filter(text).ok(),
                Some(UserSelector::Uid("a".to_owned())),
                "{text}"
            );
        }
        let name = UserSelector::Name("ada@example.com".to_owned());
        assert_eq!(parse_filter(r#"username eq "ada@example.com""#).ok(), Some(name));
    }

    #[test]
    fn filter_values_are_json_strings() {
        for (text, value) in [
            (r#"id eq "a \"b\" \\ c""#, r#"a "b" \ c"#),
            (r#"id eq "\u00e4\n""#, "ä\n"),
            (r#"id eq """#, ""),
            (r#"id eq "id eq \"x\" or id pr""#, r#"id eq "x" or id pr"#),
            (r#"id eq "%_*'; DROP TABLE users""#, "%_*'; DROP TABLE users"),
        ] {
            assert_eq!(
                parse_filter(text).ok(),
                Some(UserSelector::Uid(value.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn unsupported_filter_is_rejected() {
        let nested = format!("{}id eq \"a\"{}", "(".repeat(1_000), ")".repeat(1_000));
        let long = vec![r#"id eq "a""#; 2_000].join(" or ");
        for text in [
            "",
            "id",
            "id eq",
            "id eq a",
            "id eq 1",
            "id eq true",
            "id eq null",
            "id eq 'a'",
            r#"id eq "a"#,
            r#"id eq "\u0000""#,
            r#"id ne "a""#,
            r#"id co "a""#,
            r#"id sw "a""#,
            "id pr",
            r#"id eq "a" and userName eq "b""#,
            r#"id eq "a" or id eq "b""#,
            r#"not (id eq "a")"#,
            r#"id.x eq "a""#,
            r#"name.formatted eq "a""#,
            r#"emails[type eq "work"]"#,
            r#"urn:other:id eq "a""#,
            r#"id eq "a" "b""#,
            &nested,
            &long,
        ] {
            let error = parse_filter(text).expect_err(text);
            assert!(error.to_string().starts_with("Unsupported Filter"), "{text}");
        }
    }

    #[test]
    fn random_filter_is_parsed_or_rejected() {
        let words = [
            "id", "userName", " ", "eq", "EQ", "\"", "\\", "(", ")", "[", "]", "and", "not", ".", ":", "ä",
            "\0", "1", "\"a\"", "{", "null",
        ];
        let mut random = rand::rng();
        for _ in 0..5_000 {
            let length = random.random_range(0..12);
            let text: String = std::iter::repeat_with(|| words[random.random_range(0..words.len())])
                .take(length)
                .collect();
            match parse_filter(&text) {
                Ok(_) => assert!(text.to_ascii_lowercase().contains("eq"), "{text}"),
                Err(error) => assert!(error.to_string().starts_with("Unsupported"), "{text}"),
            }
        }
    }

    #[test]
    fn random_filter_values_round_trip() {
        let mut random = rand::rng();
        for _ in 0..2_000 {
            let length = random.random_range(0..20);
            let value: String = std::iter::repeat_with(|| random.random_range('\u{1}'..'\u{3000}'))
                .take(length)
                .collect();
            let text = format!("externalId eq {}", serde_json::json!(value));
            assert_eq!(parse_filter(&text).ok(), Some(UserSelector::Uid(value)), "{text}");
        }
    }
}
