//! Second step of signing in.

use chrono::TimeDelta;
use domain::identity::sessions::{self, SecondFactorAttempt, SignInOutcome};
use futures_util::future::join_all;
use reqwest::header::LOCATION;
use sea_orm::sea_query::Expr;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::json;
use storage::entities::{now, pending_sign_ins};

use crate::identity::sign_in::limits::client_at;
use crate::support::browser::{Browser, Seen, token};
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

const CODE_PATH: &str = "/users/sign_in/code";

/// Sends a code in the second step.
pub async fn send(browser: &mut Browser, code: &str) -> Seen {
    let page = browser.get(CODE_PATH).await;
    assert_eq!(page.status, 200, "no sign-in is pending");
    let token = token(&page);
    browser.post(CODE_PATH, &[("authenticity_token", &token), ("code", code), ("return_to", "/docs?x=1")]).await
}

/// Signs in with both steps.
pub async fn both_steps(browser: &mut Browser, login: &str, code: &str) {
    let first = browser.sign_in(login, PASSWORD, &[]).await;
    assert_eq!(first.status, 303);
    assert!(!first.set_cookies().iter().any(|cookie| cookie.starts_with("_service_session=")));
    let second = send(browser, code).await;
    assert_eq!((second.status.as_u16(), &second.headers[LOCATION]), (303, &"/docs?x=1".parse().expect("a value")));
    assert!(browser.session().is_some());
}

/// Returns the secret of a pending sign-in.
pub async fn pending(server: &TestServer, login: &str) -> String {
    let mut browser = Browser::new(server);
    browser.sign_in(login, PASSWORD, &[]).await;
    let cookie = browser.cookies.iter().find(|(name, _)| name == "_service_pending_sign_in");
    cookie.expect("a cookie").1.clone()
}

async fn session_starts_only_after_code(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let mut browser = Browser::new(&server);
    let first = browser.sign_in("ada", PASSWORD, &[("return_to", "/docs?a=b&c")]).await;
    assert_eq!(first.status, 303);
    assert_eq!(first.headers[LOCATION], "/users/sign_in/code?return_to=%2Fdocs%3Fa%3Db%26c");
    let cookies = first.set_cookies();
    assert!(cookies.len() == 1 && cookies[0].starts_with("_service_pending_sign_in="), "{cookies:?}");
    assert!(cookies[0].ends_with("; Path=/; Max-Age=300; HttpOnly; SameSite=Strict"), "{cookies:?}");
    // Nothing is recorded, and the pending sign-in is no session.
    let (_, secret) = browser.cookies.last().expect("a cookie").clone();
    let mut forged = Browser::new(&server);
    forged.cookies.push(("_service_session".to_owned(), secret));
    assert_eq!(forged.get("/api/v4/user").await.status, 401);
    let user = ada.client.get("/user").await.json();
    assert_eq!(user["current_sign_in_at"], json!(null));
    let page = browser.get(first.headers[LOCATION].to_str().expect("text")).await;
    for text in [
        "<label for=\"code\">",
        "id=\"code\"",
        "autocomplete=\"one-time-code\"",
        "name=\"return_to\" value=\"/docs?a=b&amp;c\"",
    ] {
        assert!(page.text.contains(text), "{text}");
    }
    // The token consists of hex digits, which may contain the user name.
    let without_token = page.text.replace(&token(&page), "");
    for text in ["<script", "src=", "href=", "url(", "ada"] {
        assert!(!without_token.contains(text), "{text}");
    }
    let policy = page.headers["content-security-policy"].to_str().expect("text");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert_eq!(page.headers["cache-control"], "no-store");
    for wrong in [factor.app.code_at(3), factor.app.code_at(-3), String::new(), "<b>".to_owned(), "0".repeat(10_000)] {
        let rejected = send(&mut browser, &wrong).await;
        assert_eq!((rejected.status.as_u16(), browser.session()), (422, None), "{wrong}");
        assert!(rejected.text.contains("role=\"alert\"") && !rejected.text.contains("<b>"));
    }
    let used = browser.cookies.clone();
    let accepted = send(&mut browser, &factor.app.code()).await;
    assert_eq!((accepted.status.as_u16(), &accepted.headers[LOCATION]), (303, &"/docs?x=1".parse().expect("a value")));
    assert_eq!(browser.get("/api/v4/user").await.json()["username"], "ada");
    assert!(ada.client.get("/user").await.json()["current_sign_in_at"].is_string());
    // The pending sign-in was consumed.
    let mut again = Browser::new(&server);
    again.cookies = used;
    let redirected = again.get(CODE_PATH).await;
    assert_eq!(redirected.headers[LOCATION], "/users/sign_in?return_to=%2Fdocs");
}

