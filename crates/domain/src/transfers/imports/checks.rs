//! Validation of archive records by the rules of the contract and the services for manual creation.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Scope};

use crate::kernel::error::{Error, Result};
use crate::kernel::record_validator::RecordValidator;
use crate::planning::labels::NewLabel;
use crate::planning::milestones::NewMilestone;
use crate::planning::{boards, epics, labels, milestones};
use crate::spaces::badges;
use crate::transfers::imports::archive::fault;
use crate::transfers::levels::{PROJECT_CREATION, SUBGROUP_CREATION, value_of, visibility_of};
use parsers::group_archive::layout::Relation;
use parsers::group_archive::records::{
    BadgeRecord, BoardRecord, EpicRecord, GroupRecord, LabelName, LabelRecord, MemberRecord, MilestoneRecord,
};

/// Scope of the rows that are built only for validation.
const VALIDATION_SCOPE: Scope = Scope::Group(0);
/// Maximum IID in an archive, which leaves IIDs for later items.
const MAX_IID: i64 = i32::MAX as i64;

/// Rejects an unknown version of the layout.
pub fn check_version(text: &str) -> Result<()> {
    let mut parts = text.trim().split('.');
    let known = (parts.next(), parts.next()) == (Some("0"), Some("2"));
    match known && parts.all(|part| part.parse::<u16>().is_ok()) {
        true => Ok(()),
        false => Err(fault(format!(
            "The archive has the unsupported version {:?}: expected 0.2",
            text.trim()
        ))),
    }
}

/// Rejects records beyond the limit of a relation in one group.
pub fn check_count(relation: Relation, count: u64) -> Result<()> {
    let most = match relation {
        Relation::Badges => badges::MAX_BADGES,
        Relation::Boards => boards::MAX_BOARDS,
        _ => return Ok(()),
    };
    match count > most {
        true => Err(fault(format!("too many records (maximum is {most})"))),
        false => Ok(()),
    }
}

/// Rejects invalid attributes of a group.
pub fn check_group(validator: &dyn RecordValidator, group: &GroupRecord) -> Result<()> {
    check_attributes(
        validator,
        "create_group",
        json!({
            "name": group.name, "path": group.path, "description": group.description,
            "two_factor_grace_period": group.two_factor_grace_period,
            "default_branch_protection": group.default_branch_protection, "default_branch": group.default_branch,
        }),
    )?;
    check_one_of("visibility_level", group.visibility_level, |level| {
        visibility_of(level).is_some()
    })?;
    check_one_of("project_creation_level", group.project_creation_level, |level| {
        value_of(&PROJECT_CREATION, level).is_some()
    })?;
    check_one_of(
        "subgroup_creation_level",
        group.subgroup_creation_level,
        |level| value_of(&SUBGROUP_CREATION, level).is_some(),
    )
}

/// Rejects an invalid milestone.
pub fn check_milestone(validator: &dyn RecordValidator, record: &MilestoneRecord) -> Result<()> {
    check_attributes(
        validator,
        "create_group_milestone",
        json!({
            "title": record.title, "description": record.description, "start_date": record.start_date,
            "due_date": record.due_date,
        }),
    )?;
    check_iid(record.iid)?;
    let new = NewMilestone {
        title: record.title.clone(),
        description: None,
        start_date: record.start_date,
        due_date: record.due_date,
    };
    milestones::valid_row(new).map(drop)
}

/// Rejects an invalid label.
pub fn check_label(validator: &dyn RecordValidator, record: &LabelRecord) -> Result<()> {
    let (name, color) = (&record.title, &record.color);
    check_attributes(
        validator,
        "create_group_label",
        json!({ "name": name, "color": color, "description": record.description }),
    )?;
    let new = NewLabel {
        title: name.clone(),
        color: color.clone(),
        description: None,
        priority: None,
    };
    labels::valid_row(VALIDATION_SCOPE, new).map(drop)
}

fn check_label_names(validator: &dyn RecordValidator, names: &[LabelName], most: usize) -> Result<()> {
    if names.len() > most {
        return Err(fault(format!("too many labels (maximum is {most})")));
    }
    names
        .iter()
        .try_for_each(|name| check_label_name(validator, name))
}

fn check_label_name(validator: &dyn RecordValidator, name: &LabelName) -> Result<()> {
    let record = LabelRecord {
        title: name.title.clone(),
        color: name
            .color
            .clone()
            .unwrap_or_else(|| labels::DEFAULT_COLOR.to_owned()),
        description: None,
        r#type: None,
    };
    check_label(validator, &record)
}

