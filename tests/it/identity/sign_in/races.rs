//! Sign-ins while the user is blocked, deleted or gets another password.

use std::time::Duration;

use domain::accounts::users::{PasswordSource, UserUpdate, activate, deactivate, unblock, update};
use domain::audit::Actor;
use domain::identity::access::UserAccess;
use domain::identity::access_tokens::{self, NewToken};
use domain::identity::oauth::authorization::{self, AuthorizationRequest};
use domain::identity::password_attempts::{acquire_permit, verify};
use domain::identity::sessions::{NewSession, SignInOutcome, start};
use domain::kernel::caller::Caller;
use domain::kernel::error::Error;
use futures_util::future::join_all;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::access_tokens::TokenKind;
use storage::entities::users::UserState;
use storage::entities::{now, sessions, sign_in_failures, users};

use super::ada;
use super::limits::client_at;
use crate::support::browser::{Browser, token};
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database};

/// Number of concurrent sign-ins, twice the number of concurrent password hashes.
const ATTEMPTS: usize = 8;
/// Repetitions of a race.
const ROUNDS: usize = 4;

async fn failures(server: &TestServer) -> u64 {
    sign_in_failures::Entity::find().count(server.backend.database.read()).await.expect("a number")
}

/// Signs in with several browsers at once from an address, and starts `change` while the server verifies the passwords.
/// Returns the browsers with the statuses.
async fn sign_in_during(
    server: &TestServer,
    address: &str,
    (login, password, new_password): (&str, &str, Option<&str>),
    change: impl Future<Output = ()>,
) -> Vec<(Browser, u16)> {
    let before = failures(server).await;
    let forms = (0..ATTEMPTS).map(|_| async {
        let mut browser = Browser::new(server);
        browser.http = client_at(address);
        let token = token(&browser.get("/users/sign_in").await);
        (browser, token)
    });
    let attempts = join_all(forms).await.into_iter().enumerate().map(|(number, (mut browser, token))| async move {
        let new_password = new_password.map(|text| format!("{text} {number}"));
        let mut pairs = vec![("authenticity_token", token.as_str()), ("login", login), ("password", password)];
        pairs.extend(new_password.as_deref().map(|text| ("new_password", text)));
        let status = browser.post("/users/sign_in", &pairs).await.status.as_u16();
        (browser, status)
    });
    let changing = async {
        // An attempt counts as failed while its password is verified.
        let mut looks = 0;
        while failures(server).await == before && looks < 1_000 {
            looks += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        change.await;
    };
    tokio::join!(join_all(attempts), changing).0
}

/// Returns the address of a round, which has no failures of earlier rounds.
fn address(round: usize) -> String {
    format!("127.0.1.{}", round + 1)
}

async fn sessions_of(server: &TestServer, user_id: i64) -> u64 {
    let sessions = sessions::Entity::find().filter(sessions::Column::UserId.eq(user_id));
    sessions.count(server.backend.database.read()).await.expect("a number")
}

async fn row(server: &TestServer, user_id: i64) -> users::Model {
    let found = users::Entity::find_by_id(user_id).one(server.backend.database.read()).await;
    found.expect("the database").expect("a user")
}

/// Returns a new user with a password.
async fn user(server: &TestServer, username: &str) -> TestUser {
    let user = server.create_user(username).await;
    server.set_password(&user).await;
    user
}

/// Starts a session for the user as it was read before.
async fn start_with(server: &TestServer, verified: &users::Model) -> Result<SignInOutcome, Error> {
    start(&server.backend, verified, NewSession::default()).await
}

fn reset() -> UserUpdate {
    UserUpdate { password: Some(PasswordSource::Chosen("chosen for ada".to_owned())), ..UserUpdate::default() }
}

async fn block_during_sign_in_is_kept_and_ends_all_sessions(server: TestServer) {
    let root = server.root();
    for round in 0..ROUNDS {
        let name = format!("ada{round}");
        let ada = user(&server, &name).await;
        let path = format!("/users/{}", ada.id);
        let block = async {
            root.post(&format!("{path}/block"), json!({})).await.expect(201);
        };
        let attempts = sign_in_during(&server, &address(round), (&name, PASSWORD, None), block).await;
        assert_eq!(root.get(&path).await.expect(200).json()["state"], "blocked");
        assert_eq!(sessions_of(&server, ada.id).await, 0);
        root.post(&format!("{path}/unblock"), json!({})).await.expect(201);
        for (mut browser, status) in attempts {
            assert!([303, 403].contains(&status), "{status}");
            assert_eq!(browser.get("/api/v4/user").await.status, 401);
        }
    }
}

async fn password_reset_during_sign_in_ends_all_sessions(server: TestServer) {
    let root = server.root();
    for round in 0..ROUNDS {
        let name = format!("ada{round}");
        let ada = user(&server, &name).await;
        let reset = async {
            let body = json!({ "password": "chosen for ada" });
            root.put(&format!("/users/{}", ada.id), body).await.expect(200);
        };
        for (mut browser, status) in sign_in_during(&server, &address(round), (&name, PASSWORD, None), reset).await {
            assert!([303, 422].contains(&status), "{status}");
            assert_eq!(browser.get("/api/v4/user").await.status, 401);
        }
        assert_eq!(sessions_of(&server, ada.id).await, 0);
        assert!(row(&server, ada.id).await.password_change_required);
        let response = Browser::new(&server).sign_in(&name, "chosen for ada", &[]).await;
        assert!(response.text.contains("name=\"new_password\""), "{}", response.text);
    }
}

async fn deletion_during_sign_in_ends_all_sessions(server: TestServer) {
    let root = server.root();
    for round in 0..ROUNDS {
        let name = format!("ada{round}");
        let ada = user(&server, &name).await;
        let delete = async {
            root.delete(&format!("/users/{}", ada.id)).await.expect(204);
        };
        for (mut browser, status) in sign_in_during(&server, &address(round), (&name, PASSWORD, None), delete).await {
            assert!([303, 422].contains(&status), "{status}");
            assert_eq!(browser.get("/api/v4/user").await.status, 401);
        }
        assert_eq!(sessions_of(&server, ada.id).await, 0);
    }
}

async fn concurrent_changes_of_required_password_succeed_once(server: TestServer) {
    let ada = user(&server, "ada").await;
    let body = json!({ "password": "chosen for ada" });
    server.root().put(&format!("/users/{}", ada.id), body).await.expect(200);
    let credentials = ("ada", "chosen for ada", Some("chosen by ada"));
    let attempts = sign_in_during(&server, &address(0), credentials, async {}).await;
    let mut successful = Vec::new();
    for (number, (mut browser, status)) in attempts.into_iter().enumerate() {
        let session = browser.get("/api/v4/user").await.status;
        match status {
            303 => successful.push((number, session.as_u16())),
            _ => assert_eq!((status, session.as_u16()), (422, 401)),
        }
    }
    assert!(successful.len() == 1 && successful[0].1 == 200, "{successful:?}");
    let password = format!("chosen by ada {}", successful[0].0);
    assert_eq!(Browser::new(&server).sign_in("ada", &password, &[]).await.status, 303);
}

async fn session_start_requires_unchanged_user(server: TestServer) {
    let (root, backend) = (server.root(), &server.backend);
    let blocked = ada(&server).await;
    let verified = row(&server, blocked.id).await;
    root.post(&format!("/users/{}/block", blocked.id), json!({})).await.expect(201);
    let refused = start_with(&server, &verified).await;
    assert!(matches!(&refused, Err(Error::Forbidden(Some(text))) if text.contains("blocked")), "{refused:?}");
    assert_eq!(row(&server, blocked.id).await.state, UserState::Blocked);

    let reset_user = user(&server, "bob").await;
    let verified = row(&server, reset_user.id).await;
    update(backend, &Actor::system(), verified.clone(), reset()).await.expect("a change");
    assert!(matches!(start_with(&server, &verified).await, Ok(SignInOutcome::Wrong)));
    let overtaken = NewSession { new_password_hash: Some("other".to_owned()), ..NewSession::default() };
    let hash = row(&server, reset_user.id).await.password_hash;
    assert!(matches!(start(backend, &verified, overtaken).await, Ok(SignInOutcome::Wrong)));
    assert_eq!(row(&server, reset_user.id).await.password_hash, hash);

    let marked = user(&server, "eve").await;
    let verified = row(&server, marked.id).await;
    let mark = users::ActiveModel { id: Set(marked.id), password_change_required: Set(true), ..Default::default() };
    mark.update(backend.database.write()).await.expect("an update");
    assert!(matches!(start_with(&server, &verified).await, Ok(SignInOutcome::PasswordChangeRequired)));

    let deleted = user(&server, "joe").await;
    let verified = row(&server, deleted.id).await;
    root.delete(&format!("/users/{}", deleted.id)).await.expect(204);
    assert!(matches!(start_with(&server, &verified).await, Ok(SignInOutcome::Wrong)));
    assert!(row(&server, deleted.id).await.current_sign_in_at.is_none());

    assert_eq!(sessions::Entity::find().count(backend.database.read()).await.expect("a number"), 0);
}

async fn session_start_activates_user_and_keeps_other_changes(server: TestServer) {
    let ada = ada(&server).await;
    let before = row(&server, ada.id).await;
    let path = format!("/users/{}", ada.id);
    server.root().put(&path, json!({ "name": "Countess", "note": "On leave" })).await.expect(200);
    server.root().post(&format!("{path}/deactivate"), json!({})).await.expect(201);
    assert!(matches!(start_with(&server, &before).await, Ok(SignInOutcome::SignedIn(_))));
    let first = row(&server, ada.id).await;
    assert_eq!((first.name.as_str(), first.note.as_deref()), ("Countess", Some("On leave")));
    assert_eq!((first.state, first.last_sign_in_at), (UserState::Active, None));
    // The time of the previous sign-in is that of the row, not of the outdated value.
    assert!(matches!(start_with(&server, &before).await, Ok(SignInOutcome::SignedIn(_))));
    let second = row(&server, ada.id).await;
    assert_eq!(second.last_sign_in_at, first.current_sign_in_at);
    assert_eq!(sessions_of(&server, ada.id).await, 2);
}

async fn verification_returns_current_user(server: TestServer) {
    let backend = &server.backend;
    let ada = ada(&server).await;
    let known = row(&server, ada.id).await;
    let check = async |password: &str, known: &users::Model| {
        let permit = acquire_permit().await.expect("a permit");
        let verified = verify(backend, permit, password.to_owned(), Some(known.clone())).await;
        verified.expect("a verification").0
    };
    assert!(check("wrong password", &known).await.is_none());
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    assert_eq!(check(PASSWORD, &known).await.expect("a user").state, UserState::Blocked);
    update(backend, &Actor::system(), known.clone(), reset()).await.expect("a change");
    assert!(check(PASSWORD, &known).await.is_none());
    let current = row(&server, ada.id).await;
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    assert!(check("chosen for ada", &current).await.is_none());
}

async fn state_changes_check_current_row(server: TestServer) {
    let backend = &server.backend;
    let ada = ada(&server).await;
    let root = users::first_administrator(backend.database.read()).await.expect("the database").expect("root");
    let known = row(&server, ada.id).await;
    let access = UserAccess { caller: Caller::user(root), user: known.clone() };
    let set = async |state| {
        let change = users::ActiveModel { id: Set(ada.id), state: Set(state), ..Default::default() };
        change.update(backend.database.write()).await.expect("an update");
    };
    // The user signs in after an administrator loaded the row to deactivate it.
    assert!(matches!(start_with(&server, &known).await, Ok(SignInOutcome::SignedIn(_))));
    assert!(matches!(deactivate(backend, &access).await, Err(Error::Forbidden(_))));
    assert_eq!(row(&server, ada.id).await.state, UserState::Active);
    assert_eq!(sessions_of(&server, ada.id).await, 1);
    set(UserState::Blocked).await;
    assert!(matches!(activate(backend, &access).await, Err(Error::Forbidden(_))));
    set(UserState::LdapBlocked).await;
    assert!(matches!(unblock(backend, &access).await, Err(Error::Forbidden(_))));
    let refused = domain::accounts::users::block(backend, &access).await;
    assert!(matches!(refused, Err(Error::Forbidden(_))));
    set(UserState::Active).await;
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    let refused = domain::accounts::users::block(backend, &access).await;
    assert!(matches!(refused, Err(Error::NotFound(_))));
}

async fn deleted_user_gets_no_new_credentials(server: TestServer) {
    let backend = &server.backend;
    let ada = ada(&server).await;
    let known = row(&server, ada.id).await;
    let application = json!({ "name": "App", "redirect_uri": "https://app.example/cb", "scopes": "api" });
    let application = server.root().post("/applications", application).await.expect(201).json();
    let request = AuthorizationRequest {
        client_id: application["application_id"].as_str().map(str::to_owned),
        redirect_uri: Some("https://app.example/cb".to_owned()),
        response_type: Some("code".to_owned()),
        ..AuthorizationRequest::default()
    };
    let question = authorization::check(backend, request).await.expect("a valid request");
    // A session of the former password can no longer authorize an application.
    update(backend, &Actor::system(), known.clone(), reset()).await.expect("a change");
    assert!(matches!(authorization::approve(backend, &known, None, &question).await, Err(Error::Unauthorized)));
    let known = row(&server, ada.id).await;
    authorization::approve(backend, &known, None, &question).await.expect("a code");
    server.root().post(&format!("/users/{}/block", ada.id), json!({})).await.expect(201);
    assert!(matches!(authorization::approve(backend, &known, None, &question).await, Err(Error::Unauthorized)));
    server.root().delete(&format!("/users/{}", ada.id)).await.expect(204);
    assert!(matches!(authorization::approve(backend, &known, None, &question).await, Err(Error::Unauthorized)));
    let new = NewToken {
        user_id: ada.id,
        name: "late".to_owned(),
        kind: TokenKind::Impersonation,
        scopes: vec!["api".to_owned()],
        expires_at: None,
        created_by_id: None,
        secret: None,
    };
    assert!(matches!(access_tokens::create(backend, &Actor::system(), new).await, Err(Error::NotFound(_))));
    assert!(matches!(update(backend, &Actor::system(), known.clone(), reset()).await, Err(Error::NotFound(_))));
    // Credentials that were stored in spite of the deletion are useless.
    let secret = "a session of a deleted user";
    let session = sessions::ActiveModel {
        digest: Set(domain::secrets::digest(secret)),
        user_id: Set(ada.id),
        csrf_seed: Set("seed".to_owned()),
        created_at: Set(now()),
        expires_at: Set(now() + chrono::TimeDelta::days(1)),
        last_seen_at: Set(now()),
        ..Default::default()
    };
    session.insert(backend.database.write()).await.expect("a session");
    let mut browser = Browser::new(&server);
    browser.cookies.push(("_service_session".to_owned(), secret.to_owned()));
    assert_eq!(browser.get("/api/v4/user").await.status, 401);
}

async fn update_with_outdated_row_releases_current_address(server: TestServer) {
    let backend = &server.backend;
    let ada = ada(&server).await;
    let change = |email: &str| UserUpdate { email: Some(email.to_owned()), ..UserUpdate::default() };
    update(backend, &Actor::system(), ada.row.clone(), change("first@example.com")).await.expect("a change");
    update(backend, &Actor::system(), ada.row.clone(), change("second@example.com")).await.expect("a change");
    let bob = server.create_user("bob").await;
    let path = format!("/users/{}", bob.id);
    server.root().put(&path, json!({ "email": "second@example.com" })).await.expect(409);
    server.root().put(&path, json!({ "email": "first@example.com" })).await.expect(200);
}

async fn administrators_cannot_delete_each_other(server: TestServer) {
    let (root, ada) = (server.root(), server.create_user("ada").await);
    root.put(&format!("/users/{}", ada.id), json!({ "admin": true })).await.expect(200);
    let (root_path, ada_path) = ("/users/1".to_owned(), format!("/users/{}", ada.id));
    tokio::join!(root.delete(&ada_path), ada.client.delete(&root_path));
    let remaining = users::first_administrator(server.backend.database.read()).await.expect("the database");
    assert!(remaining.is_some());
}

on_every_database![
    block_during_sign_in_is_kept_and_ends_all_sessions,
    password_reset_during_sign_in_ends_all_sessions,
    deletion_during_sign_in_ends_all_sessions,
    concurrent_changes_of_required_password_succeed_once,
    session_start_requires_unchanged_user,
    session_start_activates_user_and_keeps_other_changes,
    verification_returns_current_user,
    state_changes_check_current_row,
    deleted_user_gets_no_new_credentials,
    update_with_outdated_row_releases_current_address,
    administrators_cannot_delete_each_other,
];
