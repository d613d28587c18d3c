//! The requirement to set up a second factor, by the instance and by groups.
//!
//! A group requires it from its members, inherited members included, and from the members of its subgroups.
//! The grace period of a user starts when the user first uses a password or session while it is required.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, QuerySelect};
use storage::entities::{members, namespace_ancestors, namespaces, now, unexpired, users};

use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Name of the setting of the instance, and of the attribute of groups, that requires a second factor.
const SETTING: &str = "require_two_factor_authentication";

/// Whether a user has to set up a second factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwoFactorRequirement {
    /// The user has a second factor, or none is required.
    Met,
    /// The user has to set one up until this time. `None` is after the last time that can be represented.
    Grace(Option<DateTime<Utc>>),
    /// The user had to set one up until this time. Passwords and sessions are accepted only to do that.
    Overdue(DateTime<Utc>),
}

impl TwoFactorRequirement {
    /// Returns the requirement for a user with this grace period, in hours, if a second factor is required.
    fn new(enabled: bool, hours: Option<i32>, start: DateTime<Utc>, instant: DateTime<Utc>) -> Self {
        let Some(hours) = hours.filter(|_| !enabled) else {
            return Self::Met;
        };
        let end = start.checked_add_signed(TimeDelta::hours(hours.into()));
        match end {
            Some(end) if end <= instant => Self::Overdue(end),
            end => Self::Grace(end),
        }
    }
}

/// The grace period that applies to a user.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GracePeriod(Option<i32>);

impl GracePeriod {
    /// Returns whether a second factor is required.
    pub(crate) fn is_required(self) -> bool {
        self.0.is_some()
    }

    /// Returns the start of the period that belongs into the row of the user, and the requirement after that.
    pub(crate) fn apply(
        self,
        user: &users::Model,
        instant: DateTime<Utc>,
    ) -> (Option<DateTime<Utc>>, TwoFactorRequirement) {
        let start = user.two_factor_grace_started_at;
        let requirement =
            TwoFactorRequirement::new(user.two_factor_enabled, self.0, start.unwrap_or(instant), instant);
        let start = match (self.0, requirement) {
            (None, _) => None,
            (Some(_), TwoFactorRequirement::Met) => start,
            (Some(_), _) => start.or(Some(instant)),
        };
        (start, requirement)
    }
}

/// Returns the shortest grace period of the instance and of the groups that require a second factor of a user.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn grace_period(backend: &Backend, user_id: i64) -> Result<GracePeriod> {
    let settings = settings::get(backend).await?;
    let by_instance = settings
        .require_two_factor_authentication
        .then_some(settings.two_factor_grace_period);
    let today = now().date_naive();
    let look_up = async {
        let found: Option<Option<i32>> = namespaces::not_deleted()
            .select_only()
            .column_as(namespaces::Column::TwoFactorGracePeriod.min(), "hours")
            .filter(namespaces::Column::RequireTwoFactorAuthentication.eq(true))
            .filter(namespaces::Column::Kind.eq(namespaces::NamespaceKind::Group))
            .filter(applies_to_member(user_id, today))
            .into_tuple()
            .one(backend.database.read())
            .await?;
        Ok::<_, Error>(found.flatten())
    };
    let by_groups = backend
        .caches
        .required_by_groups
        .get_or_load(&backend.database, (user_id, today), look_up)
        .await?;
    Ok(GracePeriod(by_instance.into_iter().chain(by_groups).min()))
}

/// Matches the groups of a user, their ancestors and their subgroups.
fn applies_to_member(user_id: i64, today: NaiveDate) -> Condition {
    use namespace_ancestors::Column::{AncestorId, NamespaceId};
    let of_members = |joined, group| Expr::exists(memberships(user_id, today, joined, group));
    Condition::any()
        .add(of_members(NamespaceId, AncestorId))
        .add(of_members(AncestorId, NamespaceId))
}

