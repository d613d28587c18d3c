//! The current state of a test server. Requests wait while it is replaced.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use poem::{Endpoint, Request, Response};
use tokio::sync::watch;

use super::instance::Instance;

/// Time for requests in progress to finish before the state is replaced. Later ones finish on the discarded state.
const DRAIN: Duration = Duration::from_secs(2);

/// Holder of the current state.
pub(super) struct Switch {
    current: RwLock<Arc<Instance>>,
    is_paused: watch::Sender<bool>,
}

/// A pause of the requests, until it is dropped.
pub(super) struct Pause<'switch>(&'switch Switch);

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        // Requests may enter the state again if it was not replaced.
        self.0.current().requests.reopen();
        self.0.is_paused.send_replace(false);
    }
}

impl Switch {
    /// Starts with a state.
    pub(super) fn new(instance: Instance) -> Self {
        Self {
            current: RwLock::new(Arc::new(instance)),
            is_paused: watch::Sender::new(false),
        }
    }

    /// Returns the current state.
    pub(super) fn current(&self) -> Arc<Instance> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls the current state, after a replacement in progress.
    pub(super) async fn call(&self, request: Request) -> Response {
        let mut paused = self.is_paused.subscribe();
        loop {
            // The sender exists as long as `self`.
            let _ = paused.wait_for(|paused| !paused).await;
            let instance = self.current();
            let in_progress = instance.requests.token();
            // A pause that began in the meantime does not wait for this request, and may be over.
            if *paused.borrow() || !Arc::ptr_eq(&instance, &self.current()) {
                continue;
            }
            let response = instance.endpoint.get_response(request).await;
            drop(in_progress);
            return response;
        }
    }

    /// Stops new requests and waits for those in progress. Returns whether all have finished in time.
    pub(super) async fn pause(&self) -> (Pause<'_>, bool) {
        self.is_paused.send_replace(true);
        let pause = Pause(self);
        let instance = self.current();
        instance.requests.close();
        let finished = tokio::time::timeout(DRAIN, instance.requests.wait()).await;
        (pause, finished.is_ok())
    }

    /// Replaces the state during a pause. Returns the former one.
    pub(super) fn replace(&self, _pause: &Pause<'_>, instance: Instance) -> Arc<Instance> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut current, Arc::new(instance))
    }
}
