//! The common part of all HTTP surfaces, so that a console, a control API or a gateway need not write it
//! again.
//!
//! A surface implements [`Api`]: a table of [`Operation`]s and the method that answers them. [`HttpSurface`]
//! serves it on HTTP/1.1 by `hyper` driven directly: connections and their timeouts, routing by the table
//! (404 with a hint, 405 with `Allow`, HEAD and OPTIONS), the admin token, bodies within their caps, and
//! errors as `application/problem+json`. The same table makes the [start page](page) and the [OpenAPI
//! description](openapi). `examples/hello.rs` is a whole surface. Not here: sockets and TLS (`net`), what any
//! operation does.

mod admin;
mod api;
mod body;
mod connection;
mod description;
pub mod openapi;
mod operations;
pub mod page;
mod problem;
pub mod query;
pub mod reply;
mod route;
mod settings;
mod shared;
mod token;
mod wake;

pub use admin::AdminAccess;
pub use api::{Api, HttpSurface};
pub use body::Request;
pub use operations::{Access, Operation};
pub use problem::{Problem, ProblemBody, Reason};
pub use reply::Reply;
pub use settings::SurfaceSettings;
pub use shared::Shared;
pub use token::Token;
