//! Operations of a patch (RFC 7644, section 3.5.2), in the variants that identity providers send. They differ
//! in paths, in objects, lists and single values, in booleans as text, and in case.

use scim_v2::filter::{AttrExp, CompValue, CompareOp, PatchPath, PatchValuePath, ValFilter};
use serde_json::{Map, Value};

use super::error::{ScimError, ScimErrorType};
use super::filter::attribute;
use super::schema::{MAX_LENGTH, USER_SCHEMA, check_uid};

type Result<T> = std::result::Result<T, ScimError>;

/// Changes of a user; absent ones are unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScimUserUpdate {
    /// The ID at the provider.
    pub uid: Option<String>,
    /// The requested user name, as received.
    pub username: Option<String>,
    /// The email address.
    pub email: Option<String>,
    /// Whether the user is provisioned.
    pub active: Option<bool>,
    formatted: Option<String>,
    given: Option<String>,
    family: Option<String>,
}

impl ScimUserUpdate {
    /// Returns the display name. A given or family name alone does not change it.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        full_name(
            self.formatted.as_deref(),
            self.given.as_deref(),
            self.family.as_deref(),
        )
        .filter(|_| self.formatted.is_some() || (self.given.is_some() && self.family.is_some()))
    }
}

/// Combines the parts of a name: the formatted name unless it is blank, otherwise the given and the family
/// name.
#[must_use]
pub fn full_name(formatted: Option<&str>, given: Option<&str>, family: Option<&str>) -> Option<String> {
    let filled = |text: &&str| !text.trim().is_empty();
    let parts: Vec<&str> = [given, family].into_iter().flatten().filter(filled).collect();
    let joined = (!parts.is_empty()).then(|| parts.join(" "));
    formatted.filter(filled).map(str::to_owned).or(joined)
}

/// The attribute that an operation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttributeTarget {
    Uid,
    Username,
    Formatted,
    Given,
    Family,
    /// An object with all three parts of the name.
    Name,
    /// The value of the address.
    Email,
    /// An address or a list of addresses, as objects.
    Emails,
    /// An address that the server does not store.
    OtherEmail,
    Active,
    /// An attribute that the server assigns.
    ReadOnly,
    /// An attribute that the server does not store.
    Overlooked,
}

/// One operation of a request that updates a user (RFC 7644, section 3.5.2).
#[derive(Debug, Clone)]
pub struct UserOperation {
    /// `add`, `replace` or `remove`, in any case.
    pub op: String,
    /// The attribute to change. Without it, `value` is an object of attributes.
    pub path: Option<String>,
    /// The new value.
    pub value: Option<Value>,
}

/// Merges all operations; the last one for an attribute applies.
///
/// # Errors
/// Returns a [`ScimError`] for an operation other than `add` and `replace`, an invalid path and invalid values.
pub fn merge_operations(operations: Vec<UserOperation>) -> Result<ScimUserUpdate> {
    let mut changes = ScimUserUpdate::default();
    for operation in operations {
        let value = operation.value.unwrap_or(Value::Null);
        let path = operation.path.filter(|path| !has_no_attribute_name(path));
        let target = path.as_deref().map(target).transpose()?;
        match (operation.op.to_ascii_lowercase().as_str(), target) {
            ("add" | "replace" | "remove", Some(AttributeTarget::ReadOnly)) => {
                return Err(immutable("read-only attributes cannot be changed"));
            }
            ("replace", Some(AttributeTarget::OtherEmail)) => {
                return Err(no_target(
                    "the filter of emails does not match the email address of the user",
                ));
            }
            ("add" | "replace", Some(target)) => set(&mut changes, target, value)?,
            ("add" | "replace", None) => set_all(&mut changes, value)?,
            // Removing an attribute that is not stored has no effect.
            ("remove", Some(AttributeTarget::Overlooked | AttributeTarget::OtherEmail)) => {}
            ("remove", Some(_)) => return Err(immutable("this attribute cannot be removed")),
            ("remove", None) => return Err(no_target("`remove` requires a `path`")),
            _ => return Err(syntax("`op` must be `add` or `replace`")),
        }
    }
    Ok(changes)
}

/// Returns whether a path is blank or the user schema itself.
fn has_no_attribute_name(path: &str) -> bool {
    path.trim().is_empty() || path.trim().eq_ignore_ascii_case(USER_SCHEMA)
}

