//! Notes on issues, merge requests, snippets and epics (specification 2.4 and 4.3).

pub mod system;