/// Selects the memberships of a user in the groups of `joined` in the rows whose `group` is the outer group.
fn memberships(
    user_id: i64,
    today: NaiveDate,
    joined: namespace_ancestors::Column,
    group: namespace_ancestors::Column,
) -> SelectStatement {
    let tree = namespace_ancestors::Entity;
    let is_member = Expr::col((members::Entity, members::Column::NamespaceId)).eq(Expr::col((tree, joined)));
    Query::select()
        .expr(Expr::val(1))
        .from(members::Entity)
        .inner_join(tree, is_member)
        .and_where(Expr::col((members::Entity, members::Column::UserId)).eq(user_id))
        .cond_where(unexpired((members::Entity, members::Column::ExpiresAt), today))
        .and_where(Expr::col((tree, group)).eq(Expr::col((namespaces::Entity, namespaces::Column::Id))))
        .take()
}

/// Returns the requirement for a user who uses a session or password, and starts or clears the grace period.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn check(backend: &Backend, user: &users::Model) -> Result<TwoFactorRequirement> {
    if user.two_factor_enabled {
        return Ok(TwoFactorRequirement::Met);
    }
    let period = grace_period(backend, user.id).await?;
    let (start, requirement) = period.apply(user, now());
    if start != user.two_factor_grace_started_at {
        let change = users::ActiveModel {
            two_factor_grace_started_at: Set(start),
            ..Default::default()
        };
        // Another request may have started the period.
        let unchanged = match user.two_factor_grace_started_at {
            Some(known) => users::Column::TwoFactorGraceStartedAt.eq(known),
            None => users::Column::TwoFactorGraceStartedAt.is_null(),
        };
        users::Entity::update_many()
            .set(change)
            .filter(users::Column::Id.eq(user.id))
            .filter(unchanged)
            .exec(backend.database.write())
            .await?;
    }
    Ok(requirement)
}

/// Checks that a client may use the correct password of a user without a second factor.
///
/// # Errors
/// Returns `Forbidden` if the user has a second factor, or had to set one up.
pub async fn check_password_suffices(backend: &Backend, user: &users::Model) -> Result<()> {
    if user.two_factor_enabled {
        return Err(Error::forbidden_because(
            "Your account uses two-factor authentication. Use a personal access token instead of the password.",
        ));
    }
    match check(backend, user).await? {
        TwoFactorRequirement::Overdue(_) => Err(Error::forbidden_because(
            "Two-factor authentication is required. Sign in with a web browser and set it up, or use a personal \
             access token instead of the password.",
        )
        .because_of(SETTING)),
        TwoFactorRequirement::Met | TwoFactorRequirement::Grace(_) => Ok(()),
    }
}

/// Checks that the session of a user may be used, and not only to set up a second factor.
///
/// # Errors
/// Returns `Forbidden` if the user had to set up a second factor.
pub async fn check_session_suffices(backend: &Backend, user: &users::Model) -> Result<()> {
    match check(backend, user).await? {
        TwoFactorRequirement::Overdue(_) => Err(Error::forbidden_because(format!(
            "Two-factor authentication is required. Set it up at {}/users/two_factor",
            backend.instance.base_url
        ))
        .because_of(SETTING)),
        TwoFactorRequirement::Met | TwoFactorRequirement::Grace(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_depends_on_factor_period_and_time() {
        let start = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        let after = |minutes| start + TimeDelta::minutes(minutes);
        let state =
            |enabled, hours, minutes| TwoFactorRequirement::new(enabled, hours, start, after(minutes));
        assert_eq!(state(false, None, 9_999), TwoFactorRequirement::Met);
        assert_eq!(state(true, Some(0), 9_999), TwoFactorRequirement::Met);
        assert_eq!(state(false, Some(0), 0), TwoFactorRequirement::Overdue(start));
        assert_eq!(
            state(false, Some(-5), 0),
            TwoFactorRequirement::Overdue(after(-300))
        );
        assert_eq!(
            state(false, Some(2), 119),
            TwoFactorRequirement::Grace(Some(after(120)))
        );
        assert_eq!(
            state(false, Some(2), 120),
            TwoFactorRequirement::Overdue(after(120))
        );
        assert!(matches!(
            state(false, Some(i32::MAX), 1),
            TwoFactorRequirement::Grace(_)
        ));
    }
}