fn syntax(text: &'static str) -> ScimError {
    ScimError::new(ScimErrorType::Syntax, text)
}

fn immutable(text: &'static str) -> ScimError {
    ScimError::new(ScimErrorType::Mutability, text)
}

fn no_target(text: &'static str) -> ScimError {
    ScimError::new(ScimErrorType::Target, text)
}

fn invalid(what: &str, fault: &str) -> ScimError {
    ScimError::new(ScimErrorType::Value, format!("{what} {fault}"))
}

/// Returns the attribute of a path.
fn target(path: &str) -> Result<AttributeTarget> {
    let parsed = path.trim().parse().map_err(|_| {
        let text = format!("`{path}` is not a valid attribute path");
        ScimError::new(ScimErrorType::Path, text)
    })?;
    Ok(match parsed {
        PatchPath::Attr(path) => plain(attribute(&path).as_deref()),
        PatchPath::Value(path) => resolve_filter_path(&path)?,
    })
}

fn plain(attribute: Option<&str>) -> AttributeTarget {
    match attribute {
        Some("id" | "externalid") => AttributeTarget::Uid,
        Some("username") => AttributeTarget::Username,
        Some("name.formatted" | "displayname") => AttributeTarget::Formatted,
        Some("name.givenname") => AttributeTarget::Given,
        Some("name.familyname") => AttributeTarget::Family,
        Some("name") => AttributeTarget::Name,
        Some("emails.value") => AttributeTarget::Email,
        Some("emails") => AttributeTarget::Emails,
        Some("active") => AttributeTarget::Active,
        Some(name) if name == "schemas" || name == "meta" || name.starts_with("meta.") => {
            AttributeTarget::ReadOnly
        }
        _ => AttributeTarget::Overlooked,
    }
}

/// Resolves a path with a filter to the stored address, which is the work or primary one.
///
/// # Errors
/// Returns a [`ScimError`] for an unsupported filter, because the change would be lost.
fn resolve_filter_path(path: &PatchValuePath) -> Result<AttributeTarget> {
    if attribute(&path.attr).as_deref() != Some("emails") {
        return Ok(AttributeTarget::Overlooked);
    }
    let Some(ours) = selects_stored_email(&path.filter) else {
        let text = "filters of emails support only `type eq` and `primary eq`, combined with `and`";
        return Err(ScimError::new(ScimErrorType::Filter, text));
    };
    let value = path
        .sub_attr
        .as_deref()
        .is_none_or(|part| part.eq_ignore_ascii_case("value"));
    Ok(match (ours, value) {
        (true, true) => AttributeTarget::Email,
        (true, false) => AttributeTarget::Overlooked,
        (false, _) => AttributeTarget::OtherEmail,
    })
}

/// Returns whether a filter selects the stored address, or `None` if it is not supported.
fn selects_stored_email(filter: &ValFilter) -> Option<bool> {
    match filter {
        ValFilter::Attr(AttrExp::Comparison(by, CompareOp::Eq, value)) => {
            match (by.name.to_ascii_lowercase().as_str(), value) {
                ("type", CompValue::Str(kind)) => Some(kind.eq_ignore_ascii_case("work")),
                ("primary", CompValue::True) => Some(true),
                ("primary", CompValue::False) => Some(false),
                _ => None,
            }
        }
        ValFilter::And(all) => {
            let all: Option<Vec<bool>> = all.iter().map(selects_stored_email).collect();
            all.map(|all| all.into_iter().all(|ours| ours))
        }
        _ => None,
    }
}

/// Applies the attributes of an object, each by its path.
fn set_all(changes: &mut ScimUserUpdate, value: Value) -> Result<()> {
    let Value::Object(attributes) = value else {
        return Err(syntax("without `path`, `value` must be an object of attributes"));
    };
    for (name, value) in attributes {
        if has_no_attribute_name(&name) && value.is_object() {
            set_all(changes, value)?;
            continue;
        }
        // A name that is not a valid path is an attribute that is not stored.
        let target = target(&name).unwrap_or(AttributeTarget::Overlooked);
        set(changes, target, value)?;
    }
    Ok(())
}

