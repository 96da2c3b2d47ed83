//! How each protocol writes requests and reads replies, without any I/O: bytes out, bytes in.
//!
//! Not here: when to send ([`pace`](crate::pace)), and the sockets ([`wire`](crate::wire)).

mod http1;
mod http2;
mod in_order;
mod resp;

use std::sync::Arc;

use tollgate_core::Timestamp;

use crate::request::Request;
use crate::tally::{Sent, Tally};
use crate::{Ask, Plan, Protocol};

/// The connection cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Its requests may or may not have been decided; with the reason.
    Off(String),
    /// The server closes it: in-flight requests were not processed, and may be sent again on another.
    Goodbye,
}

impl Broken {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Off(why) => why,
            Self::Goodbye => "the server ends every connection without an answer",
        }
    }
}

impl From<&str> for Broken {
    fn from(why: &str) -> Self {
        Self::Off(why.to_owned())
    }
}

/// One connection's side of a protocol.
pub(crate) trait Codec {
    /// Begins a new connection: what is sent first goes to `out`.
    fn open(&mut self, out: &mut Vec<u8>);
    /// Whether another request may be sent now.
    fn has_room(&self) -> bool;
    /// Writes a request.
    fn request(&mut self, key: u64, sent: Sent, out: &mut Vec<u8>);
    /// Reads all complete replies in `input`, tallies them as of `now`, and returns how many bytes those
    /// were. What has to be sent back goes to `out`.
    fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<usize, Broken>;
    /// Removes and returns the in-flight requests.
    fn lost(&mut self) -> Vec<Sent>;
    /// How many requests are in flight.
    fn waiting(&self) -> usize;
}

/// The codec for a plan.
///
/// # Errors
/// When the protocol has no request like the plan's.
pub(crate) fn codec(plan: &Plan) -> Result<Box<dyn Codec>, &'static str> {
    let request = Arc::new(Request::new(plan)?);
    Ok(match plan.target.protocol {
        Protocol::Grpc => Box::new(http2::Http2::new(request, plan)),
        Protocol::Http => Box::new(in_order::InOrder::new(request, plan.in_flight, None, http1::reply)),
        Protocol::Resp => {
            let auth =
                plan.token.as_deref().map(|token| crate::request::command(["AUTH", token].into_iter()));
            let is_throttlecrab = matches!(&plan.ask, Ask::Command(words)
                if words.first().is_some_and(|word| word.eq_ignore_ascii_case("THROTTLE")));
            let reply = if is_throttlecrab { resp::throttlecrab_reply } else { resp::reply };
            Box::new(in_order::InOrder::new(request, plan.in_flight, auth, reply))
        }
    })
}
