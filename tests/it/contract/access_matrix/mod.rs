//! Every operation, called by every kind of caller on resources of every visibility.
//!
//! The expected response is computed here from `x-access` and `x-scope` as described in `openapi/EXTENSIONS.md`,
//! without the policy code of the server.

mod fixtures;
mod requests;
mod statement_counts;

use std::sync::atomic::AtomicUsize;

use contract::operation::{MinimumAccess, Operation, ResourceKind};
use contract::table::operations;
use domain::audit::Actor;
use domain::identity::access_tokens::{NewToken, create as create_token};
use domain::identity::job_tokens;
use fixtures::{Space, attach, create_space};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use storage::entities::access_tokens::TokenKind;
use storage::entities::{AccessLevel, Visibility};

use crate::code::snippets;
use crate::delivery::feature_flags_clients::FlagsProject;
use crate::delivery::variables;
use crate::support::users::TestUser;
use crate::support::{ApiResponse, Client, TestServer, on_every_database, openpgp, spaces};

/// A public key.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC1lZHt8tfHU6emCnvkfhBBOCd0UGsSsNvg8JqKvMAgu";
/// Fingerprint of [`KEY`].
const FINGERPRINT: &str = "SHA256:LZJ2f+fWkE6KROMr6AoFjpP+uFcWfJrvl4vhaMuy7HU";

/// Reads of resources that most callers lack, and of project resources whose path does not name the project.
/// They return 404 and have their own tests.
const OWN_THINGS: [&str; 19] = [
    "get_own_email",
    "get_own_key",
    "get_own_gpg_key",
    "get_commit_signature",
    "get_vulnerability",
    "get_issue_by_id",
    "get_issue_label_event",
    "get_issue_state_event",
    "get_issue_milestone_event",
    "get_merge_request_label_event",
    "get_merge_request_state_event",
    "get_merge_request_milestone_event",
    "download_group_export",
    // Guests of a private group cannot read the packages of its projects.
    "get_group_npm_package",
    "download_group_npm_package",
    "list_group_npm_package_tags",
    "get_group_python_package",
    "download_group_python_package",
    "download_group_maven_file",
];

/// An ID that does not exist.
const MISSING: i64 = 999_999_999;

/// The roles, lowest first.
const ROLES: [AccessLevel; 5] =
    [AccessLevel::Guest, AccessLevel::Reporter, AccessLevel::Developer, AccessLevel::Maintainer, AccessLevel::Owner];

/// The relation of a caller to the requested resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// No credentials.
    Anonymous,
    /// An owner by role, with a token that only has the scope `read_user`.
    WrongScope,
    /// Authenticated, without a role.
    Stranger,
    /// An owner whose membership expired yesterday.
    Expired,
    /// A direct member of the resource.
    Member(AccessLevel),
    /// A member of the group two levels above it.
    Inherited(AccessLevel),
    /// An owner of a group with which the group two levels above it is shared at this level.
    Invited(AccessLevel),
    /// A job of the private project, run for an owner.
    Job,
    /// The user that the path names.
    Target,
    /// An administrator.
    Admin,
}

/// The expected response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// 401.
    Unauthorized,
    /// 403 with `insufficient_scope`.
    InsufficientScope,
    /// The response for a missing resource.
    Hidden,
    /// 403.
    Forbidden,
    /// 404 in a project that is visible to the caller.
    Absent,
    /// Any response of the operation itself.
    Admitted,
}

