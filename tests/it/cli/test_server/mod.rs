//! `holdfast test-server`.

mod clock;
mod faults;
mod lifecycle;
mod snapshots;
mod template;
