//! Every operation against everybody who may call it, and who may not, on things of every visibility.
//!
//! What each of them must be answered is worked out here from `x-access` and `x-scope` as `openapi/EXTENSIONS.md`
//! explains them, and not with the server's own policy.

mod place;
mod requests;

use std::sync::atomic::AtomicUsize;

use domain::identity::access_tokens::{NewToken, create as create_token};
use domain::identity::job_tokens;
use futures_util::StreamExt as _;
use holdfast::api::contract::OPERATIONS;
use holdfast::api::operation::{Minimum, On, Operation};
use place::{Place, attach, place};
use serde_json::{Value, json};
use storage::entities::access_tokens::Kind;
use storage::entities::{AccessLevel, Visibility};

use crate::support::people::Person;
use crate::support::{Answer, Client, TestServer, on_every_database, places};
use crate::{snippets, variables};

/// A public key.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC1lZHt8tfHU6emCnvkfhBBOCd0UGsSsNvg8JqKvMAgu";

/// Reads of the caller's own things, of which most callers here have none, and of what a project has that the path does not
/// name, which tests of its own try: that is 404.
const OWN_THINGS: [&str; 4] = ["get_own_email", "get_own_key", "get_vulnerability", "download_group_export"];

/// The id of nothing.
const MISSING: i64 = 999_999_999;

/// The roles, lowest first.
const ROLES: [AccessLevel; 5] =
    [AccessLevel::Guest, AccessLevel::Reporter, AccessLevel::Developer, AccessLevel::Maintainer, AccessLevel::Owner];

/// What a caller is to the thing that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No credentials.
    Nobody,
    /// An owner by role, with a token that only has the scope `read_user`.
    WrongScope,
    /// Signed in, and nothing else.
    Stranger,
    /// Was an owner until yesterday.
    Expired,
    /// A member of the thing itself.
    Member(AccessLevel),
    /// A member of the group two levels above it.
    Heir(AccessLevel),
    /// An owner of a group with which the group two levels above it is shared at this level.
    Invited(AccessLevel),
    /// A job of the private project, run for an owner.
    Job,
    /// The user that the path names.
    Themself,
    /// An administrator.
    Admin,
}

/// What a caller must be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// 401.
    Unauthorized,
    /// 403 with `insufficient_scope`.
    InsufficientScope,
    /// What is answered for a thing that is not there.
    Hidden,
    /// 403.
    Forbidden,
    /// 404, in a project that the caller sees.
    Absent,
    /// Whatever the operation does.
    Admitted,
}

