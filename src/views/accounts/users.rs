//! Users.

use chrono::{DateTime, Utc};
use domain::accounts::users::listing::{ProfileDetail, UserExtras, UserProfile};
use domain::spaces::projects::stars;
use storage::entities::custom_attributes;
use storage::entities::users::{self, Model, UserSummary};

use crate::views::accounts::custom_attribute::custom_attribute;
use crate::views::links;
use contract::MaybeUndefined;
use contract::{Author, CurrentUser, Starrer, User, UserIdentity, UserReference, UserState};

/// Returns the state in the two values of the contract. Deactivated users count as blocked, because their
/// tokens are rejected.
#[must_use]
pub fn state(state: users::UserState) -> UserState {
    match state {
        users::UserState::Active => UserState::Active,
        users::UserState::Blocked | users::UserState::Deactivated | users::UserState::LdapBlocked => {
            UserState::Blocked
        }
    }
}

/// Returns the URL of a user's profile.
#[must_use]
pub fn web_url(base: &str, user: &Model) -> String {
    format!("{base}/{}", user.username)
}

/// Returns the URL of a user's avatar, which only deleted users do not have.
#[must_use]
pub fn avatar_url(base: &str, user: &Model) -> Option<String> {
    Some(links::user_avatar_url(base, user.id, user.avatar.as_deref()))
}

/// Returns a user inside of another resource.
#[must_use]
pub fn reference(base: &str, user: impl Into<UserSummary>) -> UserReference {
    let user = user.into();
    UserReference {
        id: user.id,
        state: state(user.state),
        avatar_url: Some(links::user_avatar_url(base, user.id, user.avatar.as_deref())),
        web_url: format!("{base}/{}", user.username),
        username: user.username,
        name: user.name,
    }
}

/// Returns the creator of a resource, or the ghost user if deleted.
#[must_use]
pub fn creator(base: &str, maker: Option<impl Into<UserSummary>>) -> UserReference {
    maker.map_or_else(|| ghost(base), |user| reference(base, user))
}

fn ghost(base: &str) -> UserReference {
    UserReference {
        id: 0,
        username: "ghost".to_owned(),
        name: "Ghost User".to_owned(),
        state: UserState::Blocked,
        avatar_url: None,
        web_url: format!("{base}/ghost"),
    }
}

/// Returns the author of a text written at this time, or the ghost user if deleted.
#[must_use]
pub fn author(base: &str, writer: Option<Model>, written: DateTime<Utc>) -> Author {
    let Some(user) = writer else {
        let ghost = ghost(base);
        return Author {
            id: ghost.id,
            username: ghost.username,
            name: ghost.name,
            state: ghost.state,
            avatar_url: ghost.avatar_url,
            web_url: ghost.web_url,
            email: String::new(),
            created_at: written.into(),
        };
    };
    Author {
        avatar_url: avatar_url(base, &user),
        web_url: web_url(base, &user),
        state: state(user.state),
        id: user.id,
        username: user.username,
        name: user.name,
        email: user.email,
        created_at: user.created_at.into(),
    }
}

/// Returns a user who starred a project.
#[must_use]
pub fn starrer(base: &str, found: &stars::Starrer) -> Starrer {
    Starrer {
        starred_since: found.since.into(),
        user: reference(base, &found.user),
    }
}

/// Returns null for no value, as opposed to an absent field.
fn nullable<T>(value: Option<impl Into<T>>) -> MaybeUndefined<T> {
    match value {
        Some(value) => MaybeUndefined::Value(value.into()),
        None => MaybeUndefined::Null,
    }
}

/// Returns a user with the fields that every caller may see.
#[must_use]
pub fn without_profile(base: &str, user: impl Into<UserSummary>) -> User {
    let shown = reference(base, user);
    User {
        id: shown.id,
        username: shown.username,
        name: shown.name,
        state: shown.state,
        avatar_url: shown.avatar_url,
        web_url: shown.web_url,
        created_at: MaybeUndefined::Undefined,
        bio: MaybeUndefined::Undefined,
        location: MaybeUndefined::Undefined,
        public_email: MaybeUndefined::Undefined,
        skype: None,
        linkedin: None,
        twitter: None,
        website_url: None,
        organization: MaybeUndefined::Undefined,
        job_title: MaybeUndefined::Undefined,
        bot: None,
        locked: None,
        namespace_id: MaybeUndefined::Undefined,
        commit_email: None,
        last_sign_in_at: MaybeUndefined::Undefined,
        confirmed_at: MaybeUndefined::Undefined,
        last_activity_on: MaybeUndefined::Undefined,
        email: None,
        theme_id: MaybeUndefined::Undefined,
        color_scheme_id: None,
        projects_limit: None,
        current_sign_in_at: MaybeUndefined::Undefined,
        identities: None,
        can_create_group: None,
        can_create_project: None,
        two_factor_enabled: None,
        external: None,
        private_profile: None,
        note: MaybeUndefined::Undefined,
        is_admin: None,
        custom_attributes: None,
    }
}

