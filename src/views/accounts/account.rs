//! SSH keys, GPG keys, email addresses, statuses and memberships of users.

use domain::accounts::users::key_lookups::FoundKey;
use domain::accounts::users::memberships::{self, NamedMembership};
use storage::entities::{gpg_keys, user_emails, user_keys, user_statuses};

use crate::views::accounts::users::user;
use crate::views::enums::Convert;
use crate::views::html::escape;
use contract::{
    DeployKeyProject, GpgKey, MembershipSource, SshKey, UserEmail, UserKey, UserMembership, UserStatus,
};

/// Returns an SSH key.
#[must_use]
pub fn key(key: user_keys::Model) -> UserKey {
    UserKey {
        id: key.id,
        title: key.title,
        key: key.key,
        created_at: key.created_at.into(),
        expires_at: key.expires_at.map(Into::into),
        usage_type: key.usage_type.convert(),
    }
}

/// Returns a GPG key.
#[must_use]
pub fn gpg_key(key: gpg_keys::Model) -> GpgKey {
    GpgKey {
        id: key.id,
        key: key.key,
        created_at: key.created_at.into(),
    }
}

/// Returns an SSH key with its user, or a deploy key with its projects.
#[must_use]
pub fn found_key(found: FoundKey, base: &str) -> SshKey {
    let projects = found.projects.into_iter().map(|row| DeployKeyProject {
        id: row.id,
        deploy_key_id: row.deploy_key_id,
        project_id: row.project_id,
        can_push: row.can_push,
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
    });
    SshKey {
        id: found.id,
        title: found.title,
        key: found.key,
        created_at: found.created_at.into(),
        expires_at: found.expires_at.map(Into::into),
        last_used_at: None,
        usage_type: found.usage_type.convert(),
        user: found.user.map(|profile| user(profile, base)),
        deploy_keys_projects: projects.collect(),
    }
}

/// Returns a secondary email address.
#[must_use]
pub fn email(email: user_emails::Model) -> UserEmail {
    UserEmail {
        id: email.id,
        email: email.email,
        confirmed_at: email.confirmed_at.map(Into::into),
    }
}

/// Returns a status; all fields are null without one.
#[must_use]
pub fn status(status: Option<user_statuses::Model>) -> UserStatus {
    let (emoji, message) = status.map(|status| (status.emoji, status.message)).unzip();
    UserStatus {
        emoji,
        message_html: message.as_deref().map(escape),
        message,
    }
}

/// Returns a direct membership.
#[must_use]
pub fn membership(named: NamedMembership) -> UserMembership {
    let (source_id, source_type) = match named.source {
        memberships::MembershipSource::Project(id) => (id, MembershipSource::Project),
        memberships::MembershipSource::Group(id) => (id, MembershipSource::Namespace),
    };
    UserMembership {
        source_id,
        source_name: named.name,
        source_type,
        access_level: i64::from(i32::from(named.access_level)),
    }
}
