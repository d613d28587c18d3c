//! Minimum rate at which a client accepts data.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::body_rate::MIN_RATE;

/// Maximum total time of waiting writes in which a client accepts less than the minimum number of bytes.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Minimum number of bytes that a client accepts while writes wait for [`WRITE_TIMEOUT`].
const MIN_WRITE_BYTES: u64 = MIN_RATE * WRITE_TIMEOUT.as_secs();

/// The rate of the writes of a connection. Only time in which a write waits for the client counts.
#[derive(Default)]
pub struct WriteRate {
    /// Since when a write waits, and the end of its time.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Total time of the waits that ended.
    waited: Duration,
    /// Number of bytes that the client accepted since the first of these waits.
    accepted: u64,
}

impl WriteRate {
    /// Returns the result of a write, or an error if the client accepts data too slowly.
    pub fn check(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(result) = written else {
            let time = WRITE_TIMEOUT.saturating_sub(self.waited);
            let (_, end) = self
                .waiting
                .get_or_insert_with(|| (Instant::now(), Box::pin(tokio::time::sleep(time))));
            ready!(end.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        if let Some((since, _)) = self.waiting.take() {
            self.waited += since.elapsed();
        }
        if let Ok(count) = &result
            && !self.waited.is_zero()
        {
            self.accepted += *count as u64;
            if self.accepted >= MIN_WRITE_BYTES {
                *self = Self::default();
            }
        }
        Poll::Ready(result)
    }

    /// Forgets the waits if none continues: the client has accepted all data, so waits of many small responses do not
    /// add up.
    pub fn restart(&mut self) {
        if self.waiting.is_none() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWrite, DuplexStream};

    use super::*;

    /// Writes `size` bytes and returns the time that it took.
    async fn write(
        stream: &mut DuplexStream,
        rate: &mut WriteRate,
        size: usize,
    ) -> (Duration, io::Result<()>) {
        let (start, mut rest) = (Instant::now(), vec![b'x'; size]);
        while !rest.is_empty() {
            let written = poll_fn(|context| {
                let written = Pin::new(&mut *stream).poll_write(context, &rest);
                rate.check(context, written)
            })
            .await;
            match written {
                Ok(count) => drop(rest.drain(..count)),
                Err(error) => return (start.elapsed(), Err(error)),
            }
        }
        (start.elapsed(), Ok(()))
    }

    /// Reads `size` bytes after each pause, until the other end is closed.
    fn read_slowly(mut stream: DuplexStream, size: usize, pause: Duration) {
        tokio::spawn(async move {
            let mut bytes = vec![0; size];
            loop {
                tokio::time::sleep(pause).await;
                if stream.read_exact(&mut bytes).await.is_err() {
                    return;
                }
            }
        });
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_client_that_accepts_nothing_fails() {
        let (mut stream, _client) = tokio::io::duplex(1_000);
        let (time, result) = write(&mut stream, &mut WriteRate::default(), 2_000).await;
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert_eq!(time.as_secs(), WRITE_TIMEOUT.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_client_that_accepts_a_little_before_each_timeout_fails() {
        let size = 96 << 10;
        let (mut stream, client) = tokio::io::duplex(size);
        read_slowly(client, size / 3, Duration::from_secs(100));
        let (time, result) = write(&mut stream, &mut WriteRate::default(), 10 * size).await;
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert!(time < 2 * WRITE_TIMEOUT, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn write_to_slow_client_succeeds() {
        let (mut stream, client) = tokio::io::duplex(16 << 10);
        read_slowly(client, 2 << 10, Duration::from_secs(1));
        let (time, result) = write(&mut stream, &mut WriteRate::default(), 1 << 20).await;
        result.expect("a slow write");
        assert!(time > 3 * WRITE_TIMEOUT, "{time:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_of_complete_responses_do_not_add_up() {
        let (mut stream, client) = tokio::io::duplex(10);
        read_slowly(client, 10, Duration::from_secs(50));
        let mut rate = WriteRate::default();
        for _ in 0..10 {
            write(&mut stream, &mut rate, 20)
                .await
                .1
                .expect("a small response");
            rate.restart();
        }
        let (_, result) = write(&mut stream, &mut rate, 100).await;
        assert!(result.is_err(), "the waits of one response add up");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_write_is_not_forgotten() {
        let (mut stream, _client) = tokio::io::duplex(10);
        let mut rate = WriteRate::default();
        for _ in 0..3 {
            let waiting = tokio::time::timeout(Duration::from_secs(50), write(&mut stream, &mut rate, 20));
            let failed = matches!(waiting.await, Ok((_, Err(_))));
            rate.restart();
            if failed {
                return;
            }
        }
        panic!("the write did not fail");
    }
}
