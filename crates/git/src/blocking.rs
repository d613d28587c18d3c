//! Work on the threads for blocking work.

use std::any::Any;

use super::{Error, Result};

/// A result of any type.
type AnyResult = Box<dyn Any + Send>;

/// Runs blocking work on a thread for blocking work. If the future is dropped, the work continues.
///
/// The runtime does not know the types of the work and of the result. Otherwise the compiler would create the task of the
/// runtime, about 25 functions, for each caller.
///
/// # Errors
/// [`Error::Worker`] if the work panics.
pub async fn run_blocking<T, F>(work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let work: Box<dyn FnOnce() -> AnyResult + Send> = Box::new(move || Box::new(work()));
    let result = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Error::Worker)?;
    let result = result.downcast::<T>().map_err(|_| Error::Worker)?;
    Ok(*result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn result_is_returned_and_panic_is_an_error() {
        assert_eq!(run_blocking(|| "done").await.unwrap(), "done");
        let panicked = run_blocking(|| -> u8 { panic!("a panic of the test") }).await;
        assert!(matches!(panicked, Err(Error::Worker)));
    }
}
