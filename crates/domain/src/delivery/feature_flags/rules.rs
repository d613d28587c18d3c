//! Validation of feature flags and strategies.

use std::collections::BTreeMap;

use storage::entities::feature_flag_strategies::StrategyKind;

use crate::delivery::feature_flag_user_lists::{INVALID_USER_LIST, is_user_list};
use crate::kernel::error::{Error, Result};

/// Maximum flags of a project.
pub const MAX_FLAGS: u64 = 200;
/// Maximum strategies of a flag.
pub const MAX_STRATEGIES: usize = 50;
/// Maximum scopes of a strategy.
pub const MAX_SCOPES: usize = 50;

/// Parameters of a strategy.
pub type StrategyParameters = BTreeMap<String, String>;

/// Rejects an invalid name of a flag.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the name is invalid.
pub fn check_name(name: &str) -> Result<()> {
    let fault = |text: &'static str| Err(Error::attribute("name", text));
    if name.trim().is_empty() {
        return fault("can't be blank");
    }
    if name.len() < 2 {
        return fault("is too short (minimum is 2 characters)");
    }
    if name.chars().count() > 63 {
        return fault("is too long (maximum is 63 characters)");
    }
    let sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let begins = name.starts_with(|char: char| char.is_ascii_lowercase());
    if !begins || name.ends_with(['-', '_']) || !name.bytes().all(sound) {
        return fault(
            "can contain only lowercase letters, digits, '_' and '-'. Must start with a letter, and cannot end with '-' or '_'",
        );
    }
    Ok(())
}

/// Returns the violation in the parameters or user list of a strategy, as attribute and text.
pub fn parameter_fault(
    kind: StrategyKind,
    parameters: &StrategyParameters,
    has_list: bool,
) -> Option<(&'static str, &'static str)> {
    if kind.has_list() != has_list {
        let text = if has_list {
            "must be blank"
        } else {
            "can't be blank"
        };
        return Some(("user_list_id", text));
    }
    let names: &[&str] = match kind {
        StrategyKind::Default | StrategyKind::UserList | StrategyKind::CompatibleUserList => &[],
        StrategyKind::GradualRollout => &["groupId", "percentage"],
        StrategyKind::Users => &["userIds"],
        StrategyKind::FlexibleRollout => &["groupId", "rollout", "stickiness"],
    };
    if !parameters.keys().eq(names.iter()) {
        return Some(("parameters", "parameters are invalid"));
    }
    let text = parameters.iter().find_map(|(name, value)| {
        let (holds, text) = match name.as_str() {
            "groupId" => (is_group(value), "groupId parameter is invalid"),
            "percentage" => (
                is_percentage(value),
                "percentage must be a string between 0 and 100 inclusive",
            ),
            "rollout" => (
                is_percentage(value),
                "rollout must be a string between 0 and 100 inclusive",
            ),
            "stickiness" => (
                ["default", "userId", "sessionId", "random"].contains(&value.as_str()),
                "stickiness parameter must be default, userId, sessionId, or random",
            ),
            _ => (is_user_list(value), INVALID_USER_LIST),
        };
        (!holds).then_some(text)
    });
    text.map(|text| ("parameters", text))
}

fn is_group(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Returns whether a text is a whole number from 0 to 100 without a sign or leading zeros.
fn is_percentage(text: &str) -> bool {
    let number: Option<u8> = text.parse().ok();
    number.is_some_and(|number| number <= 100 && number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&str, &str)]) -> StrategyParameters {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    #[test]
    fn flag_name_allows_letters_digits_hyphens_and_underscores() {
        let long = "a".repeat(63);
        for good in ["ab", "a1", "a-b_c", &long] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in [
            "", " ", "a", "1a", "-a", "a-", "a_", "Ab", "a b", "a\n", "ää", "a/b", &longer,
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn each_strategy_validates_its_parameters() {
        let rollout = |percentage, group| parameters(&[("groupId", group), ("percentage", percentage)]);
        let flexible =
            |stickiness| parameters(&[("groupId", "a"), ("rollout", "5"), ("stickiness", stickiness)]);
        let none = StrategyParameters::new();
        for (kind, good, list) in [
            (StrategyKind::Default, none.clone(), false),
            (StrategyKind::UserList, none.clone(), true),
            (StrategyKind::CompatibleUserList, none.clone(), true),
            (StrategyKind::GradualRollout, rollout("0", "default"), false),
            (StrategyKind::GradualRollout, rollout("100", "a"), false),
            (StrategyKind::Users, parameters(&[("userIds", "a,b")]), false),
            (StrategyKind::Users, parameters(&[("userIds", "")]), false),
            (StrategyKind::FlexibleRollout, flexible("random"), false),
        ] {
            assert_eq!(parameter_fault(kind, &good, list), None, "{kind:?} {good:?}");
            let other = if list { "can't be blank" } else { "must be blank" };
            assert_eq!(parameter_fault(kind, &good, !list), Some(("user_list_id", other)));
            let mut more = good.clone();
            more.insert("more".to_owned(), "x".to_owned());
            assert_eq!(
                parameter_fault(kind, &more, list),
                Some(("parameters", "parameters are invalid"))
            );
        }
        for (kind, bad) in [
            (StrategyKind::GradualRollout, none),
            (StrategyKind::GradualRollout, parameters(&[("groupId", "a")])),
            (StrategyKind::GradualRollout, rollout("101", "a")),
            (StrategyKind::GradualRollout, rollout("-1", "a")),
            (StrategyKind::GradualRollout, rollout("05", "a")),
            (StrategyKind::GradualRollout, rollout("+5", "a")),
            (StrategyKind::GradualRollout, rollout("5.5", "a")),
            (StrategyKind::GradualRollout, rollout("", "a")),
            (StrategyKind::GradualRollout, rollout("5", "")),
            (StrategyKind::GradualRollout, rollout("5", "A")),
            (StrategyKind::GradualRollout, rollout("5", &"a".repeat(33))),
            (StrategyKind::Users, parameters(&[("userIds", "a,,b")])),
            (StrategyKind::FlexibleRollout, flexible("")),
            (StrategyKind::FlexibleRollout, flexible("Random")),
        ] {
            let found = parameter_fault(kind, &bad, false);
            assert_eq!(
                found.map(|(name, _)| name),
                Some("parameters"),
                "{kind:?} {bad:?}"
            );
        }
    }
}
