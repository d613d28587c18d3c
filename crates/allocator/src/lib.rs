//! The memory allocator of the server: mimalloc, which also serves libgit2 and SQLite (ADR 51).
//!
//! It is used by each program that depends on this package. Call [`return_freed_memory`] at the start of `main`.

use libmimalloc_sys::mi_option_t;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Option for the milliseconds after which a freed page is returned to the system. The bindings do not declare it. The
/// number is its position in `mi_option_e` of mimalloc 2.
const PURGE_DELAY: mi_option_t = 15;

/// Makes the allocator return freed pages to the system at once.
///
/// With its default of 10 ms, it returns them when memory is allocated later, so the process keeps the peak of a load
/// that has ended. mimalloc reads the option without a lock, so call this function before the process has other threads.
#[allow(unsafe_code)]
pub fn return_freed_memory() {
    // SAFETY: The function writes two integers into an array. The option is less than the length of the array, and no other
    // thread reads them now.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn option_is_the_purge_delay() {
        // SAFETY: The functions read and write one integer of an array. The option is less than the length of the array.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // Its default, which no other option of mimalloc 2 near this position has.
        assert_eq!(delay(), 10);
        return_freed_memory();
        assert_eq!(delay(), 0);
    }
}
