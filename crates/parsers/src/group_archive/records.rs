//! Records of archives. Unknown fields are ignored, so that archives of the reference service are accepted.

use std::fmt;
use std::marker::PhantomData;

use chrono::NaiveDate;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// A group.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupRecord {
    /// ID, unique within the archive.
    pub id: i64,
    /// ID of the parent.
    pub parent_id: Option<i64>,
    /// The name.
    pub name: String,
    /// The last segment of the path.
    pub path: String,
    /// The description.
    pub description: Option<String>,
    /// The visibility: 0 is private, 10 internal, 20 public.
    pub visibility_level: Option<i64>,
    /// Whether projects cannot be shared with other groups.
    pub share_with_group_lock: Option<bool>,
    /// Whether members cannot be added to projects.
    pub membership_lock: Option<bool>,
    /// Whether members must use two-factor authentication.
    pub require_two_factor_authentication: Option<bool>,
    /// Hours until two-factor authentication is required.
    pub two_factor_grace_period: Option<i64>,
    /// Who may create projects, as a number.
    pub project_creation_level: Option<i64>,
    /// Who may create subgroups, as a number.
    pub subgroup_creation_level: Option<i64>,
    /// Whether pipelines are created automatically.
    pub auto_devops_enabled: Option<bool>,
    /// Whether emails are disabled.
    pub emails_disabled: Option<bool>,
    /// Whether mentions of the group are disabled.
    pub mentions_disabled: Option<bool>,
    /// Whether large file storage is enabled.
    pub lfs_enabled: Option<bool>,
    /// Protection of default branches, as a number.
    pub default_branch_protection: Option<i64>,
    /// Default branch of new projects.
    pub default_branch: Option<String>,
    /// Whether users may request access.
    pub request_access_enabled: Option<bool>,
}

/// State of a milestone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MilestoneRecordState {
    /// Active.
    Active,
    /// Closed.
    Closed,
}

/// A milestone.
#[derive(Debug, Serialize, Deserialize)]
pub struct MilestoneRecord {
    /// The IID.
    pub iid: i64,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The state.
    pub state: MilestoneRecordState,
    /// The first day.
    #[serde(default, deserialize_with = "start_date")]
    pub start_date: Option<NaiveDate>,
    /// The last day.
    #[serde(default, deserialize_with = "due_date")]
    pub due_date: Option<NaiveDate>,
}

/// A label.
#[derive(Debug, Serialize, Deserialize)]
pub struct LabelRecord {
    /// The title.
    pub title: String,
    /// The color.
    pub color: String,
    /// The description.
    pub description: Option<String>,
    /// The type.
    pub r#type: Option<String>,
}

/// A label, by title. It includes the color, because labels of ancestors of the exported group are not in the
/// archive's label lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LabelName {
    /// The title.
    pub title: String,
    /// The color.
    pub color: Option<String>,
}

/// A milestone, by title.
#[derive(Debug, Serialize, Deserialize)]
pub struct MilestoneName {
    /// The title.
    pub title: String,
}

/// A badge.
#[derive(Debug, Serialize, Deserialize)]
pub struct BadgeRecord {
    /// The name.
    pub name: Option<String>,
    /// URL of the link.
    pub link_url: String,
    /// URL of the image.
    pub image_url: String,
    /// The type.
    pub r#type: Option<String>,
}

/// A user, with the attributes that identify the user on another server. The ID is used by other records of
/// the archive.
#[derive(Debug, Serialize, Deserialize)]
pub struct UserRecord {
    /// ID, unique within the archive.
    pub id: i64,
    /// The user name.
    pub username: Option<String>,
    /// The email address.
    pub email: Option<String>,
    /// The public email address.
    pub public_email: Option<String>,
}

/// A member.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The access level.
    pub access_level: i64,
    /// The day on which the membership ends.
    #[serde(default, deserialize_with = "expires_at")]
    pub expires_at: Option<NaiveDate>,
    /// `None` if the user was deleted or never accepted the invitation.
    pub user: Option<UserRecord>,
}

