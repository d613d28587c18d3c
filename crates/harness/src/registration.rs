//! Registered test functions.

use std::future::Future;
use std::pin::Pin;

use crate::postgresql;

/// A condition for running a test. Returns how to enable the test if the condition is not met.
pub type Requirement = fn() -> Option<&'static str>;

/// Future of a test.
pub type TestFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Test functions that a module registers together.
#[derive(Debug)]
pub struct Tests(pub &'static [Test]);

inventory::collect!(Tests);

/// A registered test function. Each of its variants is a test.
#[derive(Debug)]
pub struct Test {
    /// Path of the module of the function.
    pub module: &'static str,
    /// Name of the function.
    pub function: &'static str,
    /// The variants, at least one.
    pub variants: &'static [Variant],
    /// Runs the function.
    pub run: &'static dyn Run,
}

/// A variant of a test function, such as the database on which it runs.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Name of the variant, which is the last part of the name of the test. Empty if the test has the name of the function.
    pub name: &'static str,
    /// The condition for running the test.
    pub requirement: Option<Requirement>,
}

/// Name of the variant on SQLite.
pub const ON_SQLITE: &str = "on_sqlite";
/// Name of the variant on PostgreSQL.
pub const ON_POSTGRESQL: &str = "on_postgresql";
/// The variants on each database.
pub const EVERY_DATABASE: &[Variant] = &[
    Variant {
        name: ON_SQLITE,
        requirement: None,
    },
    POSTGRESQL[0],
];
/// The variant on PostgreSQL.
pub const POSTGRESQL: &[Variant] = &[Variant {
    name: ON_POSTGRESQL,
    requirement: Some(postgresql::missing),
}];

/// Runs a test function.
///
/// Macros register a value with a function pointer for each test function. The code around the function belongs to the type
/// of the value, so that it is compiled once.
pub trait Run: std::fmt::Debug + Sync {
    /// Runs the function in a variant. Panics if the test fails.
    fn run(&self, variant: &'static str);
}

/// A test function without parameters.
#[derive(Debug)]
pub struct Function(pub fn());

impl Run for Function {
    fn run(&self, _: &'static str) {
        (self.0)();
    }
}

impl Test {
    /// Returns the name of a variant as libtest forms it: the path of the function without the crate.
    pub(crate) fn name(&self, variant: &Variant) -> String {
        let module = self.module.split_once("::").map_or("", |(_, module)| module);
        let parts = [module, self.function, variant.name];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("::")
    }
}

impl Variant {
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
    (@register $requirement:expr; $($name:ident),*) => {
        const _: () = {
            #[allow(unused_imports)]
            use $crate::{Asynchronous as _, Synchronous as _};
            const VARIANTS: &[$crate::Variant] = &[$crate::Variant { name: "", requirement: $requirement }];
            $crate::register![$(
                $name: VARIANTS, $crate::Function(|| (&$name).run_test());
            )*];
        };
    };
    (requires $requirement:expr; $($name:ident),* $(,)?) => {
        $crate::tests!(@register ::std::option::Option::Some($requirement); $($name),*);
    };
    ($($name:ident),* $(,)?) => {
        $crate::tests!(@register ::std::option::Option::None; $($name),*);
    };
}

/// Registers test functions with their variants and a constant value that implements [`Run`].
#[macro_export]
macro_rules! register {
    ($($name:ident: $variants:expr, $run:expr;)*) => {
        const _: () = {
            const TESTS: &[$crate::Test] = &[$(
                $crate::Test {
                    module: ::std::module_path!(),
                    function: ::std::stringify!($name),
                    variants: $variants,
                    run: &$run,
                },
            )*];
            $crate::inventory::submit! { $crate::Tests(TESTS) }
        };
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
        run_on_threads(1, Box::pin(self()));
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
///
/// # Panics
/// If the runtime cannot be created, or the test fails.
pub fn run_on_threads(threads: usize, test: TestFuture) {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = match builder.worker_threads(threads).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("cannot create a runtime: {error}"),
    };
    runtime.block_on(test);
}
