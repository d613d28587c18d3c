//! Answers to reading requests, remembered as long as nothing is written (ADR 17).
//!
//! What a reading request is answered with, JSON or the bytes of a small file, follows from the database and from the
//! references of repositories, each change of which is settled in the database before anybody is told of it. So the
//! same question of the same caller has the same answer as long as the database has the same version.

use std::sync::Arc;

use bytes::Bytes;
use poem::http::header::RANGE;
use poem::http::{HeaderMap, StatusCode};
use poem::{Body, Response};
use sha2::{Digest, Sha256};

use crate::api::exchange::Exchange;
use crate::services::authentication::Caller;
use crate::services::memory::{Remembered, Version};

/// How many bytes of answers are remembered in all.
const MOST_BYTES: u64 = 16 << 20;

/// The longest answer that is remembered, in bytes.
const LONGEST: usize = 256 << 10;

/// About as many bytes as an answer takes besides its body.
const OVERHEAD: usize = 1_024;

/// A question whose answer can be remembered: who asks what, and in which state of the database.
pub struct Memorable {
    question: [u8; 32],
    version: Version,
}

impl Memorable {
    /// The question that a request puts, when it puts one that is asked in its address alone.
    pub(super) fn of(exchange: &Exchange<'_>, caller: &Caller, version: Version) -> Option<Self> {
        if !exchange.is_bare() || exchange.headers().contains_key(RANGE) {
            return None;
        }
        let user = caller.as_user().map_or(0, |user| user.id);
        let token = caller.access_token().map_or(0, |token| token.id);
        let mut question = Sha256::new();
        question.update(user.to_le_bytes());
        question.update(token.to_le_bytes());
        question.update(caller.only_project().unwrap_or_default().to_le_bytes());
        let provider = caller.provisions().map_or(0, |provider| provider.id);
        question.update(provider.to_le_bytes());
        question.update(caller.scopes().unwrap_or("*"));
        // Hashed also because a query may hold a token.
        question.update(exchange.request().original_uri().to_string());
        Some(Self {
            question: question.finalize().into(),
            version,
        })
    }
}

/// The remembered answers.
pub(super) struct Answers(Remembered<[u8; 32], Arc<Answer>>);

struct Answer {
    headers: HeaderMap,
    body: Bytes,
}

impl Default for Answers {
    fn default() -> Self {
        Self(Remembered::new(MOST_BYTES, |answer| answer.body.len() + OVERHEAD))
    }
}

impl Answers {
    /// The answer to a question, if it is known.
    pub(super) fn known(&self, asked: &Memorable) -> Option<Response> {
        let answer = self.0.known(asked.version, &asked.question)?;
        let mut response = Response::builder().body(answer.body.clone());
        *response.headers_mut() = answer.headers.clone();
        Some(response)
    }

    /// Remembers an answer and hands it on. Only successes of a moderate length are kept.
    pub(super) fn keep(&self, asked: Memorable, response: Response) -> Response {
        let Some(WholeBody(body)) = response.extensions().get::<WholeBody>() else {
            return response;
        };
        if response.status() == StatusCode::OK && body.len() <= LONGEST {
            let answer = Answer {
                headers: response.headers().clone(),
                body: body.clone(),
            };
            self.0.keep(asked.version, asked.question, Arc::new(answer));
        }
        response
    }
}

/// The whole body of an answer, beside the answer itself, which can be read only once.
#[derive(Clone)]
pub(super) struct WholeBody(pub(super) Bytes);

impl WholeBody {
    /// The body to send.
    pub(super) fn body(&self) -> Body {
        self.0.clone().into()
    }
}
