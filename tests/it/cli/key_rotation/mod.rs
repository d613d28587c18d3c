//! `holdfast admin rotate-key`.

mod damage;
mod interruptions;
mod owner;
mod rotation;
pub mod secrets;
