//! The seam: the part that a user of the client hands in. Items wait in a queue; a flight turns them into
//! requests, requests into commands, and hands back the replies.
//!
//! Not here: the time and connection of commands (`driver`), and the consequences of an error reply
//! (`replies`).

use std::fmt::Debug;

use crate::replies::Replies;
use crate::request::{Item, Planned, Request};
use crate::shared::Shared;
use crate::value::Value;

/// The conversion of items to requests, of requests to commands, and of replies to answers.
pub trait Workload: Clone + Debug + Send + Sync + 'static {
    /// A caller's call.
    type Item: Item;
    /// One request of a flight.
    type Request: Request;
    /// Buffers of a flight, used again and again.
    type Buffers: Debug + Default + Send + 'static;

    /// A new flight begins: nothing that the buffers hold is needed any more.
    fn begin(&self, buffers: &mut Self::Buffers);

    /// Adds an item to the flight: as a request of its own, or merged into one. True when it was merged.
    fn add(
        &self,
        item: Self::Item,
        requests: &mut Vec<Planned<Self::Request>>,
        buffers: &mut Self::Buffers,
    ) -> bool;

    /// All items are added: decides the command of the request. False when its callers have been answered
    /// without a server.
    fn prepare(&self, request: &mut Self::Request, buffers: &mut Self::Buffers, shared: &Shared) -> bool;

    /// Writes one command for the first of `requests` and as many that follow as may share it; returns their
    /// number, at least 1. `one_slot`: keys of different slots may not share a command.
    fn write(
        &self,
        requests: &[Planned<Self::Request>],
        one_slot: bool,
        buffers: &Self::Buffers,
        bytes: &mut Vec<u8>,
    ) -> usize;

    /// The reply to a command that was written for these `count` requests.
    fn on_reply(
        &self,
        requests: impl Iterator<Item = Planned<Self::Request>>,
        count: usize,
        value: Value,
        buffers: &mut Self::Buffers,
        replies: &mut Replies<'_, Self::Request>,
    );
}
