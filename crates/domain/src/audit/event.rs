//! Parts of an audit event.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use storage::entities::audit_events::AuditEntityType;
use storage::entities::{namespaces, projects, users};

use super::actor::Actor;
use super::kinds::{AuditKind, Change};
use crate::kernel::urls::project_path;

/// ID of the instance as an entity.
const INSTANCE_ID: i64 = 1;

/// Maximum number of characters of a text in the details.
const MAX_TEXT: usize = 1024;

/// The resource that an event belongs to.
#[derive(Debug, Clone)]
pub struct AuditEntity {
    pub(super) kind: AuditEntityType,
    pub(super) id: i64,
    /// Username, full path or `Instance`.
    pub(super) path: String,
}

impl AuditEntity {
    /// Returns a user.
    #[must_use]
    pub fn user(user: &users::Model) -> Self {
        Self {
            kind: AuditEntityType::User,
            id: user.id,
            path: user.username.clone(),
        }
    }

    /// Returns the ID of the resource.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Returns a group, or the owner of a personal namespace.
    #[must_use]
    pub fn namespace(namespace: &namespaces::Model) -> Self {
        let (kind, id) = match namespace.owner_id {
            Some(owner) => (AuditEntityType::User, owner),
            None => (AuditEntityType::Group, namespace.id),
        };
        Self {
            kind,
            id,
            path: namespace.full_path.clone(),
        }
    }

    /// Returns a project in its namespace.
    #[must_use]
    pub fn project(namespace: &namespaces::Model, project: &projects::Model) -> Self {
        Self {
            kind: AuditEntityType::Project,
            id: project.id,
            path: project_path(namespace, project),
        }
    }

    /// Returns the instance.
    #[must_use]
    pub fn instance() -> Self {
        Self {
            kind: AuditEntityType::Instance,
            id: INSTANCE_ID,
            path: "Instance".to_owned(),
        }
    }
}

/// The object of an action, which can be the entity itself or a part of it.
#[derive(Debug, Clone)]
pub struct AuditTarget {
    kind: &'static str,
    id: Option<i64>,
    description: String,
}

impl AuditTarget {
    /// Returns an object by its type, its ID and a text that is not secret.
    pub fn new(kind: &'static str, id: i64, description: impl Into<String>) -> Self {
        Self {
            kind,
            id: Some(id),
            description: description.into(),
        }
    }

    /// Returns an object that has only a name.
    pub fn named(kind: &'static str, name: impl Into<String>) -> Self {
        Self {
            kind,
            id: None,
            description: name.into(),
        }
    }

    /// Returns a user.
    #[must_use]
    pub fn user(user: &users::Model) -> Self {
        Self::new("User", user.id, user.username.clone())
    }

    /// Returns a group by its full path.
    #[must_use]
    pub fn group(group: &namespaces::Model) -> Self {
        Self::new("Group", group.id, group.full_path.clone())
    }
}

impl From<&AuditEntity> for AuditTarget {
    fn from(entity: &AuditEntity) -> Self {
        let kind = match entity.kind {
            AuditEntityType::User => "User",
            AuditEntityType::Group => "Group",
            AuditEntityType::Project => "Project",
            AuditEntityType::Instance => "Instance",
        };
        Self::new(kind, entity.id, entity.path.clone())
    }
}

/// An event to record.
#[derive(Debug, Clone)]
pub struct AuditEvent {
    pub(super) kind: AuditKind,
    pub(super) entity: AuditEntity,
    target: AuditTarget,
    from: Option<String>,
    to: Option<String>,
    attribute: Option<&'static str>,
}

impl AuditEvent {
    /// Returns an event of an entity about an object that belongs to the entity.
    #[must_use]
    pub fn new(kind: AuditKind, entity: AuditEntity, target: AuditTarget) -> Self {
        Self {
            kind,
            entity,
            target,
            from: None,
            to: None,
            attribute: None,
        }
    }

    /// Returns an event whose object is the entity itself.
    #[must_use]
    pub fn of(kind: AuditKind, entity: AuditEntity) -> Self {
        let target = AuditTarget::from(&entity);
        Self::new(kind, entity, target)
    }

    /// Returns the event with the value before the change.
    #[must_use]
    pub fn from(mut self, value: impl Display) -> Self {
        self.from = Some(value.to_string());
        self
    }

    /// Returns the event with the value after the change.
    #[must_use]
    pub fn to(mut self, value: impl Display) -> Self {
        self.to = Some(value.to_string());
        self
    }

    /// Returns the event with the name of the attribute that changed.
    #[must_use]
    pub fn attribute(mut self, name: &'static str) -> Self {
        self.attribute = Some(name);
        self
    }

    /// Returns the details of the event with its author.
    pub(super) fn details(&self, actor: &Actor) -> AuditDetails {
        let object = self.attribute.unwrap_or(self.kind.object()).to_owned();
        let mut details = AuditDetails {
            event_name: self.kind.name().to_owned(),
            author_name: bounded(&actor.name),
            target_id: self.target.id,
            target_type: self.target.kind.to_owned(),
            target_details: bounded(&self.target.description),
            entity_path: self.entity.path.clone(),
            from: self.from.as_deref().map(bounded),
            to: self.to.as_deref().map(bounded),
            ip_address: actor.ip_address.map(|address| address.to_string()),
            administrator_id: actor.administrator.as_ref().map(|(id, _)| *id),
            administrator_name: actor.administrator.as_ref().map(|(_, name)| bounded(name)),
            access_token_id: actor.access_token_id,
            ..AuditDetails::default()
        };
        match self.kind.change() {
            Change::Add => details.add = Some(object),
            Change::Change => details.change = Some(object),
            Change::Remove => details.remove = Some(object),
            Change::Message => details.custom_message = Some(object),
        }
        details
    }
}

/// Returns the text, truncated so that an event is small.
fn bounded(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// Details of an event as they are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditDetails {
    /// Name of the kind of event.
    pub event_name: String,
    /// Name of the author at that time.
    pub author_name: String,
    /// Kind of object that was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// Attribute or kind of object that was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Kind of object that was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
    /// Name of an action that adds, changes or removes no object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_message: Option<String>,
    /// Value before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Value after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// ID of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_id: Option<i64>,
    /// Type of the object.
    pub target_type: String,
    /// Name or path of the object at that time.
    pub target_details: String,
    /// Username or full path of the entity at that time, or `Instance`.
    pub entity_path: String,
    /// Address of the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_address: Option<String>,
    /// ID of the administrator who acted as the author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub administrator_id: Option<i64>,
    /// Name of that administrator at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub administrator_name: Option<String>,
    /// ID of the access token of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token_id: Option<i64>,
}
