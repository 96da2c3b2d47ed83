//! Tests of the HTTP API on real sockets, in one program, which builds faster than ten.

mod any_body;
mod check;
mod common;
mod docs;
mod explain;
mod heads;
mod openapi;
mod proxies;
mod routes;
mod rude;
mod slots;
mod throttle;
