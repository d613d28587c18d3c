//! Registered test functions.

use std::future::Future;
use std::pin::Pin;

/// A condition for running a test. Returns how to enable the test if the condition is not met.
pub type Requirement = fn() -> Option<&'static str>;

/// A registered test function.
#[derive(Debug)]
pub struct Test {
    /// Path of the module of the function.
    pub module: &'static str,
    /// Name of the function.
    pub function: &'static str,
    /// The condition for running the test.
    pub requirement: Option<Requirement>,
    /// Runs the test, which panics if it fails.
    pub run: fn(),
}

inventory::collect!(Test);

impl Test {
    /// Returns the name as libtest forms it: the path of the function without the crate.
    pub(crate) fn name(&self) -> String {
        match self.module.split_once("::") {
            Some((_, module)) => format!("{module}::{}", self.function),
            None => self.function.to_owned(),
        }
    }

    /// Returns how to enable the test, if its requirement is missing.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.requirement.and_then(|requirement| requirement())
    }
}

/// Registers test functions, either `fn()` or `async fn()`.
///
/// `requires requirement; a, b` registers functions that are ignored if the [`Requirement`] is missing.
#[macro_export]
macro_rules! tests {
    (requires $requirement:expr; $($name:ident),* $(,)?) => {
        $($crate::tests!(@one ::std::option::Option::Some($requirement), $name);)*
    };
    (@one $requirement:expr, $name:ident) => {
        const _: () = {
            fn run_registered() {
                #[allow(unused_imports)]
                use $crate::{Asynchronous as _, Synchronous as _};
                (&$name).run_test();
            }
            $crate::inventory::submit! {
                $crate::Test {
                    module: ::std::module_path!(),
                    function: ::std::stringify!($name),
                    requirement: $requirement,
                    run: run_registered,
                }
            }
        };
    };
    ($($name:ident),* $(,)?) => {
        $($crate::tests!(@one ::std::option::Option::None, $name);)*
    };
}

/// A test that is an `async fn`.
pub trait Asynchronous {
    /// Runs the test on a single-threaded runtime of its own.
    fn run_test(&self);
}

impl<F, T> Asynchronous for F
where
    F: Fn() -> T,
    T: Future<Output = ()> + 'static,
{
    fn run_test(&self) {
        run(
            &mut tokio::runtime::Builder::new_current_thread(),
            Box::pin(self()),
        );
    }
}

/// A test that is a plain function. The compiler selects this trait if the function does not return a future.
pub trait Synchronous {
    /// Runs the test.
    fn run_test(&self);
}

impl<F: Fn()> Synchronous for &F {
    fn run_test(&self) {
        self();
    }
}

/// Runs an asynchronous test on a runtime with this number of threads. One is the thread of the test.
pub fn run_on_threads(threads: usize, test: impl Future<Output = ()> + 'static) {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    run(builder.worker_threads(threads), Box::pin(test));
}

fn run(builder: &mut tokio::runtime::Builder, test: Pin<Box<dyn Future<Output = ()>>>) {
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("cannot create a runtime: {error}"),
    };
    runtime.block_on(test);
}
