//! A control plane and its nodes as real processes: rules arrive, faults are survived, errors say what to do.
#![cfg(feature = "control")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a failed step of a test must say which")]

mod acknowledged;
mod away;
mod click;
mod commands;
mod disk;
mod docs;
mod embedded;
mod floods;
mod joining;
mod logged;
mod operators;
mod proxies;
mod restored;
mod rollouts;
mod rude;
mod rules;
mod secrets;
mod tls;
mod truth;