async fn first_step_does_not_reveal_second_factor(server: TestServer) {
    server.create_user_with_second_factor("ada").await;
    let bob = server.create_user("bob").await;
    server.set_password(&bob).await;
    let page = async |login: &str| {
        let seen = Browser::new(&server).sign_in(login, "wrong password", &[]).await;
        let normalized = seen.text.replace(&token(&seen), "").replace(login, "");
        (seen.status, normalized, seen.set_cookies().len())
    };
    let expected = page("bob").await;
    assert_eq!(expected.0, 422);
    assert_eq!(page("ada").await, expected);
    assert_eq!(page("missing-user").await, expected);
}

async fn code_is_accepted_once(server: TestServer) {
    let (_, factor) = server.create_user_with_second_factor("ada").await;
    let code = factor.app.code_at(1);
    both_steps(&mut Browser::new(&server), "ada", &code).await;
    let mut second = Browser::new(&server);
    second.sign_in("ada", PASSWORD, &[]).await;
    // The same code, and codes of earlier steps.
    for used in [code, factor.app.code(), factor.app.code_at(-1)] {
        assert_eq!(send(&mut second, &used).await.status, 422);
    }
    assert_eq!(send(&mut second, &factor.recovery_codes[3]).await.status, 303);
}

async fn concurrent_sign_ins_with_same_code_succeed_once(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    for code in [factor.app.code_at(1), factor.recovery_codes[0].clone()] {
        let waiting = join_all((0..6).map(|_| pending(&server, "ada"))).await;
        let attempts = waiting.into_iter().map(|pending| {
            let attempt = SecondFactorAttempt { pending, code: code.clone(), ..SecondFactorAttempt::default() };
            sessions::confirm(&server.backend, attempt)
        });
        let outcomes = join_all(attempts).await;
        let signed_in = outcomes.iter().filter(|outcome| matches!(outcome, Ok(SignInOutcome::SignedIn(_)))).count();
        let wrong = outcomes.iter().filter(|outcome| matches!(outcome, Ok(SignInOutcome::Wrong))).count();
        assert_eq!((signed_in, wrong), (1, 5), "{outcomes:?}");
        server.root().post(&format!("/users/{}/unlock", ada.id), json!({})).await.expect(201);
    }
}

async fn concurrent_codes_for_same_pending_sign_in_succeed_once(server: TestServer) {
    let (_, factor) = server.create_user_with_second_factor("ada").await;
    let pending = pending(&server, "ada").await;
    let attempts = factor.recovery_codes[..6].iter().map(|code| {
        let attempt =
            SecondFactorAttempt { pending: pending.clone(), code: code.clone(), ..SecondFactorAttempt::default() };
        sessions::confirm(&server.backend, attempt)
    });
    let outcomes = join_all(attempts).await;
    let signed_in = outcomes.iter().filter(|outcome| matches!(outcome, Ok(SignInOutcome::SignedIn(_)))).count();
    let expired = outcomes.iter().filter(|outcome| matches!(outcome, Ok(SignInOutcome::Expired))).count();
    assert_eq!((signed_in, expired), (1, 5), "{outcomes:?}");
    // An attempt without effect consumes no code.
    let left = storage::entities::recovery_codes::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(left.expect("a number"), 9);
}

async fn pending_sign_in_expires_after_5_minutes(server: TestServer) {
    let (_, factor) = server.create_user_with_second_factor("ada").await;
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    let page = browser.get(CODE_PATH).await;
    let read = server.backend.database.read();
    let row = pending_sign_ins::Entity::find().one(read).await.expect("a read").expect("a row");
    let left = row.expires_at - now();
    assert!(left <= TimeDelta::minutes(5) && left > TimeDelta::minutes(4), "{left}");
    pending_sign_ins::Entity::update_many()
        .col_expr(pending_sign_ins::Column::ExpiresAt, Expr::value(now()))
        .exec(server.backend.database.write())
        .await
        .expect("an update");
    let token = token(&page);
    let late = browser.post(CODE_PATH, &[("authenticity_token", &token), ("code", &factor.app.code())]).await;
    assert_eq!((late.status.as_u16(), browser.session()), (303, None));
    assert_eq!(late.headers[LOCATION], "/users/sign_in?return_to=%2Fdocs");
    // The next sign-in deletes the row.
    Browser::new(&server).sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(pending_sign_ins::Entity::find().count(read).await.expect("a number"), 1);
}

