//! `holdfast admin rotate-key`.

mod damage;
mod interruptions;
mod rotation;
mod secrets;
