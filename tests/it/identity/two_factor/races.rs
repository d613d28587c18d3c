//! Changes of a user between the two steps of signing in, and during them.

use domain::audit::Actor;
use domain::identity::sessions::{self, NewSession, SecondFactorAttempt, SignInOutcome, start};
use domain::identity::two_factor::enrollment;
use domain::kernel::error::Error;
use futures_util::future::join_all;
use reqwest::Method;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::json;
use storage::entities::{recovery_codes, sessions as session_rows, two_factor_secrets, users};

use super::sign_in::pending;
use super::user;
use crate::support::authenticator::{disable, start_setup};
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

async fn sessions_of(server: &TestServer, user_id: i64) -> u64 {
    let sessions = session_rows::Entity::find().filter(session_rows::Column::UserId.eq(user_id));
    sessions.count(server.backend.database.read()).await.expect("a number")
}

async fn row(server: &TestServer, user_id: i64) -> users::Model {
    let found = users::Entity::find_by_id(user_id).one(server.backend.database.read()).await;
    found.expect("the database").expect("a user")
}

async fn confirm(server: &TestServer, pending: &str, code: &str) -> Result<SignInOutcome, Error> {
    let attempt =
        SecondFactorAttempt { pending: pending.to_owned(), code: code.to_owned(), ..SecondFactorAttempt::default() };
    sessions::confirm(&server.backend, attempt).await
}

/// Changes a user by the API.
async fn change(server: &TestServer, user: &TestUser, kind: &str) {
    let (root, path) = (server.root(), format!("/users/{}", user.id));
    match kind {
        "block" => root.post(&format!("{path}/block"), json!({})).await.expect(201),
        "password" => root.put(&path, json!({ "password": "chosen for ada" })).await.expect(200),
        "reset" => {
            let request = root.request(Method::PATCH, &format!("{path}/disable_two_factor"));
            root.send(request).await.expect(204)
        }
        _ => root.delete(&path).await.expect(204),
    };
}

async fn changes_between_steps_end_pending_sign_in(server: TestServer) {
    for kind in ["block", "password", "reset", "delete"] {
        let (user, factor) = server.create_user_with_second_factor(kind).await;
        let pending = pending(&server, kind).await;
        change(&server, &user, kind).await;
        let outcome = confirm(&server, &pending, &factor.app.code()).await;
        assert!(matches!(outcome, Ok(SignInOutcome::Expired)), "{kind}: {outcome:?}");
        // The pending sign-in does not return with the former state.
        match kind {
            "block" => {
                server.root().post(&format!("/users/{}/unblock", user.id), json!({})).await.expect(201);
            }
            "reset" => {
                server.enable_second_factor(&user).await;
            }
            _ => {}
        }
        let outcome = confirm(&server, &pending, &factor.app.code()).await;
        assert!(matches!(outcome, Ok(SignInOutcome::Expired)), "{kind}: {outcome:?}");
        assert_eq!(sessions_of(&server, user.id).await, 0, "{kind}");
    }
}

async fn changes_during_second_step_end_all_sessions(server: TestServer) {
    for kind in ["block", "password", "reset", "delete"] {
        let (user, factor) = server.create_user_with_second_factor(kind).await;
        let mut waiting = Vec::new();
        for _ in 0..4 {
            waiting.push(pending(&server, kind).await);
        }
        let codes = factor.recovery_codes.iter();
        let attempts = waiting.iter().zip(codes).map(|(pending, code)| confirm(&server, pending, code));
        let (outcomes, ()) = tokio::join!(join_all(attempts), change(&server, &user, kind));
        assert!(
            outcomes.iter().all(|outcome| matches!(
                outcome,
                Ok(SignInOutcome::SignedIn(_) | SignInOutcome::Expired) | Err(Error::Forbidden(_))
            )),
            "{kind}: {outcomes:?}"
        );
        assert_eq!(sessions_of(&server, user.id).await, 0, "{kind}");
    }
}

async fn setup_during_password_check_requires_code(server: TestServer) {
    let ada = user(&server, "ada").await;
    let verified = row(&server, ada.id).await;
    let factor = server.enable_second_factor(&ada).await;
    let outcome = start(&server.backend, &verified, NewSession::default()).await;
    let Ok(SignInOutcome::SecondFactorRequired(pending)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(sessions_of(&server, ada.id).await, 0);
    assert!(matches!(confirm(&server, pending.expose(), &factor.app.code()).await, Ok(SignInOutcome::SignedIn(_))));
    // And the other way around.
    let verified = row(&server, ada.id).await;
    disable(&ada.client, json!({ "code": factor.recovery_codes[0] })).await.expect(204);
    assert!(matches!(start(&server.backend, &verified, NewSession::default()).await, Ok(SignInOutcome::SignedIn(_))));
}

async fn concurrent_confirmations_enable_second_factor_once(server: TestServer) {
    let ada = user(&server, "ada").await;
    let app = start_setup(&ada.client).await;
    let (code, known) = (app.code(), row(&server, ada.id).await);
    let actor = Actor::system();
    let attempts = (0..6).map(|_| enrollment::confirm(&server.backend, &actor, &known, &code, None));
    let outcomes = join_all(attempts).await;
    let enabled = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let conflicts = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::Conflict(_)))).count();
    assert_eq!((enabled, conflicts), (1, 5), "{outcomes:?}");
    let codes = recovery_codes::Entity::find().count(server.backend.database.read()).await.expect("a number");
    assert_eq!(codes, 10);
}

async fn concurrent_setups_leave_one_secret(server: TestServer) {
    let ada = user(&server, "ada").await;
    let apps = join_all((0..4).map(|_| start_setup(&ada.client))).await;
    let rows = two_factor_secrets::Entity::find().count(server.backend.database.read()).await.expect("a number");
    assert_eq!(rows, 1);
    let mut accepted = 0;
    for app in apps {
        let confirmed = ada.client.post("/user/two_factor/confirm", json!({ "code": app.code() })).await;
        accepted += usize::from(confirmed.status == 201);
    }
    assert_eq!(accepted, 1);
}

on_every_database![
    changes_between_steps_end_pending_sign_in,
    changes_during_second_step_end_all_sessions,
    setup_during_password_check_requires_code,
    concurrent_confirmations_enable_second_factor_once,
    concurrent_setups_leave_one_secret,
];
