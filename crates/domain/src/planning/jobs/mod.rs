//! Background jobs of this area.

pub mod read_messages;
