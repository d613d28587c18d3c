//! `docs/OPERATIONS.md`: every block has a test. Blocks that need other programs, such as proxies, are run by
//! `tests/clients/operations`.

mod blocks;
mod postgresql;
mod settings;
mod units;
mod upgrade;
