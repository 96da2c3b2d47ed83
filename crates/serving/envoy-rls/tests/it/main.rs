//! Tests of the service for Envoy on real sockets, in one program, which builds faster than seven.

mod calls;
mod check;
mod common;
mod descriptors;
mod encrypted;
mod going_away;
mod open_calls;
mod queue;
mod rude;
mod stores;
mod undecided;
