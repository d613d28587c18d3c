//! Use of the database by one request: its share of the connections, its time, and the version of the data that it reads.
//!
//! A task-local value identifies the request, because statements run in all layers. Work outside of requests, such as
//! jobs, is not limited.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sea_orm::{ConnAcquireErr, DbErr};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::DataVersion;

/// How long a request waits for its client's share, like for a free connection.
const SHARE_TIMEOUT: Duration = Duration::from_secs(30);

/// Text of the error for a request that exceeded its time.
const TIME_EXCEEDED: &str = "the request exceeded its time in the database";

/// Number of requests of this process that waited for their share too long, and that exceeded their time.
static REFUSALS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

tokio::task_local! {
    static REQUEST: RequestUse;
}

/// State of the request of the current task.
struct RequestUse {
    began: Instant,
    /// Permits of the client; none until the client is known.
    share: RefCell<Option<Arc<Semaphore>>>,
    /// The permit, while a statement or transaction of the request runs.
    permit: RefCell<Weak<OwnedSemaphorePermit>>,
    /// Version of the data that caches may return to the request.
    version: Cell<Option<DataVersion>>,
    used: Cell<Duration>,
    limit: Cell<Option<Duration>>,
}

/// Runs a request, and returns its result with the time that its statements took.
///
/// `limit` is the time after which the request starts no more statements.
pub async fn measure<F: Future>(limit: Option<Duration>, request: F) -> (F::Output, Duration) {
    let state = RequestUse {
        began: Instant::now(),
        share: RefCell::default(),
        permit: RefCell::default(),
        version: Cell::default(),
        used: Cell::default(),
        limit: Cell::new(limit),
    };
    REQUEST
        .scope(state, async {
            let output = request.await;
            (output, REQUEST.with(|state| state.used.get()))
        })
        .await
}

/// Limits how many statements and transactions of a client run at the same time, for the rest of the current request. Has
/// no effect outside of a request.
pub fn use_share(permits: Arc<Semaphore>) {
    // Outside of a request the task-local value is not set, which is not an error.
    let _ = REQUEST.try_with(|state| state.share.replace(Some(permits)));
}

/// Stores the version that caches may return to the rest of the current request. Has no effect outside of a request.
pub(super) fn remember_version(version: Option<DataVersion>) {
    let _ = REQUEST.try_with(|state| state.version.set(version));
}

/// Removes the stored version, because the current request may write.
pub(super) fn forget_version() {
    remember_version(None);
}

/// Returns the stored version of the current request.
pub(super) fn version() -> Option<DataVersion> {
    REQUEST.try_with(|state| state.version.get()).ok().flatten()
}

/// Returns whether a request exceeded its time in the database, or PostgreSQL canceled a statement for that reason.
#[must_use]
pub fn is_time_exceeded(error: &DbErr) -> bool {
    matches!(error, DbErr::Custom(text) if text == TIME_EXCEEDED) || super::violation::is_canceled(error)
}

/// Returns how many requests of this process waited for the share of their client for too long, and how many exceeded their
/// time in the database.
#[must_use]
pub fn refusals() -> (u64, u64) {
    let [share, time] = &REFUSALS;
    (share.load(Ordering::Relaxed), time.load(Ordering::Relaxed))
}

/// Adds the time of a statement to that of the current request. `SeaORM` measures statements with the clock of the
/// system, which can be set forward by hours meanwhile. So a statement counts at most as long as its request.
pub(super) fn record(elapsed: Duration) {
    let _ = REQUEST.try_with(|state| {
        let elapsed = elapsed.min(state.began.elapsed());
        state.used.set(state.used.get().saturating_add(elapsed));
    });
}

/// Permit of the current request. All statements that it runs at the same time have the same permit, so a statement next
/// to a transaction never waits for the share of its own request.
pub(super) type RequestPermit = Option<Arc<OwnedSemaphorePermit>>;

/// Waits until the current request may use the database.
///
/// # Errors
/// If the request exceeded its time, or its client's share was in use for too long.
pub(super) async fn admit() -> Result<RequestPermit, DbErr> {
    let share = REQUEST.try_with(|state| {
        if state.limit.get().is_some_and(|limit| state.used.get() >= limit) {
            REFUSALS[1].fetch_add(1, Ordering::Relaxed);
            return Err(DbErr::Custom(TIME_EXCEEDED.to_owned()));
        }
        if let Some(permit) = state.permit.borrow().upgrade() {
            return Ok(Some(Admission::Permit(permit)));
        }
        Ok(state.share.borrow().clone().map(Admission::Share))
    });
    let permit = match share {
        Ok(Ok(Some(Admission::Permit(permit)))) => return Ok(Some(permit)),
        Ok(Ok(Some(Admission::Share(share)))) => acquire(share).await?,
        Ok(Err(error)) => return Err(error),
        // No request, or its client is not known yet.
        Ok(Ok(None)) | Err(_) => return Ok(None),
    };
    let permit = Arc::new(permit);
    let _ = REQUEST.try_with(|state| state.permit.replace(Arc::downgrade(&permit)));
    Ok(Some(permit))
}

enum Admission {
    Permit(Arc<OwnedSemaphorePermit>),
    Share(Arc<Semaphore>),
}

async fn acquire(share: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, DbErr> {
    if let Ok(permit) = Arc::clone(&share).try_acquire_owned() {
        return Ok(permit);
    }
    match tokio::time::timeout(SHARE_TIMEOUT, share.acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => {
            REFUSALS[0].fetch_add(1, Ordering::Relaxed);
            Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout))
        }
    }
}

/// A statement that finishes in the background if its request is canceled. Otherwise a client could exceed its share by
/// closing connections: a database does not stop a statement when its result is not read.
pub(super) struct Statement<T: Send + 'static> {
    running: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> Statement<T> {
    pub(super) fn new(running: impl Future<Output = T> + Send + 'static) -> Self {
        Self {
            running: Some(Box::pin(running)),
        }
    }
}

impl<T: Send + 'static> Future for Statement<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(running) = &mut self.running else {
            return Poll::Pending;
        };
        let output = std::task::ready!(running.as_mut().poll(context));
        self.running = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Statement<T> {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        // Without a runtime the process ends, and with it the statement.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(running);
        }
    }
}