/// Calls that the contract's rule admits and a service rejects, with the reason.
const SERVICE_RULES: [(&str, Caller, Visibility, &str); 16] = [
    ("deactivate_user", Caller::Admin, Visibility::Private, ACTIVE_USERS_STAY),
    ("create_commit_comment", Caller::Member(AccessLevel::Guest), Visibility::Private, READERS_COMMENT),
    ("create_commit_comment", Caller::Inherited(AccessLevel::Guest), Visibility::Private, READERS_COMMENT),
    ("create_commit_comment", Caller::Invited(AccessLevel::Guest), Visibility::Private, READERS_COMMENT),
    ("create_merge_request_todo", Caller::Member(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("create_merge_request_todo", Caller::Inherited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("create_merge_request_todo", Caller::Invited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("list_approval_rules", Caller::Member(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("list_approval_rules", Caller::Inherited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("list_approval_rules", Caller::Invited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("get_approval_rule", Caller::Member(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("get_approval_rule", Caller::Inherited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("get_approval_rule", Caller::Invited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("get_project_statistics", Caller::Member(AccessLevel::Guest), Visibility::Private, READERS_COUNT),
    ("get_project_statistics", Caller::Inherited(AccessLevel::Guest), Visibility::Private, READERS_COUNT),
    ("get_project_statistics", Caller::Invited(AccessLevel::Guest), Visibility::Private, READERS_COUNT),
];

/// Reads on merge requests, which return 404 to Guests of a private project because they cannot read the code.
const FOR_READERS_OF_CODE: [&str; 12] = [
    "list_merge_request_notes",
    "get_merge_request_note",
    "list_merge_request_award_emoji",
    "get_merge_request_award_emoji",
    "list_merge_request_note_award_emoji",
    "get_merge_request_note_award_emoji",
    "list_merge_request_label_events",
    "list_merge_request_state_events",
    "list_merge_request_milestone_events",
    "get_merge_request_label_event",
    "get_merge_request_state_event",
    "get_merge_request_milestone_event",
];

const ACTIVE_USERS_STAY: &str = "a recently active user cannot be deactivated";
const READERS_COUNT: &str = "only users with code access can read its fetches";
const READERS_REVIEW: &str = "only users with code access can use its merge requests";
const READERS_COMMENT: &str = "only users with code access can comment on its commits";

fn level(minimum: MinimumAccess) -> Option<AccessLevel> {
    match minimum {
        MinimumAccess::None | MinimumAccess::Admin => None,
        MinimumAccess::Guest => Some(AccessLevel::Guest),
        MinimumAccess::Reporter => Some(AccessLevel::Reporter),
        MinimumAccess::Developer => Some(AccessLevel::Developer),
        MinimumAccess::Maintainer => Some(AccessLevel::Maintainer),
        MinimumAccess::Owner => Some(AccessLevel::Owner),
    }
}

fn expected(operation: &Operation, caller: Caller, visibility: Visibility) -> Expected {
    let access = operation.access;
    let caller = match caller {
        // An operation without support for job tokens treats a job as anonymous.
        Caller::Job if !operation.job_token => Caller::Anonymous,
        Caller::Job if visibility == Visibility::Private => return Expected::Admitted,
        Caller::Job => return Expected::Hidden,
        other => other,
    };
    // Only identity providers can call SCIM operations, which have their own tests.
    if access.on == ResourceKind::Scim {
        return Expected::Unauthorized;
    }
    let on_place = matches!(access.on, ResourceKind::Project | ResourceKind::Group);
    let role = match caller {
        Caller::Anonymous if !access.anonymous => return Expected::Unauthorized,
        Caller::WrongScope if !operation.scopes.contains(&"read_user") => {
            return Expected::InsufficientScope;
        }
        Caller::Admin => return Expected::Admitted,
        Caller::Member(role) | Caller::Inherited(role) | Caller::Invited(role) => Some(role),
        Caller::WrongScope if on_place => Some(AccessLevel::Owner),
        Caller::Target => Some(AccessLevel::Owner),
        Caller::Anonymous | Caller::Stranger | Caller::Expired | Caller::WrongScope | Caller::Job => None,
    };
    let open = match visibility {
        Visibility::Public => true,
        Visibility::Internal => caller != Caller::Anonymous,
        Visibility::Private => false,
    };
    if on_place && role.is_none() && !open {
        // Clients of packages are asked for credentials.
        return match operation.package_client && caller == Caller::Anonymous {
            true => Expected::Unauthorized,
            false => Expected::Hidden,
        };
    }
    let enough = match (access.min, level(access.min)) {
        (MinimumAccess::None, _) => true,
        (_, Some(least)) => role >= Some(least),
        (_, None) => false,
    };
    if enough || (access.anonymous && open) { Expected::Admitted } else { Expected::Forbidden }
}

/// Returns the callers of an operation: all non-members, and roles up to the minimum role. In private spaces, direct
/// members have each of these roles. The others have the minimum role and the one below it, because all operations look
/// up the role in the same way. Internal spaces differ from the others only for non-members.
fn callers(operation: &Operation, visibility: Visibility) -> Vec<Caller> {
    if operation.no_credentials {
        return vec![Caller::Anonymous];
    }
    if visibility == Visibility::Internal {
        return vec![Caller::Anonymous, Caller::Stranger, Caller::Expired];
    }
    let mut callers = vec![Caller::Anonymous, Caller::WrongScope, Caller::Stranger, Caller::Job, Caller::Admin];
    match operation.access.on {
        ResourceKind::Instance | ResourceKind::Scim => {}
        ResourceKind::User => callers.push(Caller::Target),
        ResourceKind::Project | ResourceKind::Group => {
            callers.push(Caller::Expired);
            let least = match operation.access.min {
                MinimumAccess::Admin => AccessLevel::Owner,
                minimum => level(minimum).unwrap_or(AccessLevel::Guest),
            };
            let roles = &ROLES[..=index(least)];
            let highest = &roles[roles.len().saturating_sub(2)..];
            let is_private = visibility == Visibility::Private;
            let direct = if is_private { roles } else { highest };
            callers.extend(direct.iter().map(|role| Caller::Member(*role)));
            if is_private {
                callers.extend(highest.iter().flat_map(|role| [Caller::Inherited(*role), Caller::Invited(*role)]));
            }
        }
    }
    callers
}

/// All callers and resources.
struct Fixture<'a> {
    anonymous: Client,
    wrong_scope: Client,
    non_member: Client,
    expired: Client,
    job: Client,
    members: Vec<TestUser>,
    inherited: Vec<TestUser>,
    invited: Vec<TestUser>,
    target: TestUser,
    root: Client,
    impersonation_token: i64,
    /// An SSH key of the target.
    key: i64,
    /// A GPG key of the target.
    gpg_key: i64,
    /// A public snippet outside of projects.
    snippet: i64,
    /// The instance ID of the feature flag clients of the first project.
    instance_id: String,
    spaces: Vec<Space<'a>>,
    calls: AtomicUsize,
}

impl<'a> Fixture<'a> {
    async fn build(server: &'a TestServer) -> Self {
        let mut members = Vec::new();
        let mut inherited = Vec::new();
        let mut invited = Vec::new();
        let mut guests = Vec::new();
        for role in ROLES {
            let name = format!("{role:?}").to_lowercase();
            members.push(server.create_user(&format!("member-{name}")).await);
            inherited.push(server.create_user(&format!("heir-{name}")).await);
            let user = server.create_user(&format!("invited-{name}")).await;
            let group = server.insert_group(&format!("invited-as-{name}"), Visibility::Private).await;
            server.insert_owner(group, user.id).await;
            invited.push(user);
            guests.push((group, role));
        }
        let expired = server.create_user("expired").await;
        let target = server.create_user("target").await;
        let owner = members.last().expect("an owner");
        let narrow = server.create_token(owner.id, &["read_user"]).await;
        let new = NewToken {
            user_id: target.id,
            name: "impersonation".to_owned(),
            kind: TokenKind::Impersonation,
            scopes: vec!["api".to_owned()],
            expires_at: None,
            created_by_id: None,
            secret: None,
        };
        let impersonation = create_token(&server.backend, &Actor::system(), new).await.expect("a token").0;
        let key = json!({ "title": "laptop", "key": KEY });
        let key = target.client.post("/user/keys", key).await.expect(201);
        let gpg_key = json!({ "key": openpgp::ADA });
        let gpg_key = target.client.post("/user/gpg_keys", gpg_key).await.expect(201);
        let mut built = Vec::new();
        for (visibility, name) in
            [(Visibility::Private, "private"), (Visibility::Internal, "internal"), (Visibility::Public, "public")]
        {
            built.push(create_space(server, visibility, name, &members, &inherited, &guests, &expired).await);
        }
        attach(server, &format!("/users/{}", target.id)).await;
        variables::variable(&server.root(), "/admin/ci/variables", "there").await;
        let (space, hour) = (&built[0], chrono::TimeDelta::hours(1));
        let (_, job) = job_tokens::create(server.backend.database.write(), owner.id, space.project.id, hour)
            .await
            .expect("a token");
        Self {
            anonymous: server.anonymous(),
            wrong_scope: server.with_token(&narrow),
            non_member: server.create_user("stranger").await.client,
            expired: expired.client,
            job: server.anonymous().header("Job-Token", &job),
            members,
            inherited,
            invited,
            target,
            root: server.root(),
            impersonation_token: impersonation.id,
            key: spaces::id(&key.json()),
            gpg_key: spaces::id(&gpg_key.json()),
            instance_id: FlagsProject::of(&server.root(), space.project.id).await.instance_id,
            snippet: snippets::snippet(&server.root(), "", "there", json!({"visibility": "public"})).await,
            spaces: built,
            calls: AtomicUsize::new(0),
        }
    }

    fn client(&self, caller: Caller) -> &Client {
        match caller {
            Caller::Anonymous => &self.anonymous,
            Caller::WrongScope => &self.wrong_scope,
            Caller::Stranger => &self.non_member,
            Caller::Expired => &self.expired,
            Caller::Job => &self.job,
            Caller::Member(role) => &self.members[index(role)].client,
            Caller::Inherited(role) => &self.inherited[index(role)].client,
            Caller::Invited(role) => &self.invited[index(role)].client,
            Caller::Target => &self.target.client,
            Caller::Admin => &self.root,
        }
    }

    /// Sends an operation's request. Reads name existing resources. Writes name missing ones or send an old date, so
    /// that resources of later requests stay unchanged.
    async fn call(&self, operation: &Operation, caller: Caller, space: &Space<'_>, key: i64) -> ApiResponse {
        let request = self.request(operation, caller, space, key);
        self.client(caller).send(request).await
    }

    /// Returns the ID of the resource that an operation is called on.
    fn key_of(&self, operation: &Operation, space: &Space<'_>) -> i64 {
        match operation.access.on {
            ResourceKind::Instance | ResourceKind::Scim => 0,
            // Another operation may have blocked the target, and a blocked user cannot be activated.
            ResourceKind::User if operation.id == "activate_user" => self.members[0].id,
            ResourceKind::User => self.target.id,
            ResourceKind::Group => space.group,
            ResourceKind::Project if changes_project(operation.id) => space.spare,
            ResourceKind::Project => space.project.id,
        }
    }

    /// Returns an error if a read's entity tag is not revalidated while nothing changes.
    async fn revalidate(&self, operation: &Operation) -> Option<String> {
        let space = &self.spaces[0];
        let key = self.key_of(operation, space);
        let request = || self.request(operation, Caller::Admin, space, key);
        let first = self.root.send(request()).await;
        let tag = first.header("etag");
        if tag.is_empty() {
            let lacks = operation.statuses.contains(&304) && first.status == 200;
            return lacks.then(|| format!("{} has no entity tag", operation.id));
        }
        let again = self.root.send(request().header("If-None-Match", tag)).await;
        let not_modified = (again.status, again.header("etag")) == (304, tag);
        (!not_modified).then(|| format!("{} is not revalidated: {}", operation.id, again.status))
    }

    /// Returns the unexpected responses of an operation.
    async fn errors(&self, operation: &Operation) -> Vec<String> {
        let mut errors = Vec::new();
        let spaces = match operation.access.on {
            ResourceKind::Project | ResourceKind::Group => &self.spaces[..],
            ResourceKind::Instance | ResourceKind::User | ResourceKind::Scim => &self.spaces[..1],
        };
        for space in spaces {
            let key = self.key_of(operation, space);
            for caller in callers(operation, space.visibility) {
                let response = self.call(operation, caller, space, key).await;
                let mut expected = expected(operation, caller, space.visibility);
                let own_rule = SERVICE_RULES
                    .iter()
                    .find(|(id, who, shown, _)| *id == operation.id && *who == caller && *shown == space.visibility);
                if own_rule.is_some() {
                    expected = Expected::Forbidden;
                }
                let guest = matches!(
                    caller,
                    Caller::Member(AccessLevel::Guest)
                        | Caller::Inherited(AccessLevel::Guest)
                        | Caller::Invited(AccessLevel::Guest)
                );
                let private = space.visibility == Visibility::Private;
                if guest && private && FOR_READERS_OF_CODE.contains(&operation.id) {
                    expected = Expected::Absent;
                }
                let missing = match operation.access.on {
                    ResourceKind::Project | ResourceKind::Group if is_compared(operation, expected) => {
                        Some(self.call(operation, caller, space, MISSING).await)
                    }
                    _ => None,
                };
                if !fits(operation, expected, &response, missing.as_ref()) {
                    let reason = own_rule.map_or("", |(_, _, _, reason)| reason);
                    errors.push(format!(
                        "{} by {caller:?} on {:?}: {expected:?} {reason}, but answered {} {}",
                        operation.id,
                        space.visibility,
                        response.status,
                        String::from_utf8_lossy(&response.body[..response.body.len().min(200)]),
                    ));
                }
            }
        }
        errors
    }
}

/// Returns whether an operation changes the project as a whole and must use the spare project.
fn changes_project(id: &str) -> bool {
    let changes = ["update_project", "delete_project", "archive_project", "unarchive_project", "restore_project"];
    // The fixture contains the instance ID of the other project.
    changes.contains(&id) || id == "reset_feature_flags_client_token"
}

fn index(role: AccessLevel) -> usize {
    ROLES.iter().position(|other| *other == role).expect("a role")
}

/// Returns whether the response has to be compared with the one for a missing resource.
fn is_compared(operation: &Operation, expected: Expected) -> bool {
    match expected {
        Expected::Hidden | Expected::Absent => true,
        Expected::Admitted => !operation.is_read() || OWN_THINGS.contains(&operation.id),
        Expected::Unauthorized | Expected::InsufficientScope | Expected::Forbidden => false,
    }
}

fn fits(operation: &Operation, expected: Expected, response: &ApiResponse, missing: Option<&ApiResponse>) -> bool {
    let same = missing.is_some_and(|missing| missing.status == response.status && missing.body == response.body);
    let message = || {
        if operation.method == "HEAD" { Value::Null } else { response.json()["error"].clone() }
    };
    match expected {
        Expected::Unauthorized => response.status == 401,
        Expected::InsufficientScope => {
            response.status == 403 && (operation.method == "HEAD" || message() == "insufficient_scope")
        }
        Expected::Hidden => response.status == 404 && same,
        Expected::Forbidden => {
            response.status == 403 && (operation.method == "HEAD" || message() != "insufficient_scope")
        }
        Expected::Absent => response.status == 404 && !same,
        Expected::Admitted if OWN_THINGS.contains(&operation.id) => matches!(response.status, 200 | 404),
        Expected::Admitted if operation.is_read() => response.status == operation.success,
        Expected::Admitted => {
            let hidden = response.status == 404 && same;
            !hidden && !matches!(response.status, 401 | 403)
        }
    }
}

async fn every_caller_gets_the_status_of_the_contract(server: TestServer) {
    let fixture = Fixture::build(&server).await;
    let mut errors = Vec::new();
    // Sequential and before any write, so that nothing changes between the two requests.
    for operation in operations().iter().filter(|operation| operation.is_read()) {
        errors.extend(fixture.revalidate(operation).await);
    }
    let responses = futures_util::stream::iter(operations().iter()).map(|operation| fixture.errors(operation));
    errors.extend(responses.buffer_unordered(4).collect::<Vec<_>>().await.concat());
    assert!(errors.is_empty(), "{} wrong answers:\n{}", errors.len(), errors.join("\n"));
}

on_every_database![every_caller_gets_the_status_of_the_contract,];