/// Returns a user with the fields that the caller may see.
#[must_use]
pub fn user(profile: UserProfile, base: &str) -> User {
    let UserProfile { user, detail } = profile;
    let mut view = without_profile(base, &user);
    match detail {
        ProfileDetail::Reference => {}
        ProfileDetail::Public => add_public(&mut view, user),
        ProfileDetail::Full(known) => {
            add_public(&mut view, user.clone());
            add_rest(&mut view, user, known);
        }
    }
    view
}

/// Returns a user with custom attributes, if an administrator requested them.
#[must_use]
pub fn user_with_attributes(
    profile: UserProfile,
    custom_attributes: Option<Vec<custom_attributes::Model>>,
    base: &str,
) -> User {
    User {
        custom_attributes: custom_attributes.map(|rows| rows.iter().map(custom_attribute).collect()),
        ..user(profile, base)
    }
}

fn add_public(view: &mut User, user: Model) {
    view.created_at = MaybeUndefined::Value(user.created_at.into());
    view.bio = nullable(user.bio);
    view.location = nullable(user.location);
    view.public_email = nullable(user.public_email);
    view.skype = Some(user.skype);
    view.linkedin = Some(user.linkedin);
    view.twitter = Some(user.twitter);
    view.website_url = Some(user.website_url);
    view.organization = nullable(user.organization);
    view.job_title = nullable(user.job_title);
    view.bot = Some(user.bot);
}

fn add_rest(view: &mut User, user: Model, known: UserExtras) {
    view.can_create_project = Some(can_create_project(&user, &known));
    view.namespace_id = nullable(known.namespace_id);
    view.commit_email = Some(user.email.clone());
    view.locked = Some(known.locked);
    view.identities = Some(identities(known));
    view.last_sign_in_at = nullable(user.last_sign_in_at);
    view.confirmed_at = nullable(user.confirmed_at);
    view.last_activity_on = nullable(user.last_activity_on);
    view.email = Some(user.email);
    view.theme_id = MaybeUndefined::Value(user.theme_id.into());
    view.color_scheme_id = Some(user.color_scheme_id.into());
    view.projects_limit = Some(user.projects_limit.into());
    view.current_sign_in_at = nullable(user.current_sign_in_at);
    view.can_create_group = Some(user.can_create_group);
    view.two_factor_enabled = Some(user.two_factor_enabled);
    view.external = Some(user.external);
    view.private_profile = Some(user.private_profile);
    view.note = nullable(user.note);
    view.is_admin = Some(user.admin);
}

fn can_create_project(user: &Model, known: &UserExtras) -> bool {
    u64::try_from(user.projects_limit).is_ok_and(|limit| known.personal_projects < limit)
}

fn identities(known: UserExtras) -> Vec<UserIdentity> {
    let shown = |row: storage::entities::user_identities::Model| UserIdentity {
        provider: row.provider,
        extern_uid: row.extern_uid,
    };
    known.identities.into_iter().map(shown).collect()
}

/// Returns the caller's own account.
#[must_use]
pub fn current(user: Model, known: UserExtras, base: &str) -> CurrentUser {
    CurrentUser {
        id: user.id,
        state: state(user.state),
        avatar_url: avatar_url(base, &user),
        web_url: web_url(base, &user),
        can_create_project: can_create_project(&user, &known),
        bot: user.bot,
        namespace_id: known.namespace_id,
        commit_email: user.email.clone(),
        username: user.username,
        name: user.name,
        created_at: Some(user.created_at.into()),
        bio: user.bio,
        location: user.location,
        public_email: user.public_email,
        skype: user.skype,
        linkedin: user.linkedin,
        twitter: user.twitter,
        website_url: user.website_url,
        organization: user.organization,
        job_title: user.job_title,
        last_sign_in_at: user.last_sign_in_at.map(Into::into),
        confirmed_at: user.confirmed_at.map(Into::into),
        last_activity_on: user.last_activity_on,
        email: user.email,
        theme_id: Some(user.theme_id.into()),
        color_scheme_id: user.color_scheme_id.into(),
        projects_limit: user.projects_limit.into(),
        current_sign_in_at: user.current_sign_in_at.map(Into::into),
        identities: identities(known),
        can_create_group: user.can_create_group,
        two_factor_enabled: user.two_factor_enabled,
        external: user.external,
        private_profile: user.private_profile,
        is_admin: user.admin.then_some(true),
    }
}
