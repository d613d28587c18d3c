//! What stands in an archive. Fields that are not named here are passed over, so that archives of the reference service do.

use std::fmt;
use std::marker::PhantomData;

use chrono::NaiveDate;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use storage::entities::Visibility;
use storage::entities::namespaces::{ProjectCreation, SubgroupCreation};

/// A group.
#[derive(Debug, Serialize, Deserialize)]
pub struct Group {
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

/// Whether a milestone is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MilestoneState {
    Active,
    Closed,
}

/// A milestone.
#[derive(Debug, Serialize, Deserialize)]
pub struct Milestone {
    pub iid: i64,
    pub title: String,
    pub description: Option<String>,
    pub state: MilestoneState,
    #[serde(default, deserialize_with = "start_date")]
    pub start_date: Option<NaiveDate>,
    #[serde(default, deserialize_with = "due_date")]
    pub due_date: Option<NaiveDate>,
}

/// A label.
#[derive(Debug, Serialize, Deserialize)]
pub struct Label {
    pub title: String,
    pub color: String,
    pub description: Option<String>,
    pub r#type: Option<String>,
}

/// A label by its title; one of a group above the exported one is in no list of labels, so that its colour comes along.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LabelName {
    pub title: String,
    pub color: Option<String>,
}

/// A milestone by its title.
#[derive(Debug, Serialize, Deserialize)]
pub struct MilestoneName {
    pub title: String,
}

/// A badge.
#[derive(Debug, Serialize, Deserialize)]
pub struct Badge {
    pub name: Option<String>,
    pub link_url: String,
    pub image_url: String,
    pub r#type: Option<String>,
}

/// A user, by what finds them elsewhere. The number is that of the other records of the archive.
#[derive(Debug, Serialize, Deserialize)]
pub struct User {
    pub id: i64,
    pub username: Option<String>,
    pub email: Option<String>,
    pub public_email: Option<String>,
}

/// A member.
#[derive(Debug, Serialize, Deserialize)]
pub struct Member {
    pub access_level: i64,
    #[serde(default, deserialize_with = "expires_at")]
    pub expires_at: Option<NaiveDate>,
    /// None of a user who is gone, or was invited and never came.
    pub user: Option<User>,
}

/// What a list of a board is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListType {
    Label,
    Milestone,
    Assignee,
    /// Lists that every board has, which are no rows here.
    #[serde(other)]
    Other,
}

/// A list of a board.
#[derive(Debug, Serialize, Deserialize)]
pub struct List {
    pub list_type: ListType,
    pub position: Option<i64>,
    pub label: Option<LabelName>,
    pub milestone: Option<MilestoneName>,
    pub user_id: Option<i64>,
}

/// A board.
#[derive(Debug, Serialize, Deserialize)]
pub struct Board {
    pub name: String,
    pub hide_backlog_list: Option<bool>,
    pub hide_closed_list: Option<bool>,
    pub milestone: Option<MilestoneName>,
    pub assignee_id: Option<i64>,
    pub weight: Option<i64>,
    #[serde(default)]
    pub labels: Bounded<LabelName>,
    #[serde(default)]
    pub lists: Bounded<List>,
}

/// Whether an epic is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpicState {
    Opened,
    Closed,
}

/// An epic, with the state and the last day by the names of the layout, and by those that the API has for them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Epic {
    pub id: i64,
    pub iid: i64,
    pub title: String,
    pub description: Option<String>,
    #[serde(rename = "state_id", alias = "state")]
    pub state: EpicState,
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
    pub labels: Bounded<LabelName>,
}

/// A list within a record, which is refused where it is longer than anything may have: a short line may hold millions.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Bounded<T>(pub Vec<T>);

/// The most that such a list holds. Two more than lists of boards may be, which the reference service counts otherwise.
const LONGEST: usize = 102;

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfList<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfList<T> {
            type Value = Bounded<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {LONGEST}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(item) = list.next_element()? {
                    if all.len() == LONGEST {
                        return Err(A::Error::custom(format!(
                            "a list has too many entries (maximum is {LONGEST})"
                        )));
                    }
                    all.push(item);
                }
                Ok(Bounded(all))
            }
        }

        deserializer.deserialize_seq(OfList(PhantomData))
    }
}

macro_rules! days {
    ($($field:ident),*) => {$(
        /// A day, or a fault that names the field: what is no day says nothing of where it stands.
        fn $field<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NaiveDate>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            let fault = |_| D::Error::custom(concat!(stringify!($field), " is invalid"));
            text.map(|text| text.parse().map_err(fault)).transpose()
        }
    )*};
}

days!(start_date, due_date, expires_at);

/// The number that the layout has for a visibility.
pub fn level_of(visibility: Visibility) -> i64 {
    match visibility {
        Visibility::Private => 0,
        Visibility::Internal => 10,
        Visibility::Public => 20,
    }
}

/// The visibility that a number is for.
pub fn visibility_of(level: i64) -> Option<Visibility> {
    let all = [Visibility::Private, Visibility::Internal, Visibility::Public];
    all.into_iter().find(|one| level_of(*one) == level)
}

/// Who may make projects, in the order of the layout's numbers.
pub const PROJECT_CREATION: [ProjectCreation; 3] = [
    ProjectCreation::Noone,
    ProjectCreation::Maintainer,
    ProjectCreation::Developer,
];

/// Who may make groups, in the order of the layout's numbers.
pub const SUBGROUP_CREATION: [SubgroupCreation; 2] = [SubgroupCreation::Owner, SubgroupCreation::Maintainer];

/// The number of a value in such an order.
pub fn number_of<T: PartialEq>(all: &[T], value: &T) -> Option<i64> {
    let at = all.iter().position(|one| one == value);
    at.and_then(|at| i64::try_from(at).ok())
}

/// The value of a number in such an order.
pub fn value_of<T: Copy>(all: &[T], number: i64) -> Option<T> {
    usize::try_from(number).ok().and_then(|at| all.get(at).copied())
}
