//! Permits leased ahead of time: an escrow bucket whose bound holds for any number of nodes, lost messages
//! and crashes.
//!
//! The [`Ledger`] keeps one key's account where all nodes meet; a [`Node`] spends the permits leased to it
//! and asks for more before it runs out. Both are plain values: no I/O, no clock, no task. Time and messages
//! are arguments, so that the same code runs in production and in a simulation. The ledger's arithmetic is
//! whole numbers below 2^53, so that a script in Lua repeats it exactly.
//!
//! The account is the bucket's *debt* (what it lacks of being full), which falls as time passes, but never
//! below the permits leased out and not yet reported. That floor is the whole idea: permits that a node may
//! still spend are never handed out twice. `docs/guarantees.md` derives the bound from it.
//!
//! Not here: the script and the tasks that carry requests to Redis (`ledger.lua` and `leased` of
//! `store-redis`).
#![deny(missing_docs)] // it is published

mod decisions;
mod demand;
mod ledger;
mod merge;
mod message;
mod mistake;
mod node;
mod terms;
mod time;

pub use ledger::{LONGEST_WAIT_US, Ledger, MOST_NODES, NodeEntry};
pub use merge::merge;
pub use message::{LeaseRequest, LedgerCall, LedgerReply, Op};
pub use mistake::Mistake;
pub use node::{Node, PayStep, TakeStep, Verdict};
pub use terms::{Terms, Timing};
pub use time::Mono;
