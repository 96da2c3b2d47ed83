//! The REST API of the control plane as types.
//!
//! [`operations()`] is the table that routes requests. [`params`] are the bodies and queries that operations
//! take, [`views`] are their replies. The console reads and writes both, and the description of the API
//! ([`document()`]) is made of the same types. `docs/openapi/control.json` is the description as it is
//! committed, so that a change of the API is a change of this file. Not here: handlers and HTTP (`console`),
//! rights and validation (`control`).

mod calls;
mod describe;
mod document;
mod operations;
pub mod params;
pub mod query;
mod rows;
mod shapes;
pub mod views;
mod words;

pub use calls::{AccessCall, Call, ChangeCall, FileCall, RolloutCall, TransferCall, VersionCall};
pub use document::document;
pub use operations::operations;