/// Where a service refuses what the contract's line admits, and why.
const SERVICE_RULES: [(&str, Standing, Visibility, &str); 7] = [
    ("deactivate_user", Standing::Admin, Visibility::Private, ACTIVE_USERS_STAY),
    ("create_commit_comment", Standing::Member(AccessLevel::Guest), Visibility::Private, READERS_COMMENT),
    ("create_commit_comment", Standing::Heir(AccessLevel::Guest), Visibility::Private, READERS_COMMENT),
    ("create_commit_comment", Standing::Invited(AccessLevel::Guest), Visibility::Private, READERS_COMMENT),
    ("create_merge_request_todo", Standing::Member(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("create_merge_request_todo", Standing::Heir(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
    ("create_merge_request_todo", Standing::Invited(AccessLevel::Guest), Visibility::Private, READERS_REVIEW),
];

/// Reads of what is on merge requests: in a private project these are not there for Guests, who may not read the code.
const FOR_READERS_OF_CODE: [&str; 6] = [
    "list_merge_request_notes",
    "get_merge_request_note",
    "list_merge_request_award_emoji",
    "get_merge_request_award_emoji",
    "list_merge_request_note_award_emoji",
    "get_merge_request_note_award_emoji",
];

const ACTIVE_USERS_STAY: &str = "who was active lately is not put to rest";
const READERS_REVIEW: &str = "only who may read the repository has to do with its merge requests";
const READERS_COMMENT: &str = "only who may read the repository may comment on its commits";

fn level(minimum: Minimum) -> Option<AccessLevel> {
    match minimum {
        Minimum::None | Minimum::Admin => None,
        Minimum::Guest => Some(AccessLevel::Guest),
        Minimum::Reporter => Some(AccessLevel::Reporter),
        Minimum::Developer => Some(AccessLevel::Developer),
        Minimum::Maintainer => Some(AccessLevel::Maintainer),
        Minimum::Owner => Some(AccessLevel::Owner),
    }
}

fn expected(operation: &Operation, standing: Standing, visibility: Visibility) -> Expected {
    let access = operation.access;
    let standing = match standing {
        // Where tokens of jobs count for nothing, a job is nobody.
        Standing::Job if !operation.jobs => Standing::Nobody,
        Standing::Job if visibility == Visibility::Private => return Expected::Admitted,
        Standing::Job => return Expected::Hidden,
        other => other,
    };
    // Identity providers alone, which tests of their own are.
    if access.on == On::Scim {
        return Expected::Unauthorized;
    }
    let on_place = matches!(access.on, On::Project | On::Group);
    let role = match standing {
        Standing::Nobody if !access.anonymous => return Expected::Unauthorized,
        Standing::WrongScope if !operation.scopes.contains(&"read_user") => {
            return Expected::InsufficientScope;
        }
        Standing::Admin => return Expected::Admitted,
        Standing::Member(role) | Standing::Heir(role) | Standing::Invited(role) => Some(role),
        Standing::WrongScope if on_place => Some(AccessLevel::Owner),
        Standing::Themself => Some(AccessLevel::Owner),
        Standing::Nobody | Standing::Stranger | Standing::Expired | Standing::WrongScope | Standing::Job => None,
    };
    let open = match visibility {
        Visibility::Public => true,
        Visibility::Internal => standing != Standing::Nobody,
        Visibility::Private => false,
    };
    if on_place && role.is_none() && !open {
        return Expected::Hidden;
    }
    let enough = match (access.min, level(access.min)) {
        (Minimum::None, _) => true,
        (_, Some(least)) => role >= Some(least),
        (_, None) => false,
    };
    if enough || (access.anonymous && open) { Expected::Admitted } else { Expected::Forbidden }
}

/// Who calls an operation: everybody outside, each role below the least one and the least one itself.
fn callers(operation: &Operation) -> Vec<Standing> {
    let mut standings =
        vec![Standing::Nobody, Standing::WrongScope, Standing::Stranger, Standing::Job, Standing::Admin];
    match operation.access.on {
        On::Instance | On::Scim => {}
        On::User => standings.push(Standing::Themself),
        On::Project | On::Group => {
            standings.push(Standing::Expired);
            let least = match operation.access.min {
                Minimum::Admin => AccessLevel::Owner,
                minimum => level(minimum).unwrap_or(AccessLevel::Guest),
            };
            let roles = ROLES.into_iter().filter(|role| *role <= least);
            standings
                .extend(roles.flat_map(|role| [Standing::Member(role), Standing::Heir(role), Standing::Invited(role)]));
        }
    }
    standings
}

/// Everybody and everything.
struct Stage<'a> {
    nobody: Client,
    wrong_scope: Client,
    stranger: Client,
    expired: Client,
    job: Client,
    members: Vec<Person>,
    heirs: Vec<Person>,
    invited: Vec<Person>,
    target: Person,
    root: Client,
    impersonation_token: i64,
    /// An SSH key of the target.
    key: i64,
    /// A public snippet outside of projects.
    snippet: i64,
    places: Vec<Place<'a>>,
    calls: AtomicUsize,
}

impl<'a> Stage<'a> {
    async fn build(server: &'a TestServer) -> Self {
        let mut members = Vec::new();
        let mut heirs = Vec::new();
        let mut invited = Vec::new();
        let mut guests = Vec::new();
        for role in ROLES {
            let name = format!("{role:?}").to_lowercase();
            members.push(server.person(&format!("member-{name}")).await);
            heirs.push(server.person(&format!("heir-{name}")).await);
            let person = server.person(&format!("invited-{name}")).await;
            let group = server.bare_group(&format!("invited-as-{name}"), Visibility::Private).await;
            server.own(group, person.id).await;
            invited.push(person);
            guests.push((group, role));
        }
        let expired = server.person("expired").await;
        let target = server.person("target").await;
        let owner = members.last().expect("an owner");
        let narrow = server.token_of(owner.id, &["read_user"]).await;
        let new = NewToken {
            user_id: target.id,
            name: "impersonation".to_owned(),
            kind: Kind::Impersonation,
            scopes: vec!["api".to_owned()],
            expires_at: None,
            created_by_id: None,
            secret: None,
        };
        let impersonation = create_token(&server.backend, new).await.expect("a token").0;
        let key = json!({ "title": "laptop", "key": KEY });
        let key = target.client.post("/user/keys", key).await.expect(201);
        let mut built = Vec::new();
        for (visibility, name) in
            [(Visibility::Private, "private"), (Visibility::Internal, "internal"), (Visibility::Public, "public")]
        {
            built.push(place(server, visibility, name, &members, &heirs, &guests, &expired).await);
        }
        attach(server, &format!("/users/{}", target.id)).await;
        variables::variable(&server.root(), "/admin/ci/variables", "there").await;
        let (place, hour) = (&built[0], chrono::TimeDelta::hours(1));
        let (_, job) = job_tokens::create(server.backend.database.write(), owner.id, place.project.id, hour)
            .await
            .expect("a token");
        Self {
            nobody: server.anonymous(),
            wrong_scope: server.with_token(&narrow),
            stranger: server.person("stranger").await.client,
            expired: expired.client,
            job: server.anonymous().header("Job-Token", &job),
            members,
            heirs,
            invited,
            target,
            root: server.root(),
            impersonation_token: impersonation.id,
            key: places::id(&key.json()),
            snippet: snippets::snippet(&server.root(), "", "there", json!({"visibility": "public"})).await,
            places: built,
            calls: AtomicUsize::new(0),
        }
    }

    fn client(&self, standing: Standing) -> &Client {
        match standing {
            Standing::Nobody => &self.nobody,
            Standing::WrongScope => &self.wrong_scope,
            Standing::Stranger => &self.stranger,
            Standing::Expired => &self.expired,
            Standing::Job => &self.job,
            Standing::Member(role) => &self.members[index(role)].client,
            Standing::Heir(role) => &self.heirs[index(role)].client,
            Standing::Invited(role) => &self.invited[index(role)].client,
            Standing::Themself => &self.target.client,
            Standing::Admin => &self.root,
        }
    }

    /// Sends an operation's request. Reads name what is there; writes name what is not, or an old date, where they
    /// would otherwise change what later requests need.
    async fn call(&self, operation: &Operation, standing: Standing, place: &Place<'_>, key: i64) -> Answer {
        let request = self.request(operation, standing, place, key);
        self.client(standing).send(request).await
    }

    /// The thing that an operation is called on.
    fn key_of(&self, operation: &Operation, place: &Place<'_>) -> i64 {
        match operation.access.on {
            On::Instance | On::Scim => 0,
            // The target may be blocked by another operation at the time, and is not woken then.
            On::User if operation.id == "activate_user" => self.members[0].id,
            On::User => self.target.id,
            On::Group => place.group,
            On::Project if changes_project(operation.id) => place.spare,
            On::Project => place.project.id,
        }
    }

    /// Whether a read's entity tag is held to while nothing changes, and what is wrong otherwise.
    async fn revalidate(&self, operation: &Operation) -> Option<String> {
        let place = &self.places[0];
        let key = self.key_of(operation, place);
        let request = || self.request(operation, Standing::Admin, place, key);
        let first = self.root.send(request()).await;
        let tag = first.header("etag");
        if tag.is_empty() {
            let lacks = operation.statuses.contains(&304) && first.status == 200;
            return lacks.then(|| format!("{} has no entity tag", operation.id));
        }
        let again = self.root.send(request().header("If-None-Match", tag)).await;
        let held = (again.status, again.header("etag")) == (304, tag);
        (!held).then(|| format!("{} is not revalidated: {}", operation.id, again.status))
    }

    /// What is wrong with an operation's answers.
    async fn faults(&self, operation: &Operation) -> Vec<String> {
        let mut faults = Vec::new();
        let places = match operation.access.on {
            On::Project | On::Group => &self.places[..],
            On::Instance | On::User | On::Scim => &self.places[..1],
        };
        for place in places {
            let key = self.key_of(operation, place);
            for standing in callers(operation) {
                let answer = self.call(operation, standing, place, key).await;
                let mut expected = expected(operation, standing, place.visibility);
                let own_rule = SERVICE_RULES
                    .iter()
                    .find(|(id, who, shown, _)| *id == operation.id && *who == standing && *shown == place.visibility);
                if own_rule.is_some() {
                    expected = Expected::Forbidden;
                }
                let guest = matches!(
                    standing,
                    Standing::Member(AccessLevel::Guest)
                        | Standing::Heir(AccessLevel::Guest)
                        | Standing::Invited(AccessLevel::Guest)
                );
                let private = place.visibility == Visibility::Private;
                if guest && private && FOR_READERS_OF_CODE.contains(&operation.id) {
                    expected = Expected::Absent;
                }
                let missing = match operation.access.on {
                    On::Project | On::Group if is_compared(operation, expected) => {
                        Some(self.call(operation, standing, place, MISSING).await)
                    }
                    _ => None,
                };
                if !fits(operation, expected, &answer, missing.as_ref()) {
                    let reason = own_rule.map_or("", |(_, _, _, reason)| reason);
                    faults.push(format!(
                        "{} by {standing:?} on {:?}: {expected:?} {reason}, but answered {} {}",
                        operation.id,
                        place.visibility,
                        answer.status,
                        String::from_utf8_lossy(&answer.body[..answer.body.len().min(200)]),
                    ));
                }
            }
        }
        faults
    }
}

/// Whether an operation's success is about the project as a whole, for which there is a spare one.
fn changes_project(id: &str) -> bool {
    matches!(id, "update_project" | "delete_project" | "archive_project" | "unarchive_project" | "restore_project")
}

fn index(role: AccessLevel) -> usize {
    ROLES.iter().position(|other| *other == role).expect("a role")
}

/// Whether what is expected is said by what a thing that is not there is answered.
fn is_compared(operation: &Operation, expected: Expected) -> bool {
    match expected {
        Expected::Hidden | Expected::Absent => true,
        Expected::Admitted => !operation.is_read() || OWN_THINGS.contains(&operation.id),
        Expected::Unauthorized | Expected::InsufficientScope | Expected::Forbidden => false,
    }
}

fn fits(operation: &Operation, expected: Expected, answer: &Answer, missing: Option<&Answer>) -> bool {
    let same = missing.is_some_and(|missing| missing.status == answer.status && missing.body == answer.body);
    let message = || {
        if operation.method == "HEAD" { Value::Null } else { answer.json()["error"].clone() }
    };
    match expected {
        Expected::Unauthorized => answer.status == 401,
        Expected::InsufficientScope => {
            answer.status == 403 && (operation.method == "HEAD" || message() == "insufficient_scope")
        }
        Expected::Hidden => answer.status == 404 && same,
        Expected::Forbidden => {
            answer.status == 403 && (operation.method == "HEAD" || message() != "insufficient_scope")
        }
        Expected::Absent => answer.status == 404 && !same,
        Expected::Admitted if OWN_THINGS.contains(&operation.id) => matches!(answer.status, 200 | 404),
        Expected::Admitted if operation.is_read() => answer.status == operation.success,
        Expected::Admitted => {
            let hidden = answer.status == 404 && same;
            !hidden && !matches!(answer.status, 401 | 403)
        }
    }
}

async fn everybody_is_answered_as_the_contract_says(server: TestServer) {
    let stage = Stage::build(&server).await;
    let mut faults = Vec::new();
    // One after another and before anything is written, so that nothing changes in between.
    for operation in OPERATIONS.iter().filter(|operation| operation.is_read()) {
        faults.extend(stage.revalidate(operation).await);
    }
    let answers = futures_util::stream::iter(OPERATIONS.iter().copied()).map(|operation| stage.faults(operation));
    faults.extend(answers.buffer_unordered(4).collect::<Vec<_>>().await.concat());
    assert!(faults.is_empty(), "{} wrong answers:\n{}", faults.len(), faults.join("\n"));
}

on_every_database![everybody_is_answered_as_the_contract_says,];