/// Rejects an invalid badge.
pub fn check_badge(validator: &dyn RecordValidator, record: &BadgeRecord) -> Result<()> {
    let (link, image) = (&record.link_url, &record.image_url);
    check_attributes(
        validator,
        "create_group_badge",
        json!({ "name": record.name, "link_url": link, "image_url": image }),
    )?;
    badges::valid_row(VALIDATION_SCOPE, None, link.clone(), image.clone()).map(drop)
}

/// Rejects an invalid member.
pub fn check_member(validator: &dyn RecordValidator, record: &MemberRecord) -> Result<()> {
    if AccessLevel::from_number(record.access_level).is_none() {
        return Err(Error::attribute("access_level", "is not included in the list"));
    }
    let level = record.access_level;
    check_attributes(
        validator,
        "add_group_member",
        json!({ "user_id": record.user.as_ref().map_or(1, |user| user.id), "access_level": level, "expires_at": record.expires_at }),
    )?;
    let users = record.user.iter();
    let addresses = users.flat_map(|user| [&user.email, &user.public_email]).flatten();
    for address in addresses.filter(|address| !address.is_empty()) {
        check_attributes(validator, "create_own_email", json!({ "email": address }))?;
    }
    Ok(())
}

/// Rejects an invalid board.
pub fn check_board(validator: &dyn RecordValidator, record: &BoardRecord) -> Result<()> {
    check_attributes(validator, "create_group_board", json!({ "name": record.name }))?;
    boards::valid_row(VALIDATION_SCOPE, &record.name)?;
    // A negative weight means none. The import reports it later.
    let weight = record.weight.filter(|weight| *weight >= 0);
    check_attributes(validator, "update_group_board", json!({ "weight": weight }))?;
    check_label_names(validator, &record.labels.0, boards::MAX_BOARD_LABELS)?;
    record
        .lists
        .0
        .iter()
        .filter_map(|list| list.label.as_ref())
        .try_for_each(|name| check_label_name(validator, name))
}

/// Rejects an invalid epic.
pub fn check_epic(validator: &dyn RecordValidator, record: &EpicRecord) -> Result<()> {
    check_attributes(
        validator,
        "create_epic",
        json!({
            "title": record.title, "description": record.description, "start_date": record.start_date,
            "due_date": record.due_date,
        }),
    )?;
    check_iid(record.iid)?;
    let new = epics::NewEpic {
        title: record.title.clone(),
        start_date: record.start_date,
        due_date: record.due_date,
        ..epics::NewEpic::default()
    };
    epics::valid_row(0, new)?;
    check_label_names(validator, &record.labels.0, labels::MAX_LABELS)
}

fn check_iid(number: i64) -> Result<()> {
    match (1..=MAX_IID).contains(&number) {
        true => Ok(()),
        false => Err(Error::attribute("iid", "is not a number in range")),
    }
}

fn check_one_of(name: &'static str, number: Option<i64>, known: impl Fn(i64) -> bool) -> Result<()> {
    match number.is_none_or(known) {
        true => Ok(()),
        false => Err(Error::attribute(name, "is not included in the list")),
    }
}

/// Checks attributes against the rules of the operation that accepts them.
fn check_attributes(validator: &dyn RecordValidator, operation: &str, attributes: Value) -> Result<()> {
    let Value::Object(attributes) = attributes else {
        return Ok(());
    };
    let errors = validator.body_faults(operation, attributes);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidParameters(errors.into())),
    }
}

/// Returns the user-facing text of an error, or `None` if the import can succeed later
/// ([`Error::can_succeed_later`]). `reason` returns the text of an error without attributes.
pub fn text_of(error: &Error, reason: fn(&Error) -> String) -> Option<String> {
    match error {
        Error::InvalidAttributes(attributes) => {
            let errors = attributes.iter().flat_map(|(name, texts)| {
                texts.iter().map(move |text| match name.as_ref() {
                    "base" => text.to_string(),
                    name => format!("{name} {text}"),
                })
            });
            Some(errors.collect::<Vec<_>>().join(", "))
        }
        Error::BySetting { setting, error } => {
            text_of(error, reason).map(|text| format!("{text} (setting: {setting})"))
        }
        error if error.can_succeed_later() => None,
        other => Some(reason(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_have_text_that_ends_an_import() {
        let text = |error: Error| text_of(&error, ToString::to_string);
        for error in [
            Error::DatabaseBusy,
            Error::Busy,
            Error::ResourceLocked,
            Error::RateLimited(1).because_of("git_processor_seconds_per_client"),
            Error::StorageFull,
        ] {
            assert_eq!(text(error), None);
        }
        let name = text(Error::attribute("name", "is invalid"));
        assert_eq!(name.as_deref(), Some("name is invalid"));
        let base = text(Error::attribute("base", "The epic is closed").because_of("setting"));
        assert_eq!(base.as_deref(), Some("The epic is closed (setting: setting)"));
    }
}