async fn second_step_requires_pending_sign_in_and_form_token(server: TestServer) {
    let (_, factor) = server.create_user_with_second_factor("ada").await;
    let mut stranger = Browser::new(&server);
    let page = stranger.get("/users/sign_in").await;
    let own = token(&page);
    let skipped = stranger.post(CODE_PATH, &[("authenticity_token", &own), ("code", &factor.app.code())]).await;
    assert_eq!((skipped.status.as_u16(), stranger.session()), (303, None));
    let mut browser = Browser::new(&server);
    browser.sign_in("ada", PASSWORD, &[]).await;
    for sent in ["", "guess", own.as_str()] {
        let pairs = [("authenticity_token", sent), ("code", &factor.app.code())];
        assert_eq!(browser.post(CODE_PATH, &pairs).await.status, 403);
        assert!(browser.session().is_none());
    }
    assert_eq!(send(&mut browser, &factor.app.code()).await.status, 303);
}

async fn wrong_codes_are_limited_in_spite_of_correct_passwords(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    // Each attempt has its own pending sign-in and address.
    for number in 0..10 {
        let mut browser = Browser::new(&server);
        browser.http = client_at(&format!("127.0.3.{}", number + 1));
        browser.sign_in("ada", PASSWORD, &[]).await;
        assert_eq!(send(&mut browser, "000000x").await.status, 422);
    }
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", PASSWORD, &[]).await.status, 303);
    for code in [factor.app.code(), factor.recovery_codes[0].clone()] {
        let limited = send(&mut browser, &code).await;
        assert_eq!((limited.status.as_u16(), browser.session()), (429, None));
        let wait: u64 = limited.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
        assert!((1..=601).contains(&wait), "{wait}");
    }
    // Another user is not affected, and an administrator unlocks this one.
    let (_, other) = server.create_user_with_second_factor("bob").await;
    both_steps(&mut Browser::new(&server), "bob", &other.app.code()).await;
    server.root().post(&format!("/users/{}/unlock", ada.id), json!({})).await.expect(201);
    assert_eq!(send(&mut browser, &factor.app.code()).await.status, 303);
}

async fn wrong_codes_are_limited_per_address(server: TestServer) {
    let mut users = Vec::new();
    for number in 0..4 {
        users.push(server.create_user_with_second_factor(&format!("user{number}")).await);
    }
    for (user, _) in &users[..3] {
        let mut browser = Browser::new(&server);
        browser.http = client_at("127.0.4.1");
        browser.sign_in(&user.row.username, PASSWORD, &[]).await;
        for _ in 0..4 {
            let status = send(&mut browser, "000000x").await.status.as_u16();
            assert!([422, 429].contains(&status), "{status}");
        }
    }
    let mut browser = Browser::new(&server);
    browser.http = client_at("127.0.4.1");
    browser.sign_in("user3", PASSWORD, &[]).await;
    assert_eq!(send(&mut browser, &users[3].1.app.code()).await.status, 429);
    both_steps(&mut Browser::new(&server), "user3", &users[3].1.app.code()).await;
}

async fn required_password_change_takes_effect_after_code(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let body = json!({ "password": "chosen for ada" });
    server.root().put(&format!("/users/{}", ada.id), body).await.expect(200);
    // A password reset does not remove the second factor.
    assert_eq!(ada.client.get("/user").await.json()["two_factor_enabled"], true);
    let mut browser = Browser::new(&server);
    assert_eq!(browser.sign_in("ada", "chosen for ada", &[]).await.status, 422);
    let new = [("new_password", "chosen by ada")];
    assert_eq!(browser.sign_in("ada", "chosen for ada", &new).await.status, 303);
    assert_eq!(send(&mut browser, "000000x").await.status, 422);
    // The former password is still in force.
    let mut other = Browser::new(&server);
    assert_eq!(other.sign_in("ada", "chosen by ada", &[]).await.status, 422);
    assert_eq!(send(&mut browser, &factor.app.code()).await.status, 303);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    assert_eq!(other.sign_in("ada", "chosen for ada", &new).await.status, 422);
    assert_eq!(other.sign_in("ada", "chosen by ada", &[]).await.status, 303);
    assert_eq!(send(&mut other, &factor.recovery_codes[0]).await.status, 303);
}

on_every_database![
    session_starts_only_after_code,
    first_step_does_not_reveal_second_factor,
    code_is_accepted_once,
    concurrent_sign_ins_with_same_code_succeed_once,
    concurrent_codes_for_same_pending_sign_in_succeed_once,
    pending_sign_in_expires_after_5_minutes,
    second_step_requires_pending_sign_in_and_form_token,
    wrong_codes_are_limited_in_spite_of_correct_passwords,
    wrong_codes_are_limited_per_address,
    required_password_change_takes_effect_after_code,
];
