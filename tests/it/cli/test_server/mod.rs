//! `holdfast test-server`.

mod clock;
mod demo;
mod faults;
mod lifecycle;
mod snapshots;
mod template;