/// Kind of a board list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardListType {
    /// Issues with a label.
    Label,
    /// Issues of a milestone.
    Milestone,
    /// Issues of an assignee.
    Assignee,
    /// Predefined lists of every board, which are not stored here.
    #[serde(other)]
    Other,
}

/// A list of a board.
#[derive(Debug, Serialize, Deserialize)]
pub struct BoardListRecord {
    /// The kind.
    pub list_type: BoardListType,
    /// The position.
    pub position: Option<i64>,
    /// The label of the list.
    pub label: Option<LabelName>,
    /// The milestone.
    pub milestone: Option<MilestoneName>,
    /// ID of the assignee of the list.
    pub user_id: Option<i64>,
}

/// A board.
#[derive(Debug, Serialize, Deserialize)]
pub struct BoardRecord {
    /// The name.
    pub name: String,
    /// Whether the backlog list is hidden.
    pub hide_backlog_list: Option<bool>,
    /// Whether the closed list is hidden.
    pub hide_closed_list: Option<bool>,
    /// The milestone.
    pub milestone: Option<MilestoneName>,
    /// ID of the assignee.
    pub assignee_id: Option<i64>,
    /// The weight.
    pub weight: Option<i64>,
    /// The labels.
    #[serde(default)]
    pub labels: BoundedList<LabelName>,
    /// The lists.
    #[serde(default)]
    pub lists: BoundedList<BoardListRecord>,
}

/// State of an epic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpicRecordState {
    /// Open.
    Opened,
    /// Closed.
    Closed,
}

/// An epic. State and due date are accepted under the names of the layout and of the API.
#[derive(Debug, Serialize, Deserialize)]
pub struct EpicRecord {
    /// ID, unique within the archive.
    pub id: i64,
    /// The IID.
    pub iid: i64,
    /// The title.
    pub title: String,
    /// The description.
    pub description: Option<String>,
    /// The state.
    #[serde(rename = "state_id", alias = "state")]
    pub state: EpicRecordState,
    /// Whether only members see the epic.
    #[serde(default)]
    pub confidential: bool,
    /// The first day.
    #[serde(default, deserialize_with = "start_date")]
    pub start_date: Option<NaiveDate>,
    /// The last day.
    #[serde(
        default,
        rename = "end_date",
        alias = "due_date",
        deserialize_with = "due_date"
    )]
    pub due_date: Option<NaiveDate>,
    /// ID of the author.
    pub author_id: Option<i64>,
    /// ID of the parent.
    pub parent_id: Option<i64>,
    /// The labels.
    #[serde(default)]
    pub labels: BoundedList<LabelName>,
}

/// A bounded list within a record. Without a limit, a short line could contain millions of items.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct BoundedList<T>(pub Vec<T>);

/// Maximum length of such a list. It exceeds the maximum of board lists by two, because the reference service
/// counts predefined lists.
const MAX_LIST_LENGTH: usize = 102;

impl<T> Default for BoundedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BoundedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfList<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfList<T> {
            type Value = BoundedList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_LIST_LENGTH}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = list.next_element()? {
                    if all.len() == MAX_LIST_LENGTH {
                        return Err(A::Error::custom(format!(
                            "a list has too many entries (maximum is {MAX_LIST_LENGTH})"
                        )));
                    }
                    all.push(item);
                }
                Ok(BoundedList(all))
            }
        }

        deserializer.deserialize_seq(OfList(PhantomData))
    }
}

macro_rules! days {
    ($($field:ident),*) => {$(
        /// Parses a date. The error names the field, because parse errors of dates do not.
        fn $field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NaiveDate>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            let fault = |_| D::Error::custom(concat!(stringify!($field), " is invalid"));
            text.map(|text| text.parse().map_err(fault)).transpose()
        }
    )*};
}

days!(start_date, due_date, expires_at);