fn set(changes: &mut ScimUserUpdate, target: AttributeTarget, value: Value) -> Result<()> {
    // Providers send null for unknown values, but never for `active`.
    if value.is_null() && target != AttributeTarget::Active {
        return Ok(());
    }
    match target {
        AttributeTarget::Uid => {
            let uid = text("externalId", value)?;
            check_uid(&uid)?;
            changes.uid = Some(uid);
        }
        AttributeTarget::Username => changes.username = Some(text("userName", value)?),
        AttributeTarget::Formatted => changes.formatted = Some(text("name", value)?),
        AttributeTarget::Given => changes.given = Some(text("name", value)?),
        AttributeTarget::Family => changes.family = Some(text("name", value)?),
        AttributeTarget::Email => changes.email = Some(text("email", value)?),
        AttributeTarget::Active => changes.active = Some(boolean(value)?),
        AttributeTarget::Name => {
            let Value::Object(mut parts) = value else {
                return Err(invalid("name", "must be an object"));
            };
            for (part, target) in [
                ("formatted", AttributeTarget::Formatted),
                ("givenName", AttributeTarget::Given),
                ("familyName", AttributeTarget::Family),
            ] {
                set(changes, target, remove_part(&mut parts, part))?;
            }
        }
        AttributeTarget::Emails => {
            let all = match value {
                Value::Array(all) => all,
                one => vec![one],
            };
            let ours = |rule: fn(&Map<String, Value>) -> bool| {
                all.iter().position(|email| email.as_object().is_some_and(rule))
            };
            let ours = ours(is_for_work).or_else(|| ours(is_primary)).unwrap_or(0);
            if let Some(email) = all.into_iter().nth(ours) {
                set(changes, AttributeTarget::Email, email)?;
            }
        }
        // An object of attributes may contain those that the server assigns (RFC 7644, section 3.5.1).
        AttributeTarget::ReadOnly | AttributeTarget::Overlooked | AttributeTarget::OtherEmail => {}
    }
    Ok(())
}

/// Removes a part of an object, by its name without case.
fn remove_part(parts: &mut Map<String, Value>, name: &str) -> Value {
    let key = parts.keys().find(|key| key.eq_ignore_ascii_case(name)).cloned();
    key.and_then(|key| parts.remove(&key)).unwrap_or(Value::Null)
}

/// Returns whether an address is the work address, which is the one that is stored.
fn is_for_work(email: &Map<String, Value>) -> bool {
    let kind = remove_part(&mut email.clone(), "type");
    kind.as_str()
        .is_some_and(|kind| kind.eq_ignore_ascii_case("work"))
}

/// Returns whether an address is the primary one, which is stored if no work address exists.
fn is_primary(email: &Map<String, Value>) -> bool {
    boolean(remove_part(&mut email.clone(), "primary")).unwrap_or(false)
}

/// Reads a text, which some providers wrap as `[{"value": "text"}]`.
fn text(what: &str, value: Value) -> Result<String> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Array(mut values) if values.len() == 1 => return text(what, values.remove(0)),
        Value::Object(mut parts) => match remove_part(&mut parts, "value") {
            Value::Null => return Err(invalid(what, "must be a string")),
            inner => return text(what, inner),
        },
        _ => return Err(invalid(what, "must be a string")),
    };
    if text.trim().is_empty() {
        return Err(invalid(what, "can't be blank"));
    }
    if text.contains('\0') {
        return Err(invalid(what, "is invalid"));
    }
    if text.chars().count() > MAX_LENGTH {
        return Err(invalid(
            what,
            &format!("is too long (maximum is {MAX_LENGTH} characters)"),
        ));
    }
    Ok(text)
}

/// Reads a boolean, which may be a text, even a quoted one.
fn boolean(value: Value) -> Result<bool> {
    let word = match value {
        Value::Bool(flag) => return Ok(flag),
        Value::String(word) => word,
        Value::Array(mut values) if values.len() == 1 => return boolean(values.remove(0)),
        Value::Object(mut parts) => match remove_part(&mut parts, "value") {
            Value::Null => return Err(invalid("active", "must be true or false")),
            inner => return boolean(inner),
        },
        _ => return Err(invalid("active", "must be true or false")),
    };
    match word.trim().trim_matches('"').to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid("active", "must be true or false")),
    }
}

#[cfg(test)]
mod tests;
