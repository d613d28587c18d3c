//! Panics of tests, with their messages and locations.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::thread;

use libtest_mimic::Failed;

/// Size of the stack of a test in bytes: that of the main thread of a program. In a debug build, a test that runs a server
/// in its own thread needs more than the 2 MiB of other threads.
const STACK_BYTES: usize = 8 << 20;

thread_local! {
    /// Panics of the test that runs on this thread. `None` outside of tests.
    static PANICS: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs the panic hook. It collects the panics on threads of tests and prints all others.
pub(crate) fn install() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        let collected =
            PANICS.with_borrow_mut(|panics| panics.as_mut().map(|text| describe(text, information)));
        if collected.is_none() {
            print(information);
        }
    }));
}

fn describe(text: &mut String, information: &PanicHookInfo<'_>) {
    let message = information
        .payload_as_str()
        .unwrap_or("panicked with a value that is not a text");
    let location = information
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    // Writing to a text cannot fail.
    let _ = writeln!(text, "panicked at {location}:\n{message}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = writeln!(text, "{backtrace}");
    }
}

/// Runs a test on a thread of its own, and returns the messages of its panics if it fails.
pub(crate) fn catch(run: impl FnOnce() + Send + 'static) -> Result<(), Failed> {
    let test = move || {
        PANICS.set(Some(String::new()));
        let outcome = panic::catch_unwind(AssertUnwindSafe(run));
        outcome.map_err(|_| PANICS.take().unwrap_or_default())
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(test)?;
    let outcome = thread.join();
    outcome
        .unwrap_or_else(|_| Err(String::new()))
        .map_err(Failed::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_contains_message_and_location_of_each_panic() {
        install();
        let failed = catch(|| {
            // A panic that is caught, as in a task of a server.
            let caught = panic::catch_unwind(|| panic!("the first"));
            assert!(caught.is_err());
            panic!("the {}", "second");
        });
        let failed = failed.expect_err("a failure");
        let message = failed.message().expect("a message");
        assert!(
            message.contains("failures.rs:") && message.contains("the first"),
            "{message}"
        );
        assert!(message.contains("the second"), "{message}");
        catch(|| {}).expect("success");
    }
}
