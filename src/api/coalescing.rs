//! One computation for all requests that wait for the same value.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// Outcome of a computation: a value for all waiting requests, or none if each of them has to compute its own.
type Outcome<V> = Option<V>;

/// The running computations by key. The key contains everything that the value depends on.
pub(super) struct Computations<K, V>(Arc<Running<K, V>>);

type Running<K, V> = Mutex<HashMap<K, watch::Receiver<Option<Outcome<V>>>>>;

/// Role of a request in the computation of a value.
pub(super) enum Joined<K: Hash + Eq, V> {
    /// The request computes the value, and finishes the computation.
    First(Computation<K, V>),
    /// Another request has computed the value.
    Finished(V),
    /// Another request has finished without a value that can be shared.
    Unshared,
}

/// The computation of a value. If it is dropped before it is finished, one of the waiting requests computes the value.
pub(super) struct Computation<K: Hash + Eq, V> {
    key: K,
    outcome: watch::Sender<Option<Outcome<V>>>,
    running: Arc<Running<K, V>>,
}

impl<K, V> Default for Computations<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Computations<K, V> {
    /// Starts the computation of the value of `key`, or waits for a running one.
    pub(super) async fn join(&self, key: K) -> Joined<K, V> {
        loop {
            let mut waiting = match self.start_or_wait(&key) {
                Ok(computation) => return Joined::First(computation),
                Err(waiting) => waiting,
            };
            // The result is an error if the computation was dropped. Then the next turn starts it again.
            if let Ok(outcome) = waiting.wait_for(Option::is_some).await {
                return outcome
                    .clone()
                    .flatten()
                    .map_or(Joined::Unshared, Joined::Finished);
            }
        }
    }

    fn start_or_wait(&self, key: &K) -> Result<Computation<K, V>, watch::Receiver<Option<Outcome<V>>>> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = running.get(key) {
            return Err(waiting.clone());
        }
        let (outcome, waiting) = watch::channel(None);
        running.insert(key.clone(), waiting);
        Ok(Computation {
            key: key.clone(),
            outcome,
            running: Arc::clone(&self.0),
        })
    }
}

impl<K: Hash + Eq, V> Computation<K, V> {
    /// Ends the computation. Without a value, each waiting request computes its own.
    pub(super) fn finish(self, value: Option<V>) {
        self.outcome.send_replace(Some(value));
    }
}

impl<K: Hash + Eq, V> Drop for Computation<K, V> {
    fn drop(&mut self) {
        // Before the sender is dropped, so that a waiting request that starts again does not find this computation.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn first(joined: Joined<u8, &'static str>) -> Computation<u8, &'static str> {
        match joined {
            Joined::First(computation) => computation,
            Joined::Finished(value) => panic!("finished with {value}"),
            Joined::Unshared => panic!("unshared"),
        }
    }

    fn started(computations: &Computations<u8, &'static str>, key: u8) -> Computation<u8, &'static str> {
        first(computations.join(key).now_or_never().expect("no wait"))
    }

    #[test]
    fn waiting_requests_receive_the_value_of_the_first() {
        let computations = Computations::default();
        let computation = started(&computations, 1);
        let mut waiting = Box::pin(computations.join(1));
        assert!((&mut waiting).now_or_never().is_none());
        drop(started(&computations, 2));
        computation.finish(Some("value"));
        let joined = waiting.now_or_never().expect("the end");
        assert!(matches!(joined, Joined::Finished("value")));
        // A later request computes again.
        drop(started(&computations, 1));
    }

    #[test]
    fn waiting_requests_compute_on_their_own_after_an_error() {
        let computations = Computations::default();
        let computation = started(&computations, 1);
        let mut waiting = [Box::pin(computations.join(1)), Box::pin(computations.join(1))];
        for request in &mut waiting {
            assert!(request.now_or_never().is_none());
        }
        computation.finish(None);
        for request in waiting {
            assert!(matches!(request.now_or_never(), Some(Joined::Unshared)));
        }
    }

    #[test]
    fn waiting_request_takes_over_from_a_canceled_one() {
        let computations = Computations::default();
        let computation = started(&computations, 1);
        let (mut second, mut third) = (Box::pin(computations.join(1)), Box::pin(computations.join(1)));
        assert!((&mut second).now_or_never().is_none());
        assert!((&mut third).now_or_never().is_none());
        drop(computation);
        let computation = first(second.now_or_never().expect("a turn"));
        assert!((&mut third).now_or_never().is_none());
        computation.finish(Some("value"));
        let joined = third.now_or_never().expect("the end");
        assert!(matches!(joined, Joined::Finished("value")));
    }
}
