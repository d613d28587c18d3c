//! Records of archives. Unknown fields are ignored, so that archives of the reference service are accepted.

use std::fmt;
use std::marker::PhantomData;

use chrono::NaiveDate;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use storage::entities::Visibility;
use storage::entities::namespaces::{ProjectCreation, SubgroupCreation};

/// A group.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupRecord {
    pub id: i64,
    pub parent_id: Option<i64>,
    pub name: String,
    pub path: String,
    pub description: Option<String>,
    pub visibility_level: Option<i64>,
    pub share_with_group_lock: Option<bool>,
    pub membership_lock: Option<bool>,
    pub require_two_factor_authentication: Option<bool>,
    pub two_factor_grace_period: Option<i64>,
    pub project_creation_level: Option<i64>,
    pub subgroup_creation_level: Option<i64>,
    pub auto_devops_enabled: Option<bool>,
    pub emails_disabled: Option<bool>,
    pub mentions_disabled: Option<bool>,
    pub lfs_enabled: Option<bool>,
    pub default_branch_protection: Option<i64>,
    pub request_access_enabled: Option<bool>,
}

/// State of a milestone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MilestoneRecordState {
    Active,
    Closed,
}

/// A milestone.
#[derive(Debug, Serialize, Deserialize)]
pub struct MilestoneRecord {
    pub iid: i64,
    pub title: String,
    pub description: Option<String>,
    pub state: MilestoneRecordState,
    #[serde(default, deserialize_with = "start_date")]
    pub start_date: Option<NaiveDate>,
    #[serde(default, deserialize_with = "due_date")]
    pub due_date: Option<NaiveDate>,
}

/// A label.
#[derive(Debug, Serialize, Deserialize)]
pub struct LabelRecord {
    pub title: String,
    pub color: String,
    pub description: Option<String>,
    pub r#type: Option<String>,
}

/// A label, by title. It includes the color, because labels of ancestors of the exported group are not in the
/// archive's label lists.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LabelName {
    pub title: String,
    pub color: Option<String>,
}

/// A milestone, by title.
#[derive(Debug, Serialize, Deserialize)]
pub struct MilestoneName {
    pub title: String,
}

/// A badge.
#[derive(Debug, Serialize, Deserialize)]
pub struct BadgeRecord {
    pub name: Option<String>,
    pub link_url: String,
    pub image_url: String,
    pub r#type: Option<String>,
}

/// A user, with the attributes that identify the user on another server. The ID is used by other records of
/// the archive.
#[derive(Debug, Serialize, Deserialize)]
pub struct UserRecord {
    pub id: i64,
    pub username: Option<String>,
    pub email: Option<String>,
    pub public_email: Option<String>,
}

/// A member.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemberRecord {
    pub access_level: i64,
    #[serde(default, deserialize_with = "expires_at")]
    pub expires_at: Option<NaiveDate>,
    /// `None` if the user was deleted or never accepted the invitation.
    pub user: Option<UserRecord>,
}

/// Kind of a board list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardListType {
    Label,
    Milestone,
    Assignee,
    /// Predefined lists of every board, which are not stored here.
    #[serde(other)]
    Other,
}

/// A list of a board.
#[derive(Debug, Serialize, Deserialize)]
pub struct BoardListRecord {
    pub list_type: BoardListType,
    pub position: Option<i64>,
    pub label: Option<LabelName>,
    pub milestone: Option<MilestoneName>,
    pub user_id: Option<i64>,
}

/// A board.
#[derive(Debug, Serialize, Deserialize)]
pub struct BoardRecord {
    pub name: String,
    pub hide_backlog_list: Option<bool>,
    pub hide_closed_list: Option<bool>,
    pub milestone: Option<MilestoneName>,
    pub assignee_id: Option<i64>,
    pub weight: Option<i64>,
    #[serde(default)]
    pub labels: BoundedList<LabelName>,
    #[serde(default)]
    pub lists: BoundedList<BoardListRecord>,
}

/// State of an epic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpicRecordState {
    Opened,
    Closed,
}

/// An epic. State and due date are accepted under the names of the layout and of the API.
#[derive(Debug, Serialize, Deserialize)]
pub struct EpicRecord {
    pub id: i64,
    pub iid: i64,
    pub title: String,
    pub description: Option<String>,
    #[serde(rename = "state_id", alias = "state")]
    pub state: EpicRecordState,
    #[serde(default)]
    pub confidential: bool,
    #[serde(default, deserialize_with = "start_date")]
    pub start_date: Option<NaiveDate>,
    #[serde(
        default,
        rename = "end_date",
        alias = "due_date",
        deserialize_with = "due_date"
    )]
    pub due_date: Option<NaiveDate>,
    pub author_id: Option<i64>,
    pub parent_id: Option<i64>,
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

/// Returns the number of a visibility in the layout.
pub fn level_of(visibility: Visibility) -> i64 {
    match visibility {
        Visibility::Private => 0,
        Visibility::Internal => 10,
        Visibility::Public => 20,
    }
}

/// Returns the visibility of a number in the layout.
pub fn visibility_of(level: i64) -> Option<Visibility> {
    let all = [Visibility::Private, Visibility::Internal, Visibility::Public];
    all.into_iter().find(|one| level_of(*one) == level)
}

/// Values for project creation, indexed by their numbers in the layout.
pub const PROJECT_CREATION: [ProjectCreation; 3] = [
    ProjectCreation::Noone,
    ProjectCreation::Maintainer,
    ProjectCreation::Developer,
];

/// Values for subgroup creation, indexed by their numbers in the layout.
pub const SUBGROUP_CREATION: [SubgroupCreation; 2] = [SubgroupCreation::Owner, SubgroupCreation::Maintainer];

/// Returns the number of a value in such a table.
pub fn number_of<T: PartialEq>(all: &[T], value: &T) -> Option<i64> {
    let at = all.iter().position(|one| one == value);
    at.and_then(|at| i64::try_from(at).ok())
}

/// Returns the value of a number in such a table.
pub fn value_of<T: Copy>(all: &[T], number: i64) -> Option<T> {
    usize::try_from(number).ok().and_then(|at| all.get(at).copied())
}
