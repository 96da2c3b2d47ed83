//! Encoding of requests and decoding of replies in each protocol, without any I/O: bytes out, bytes in.
//!
//! Not here: when to send ([`pace`](crate::pace)), and the sockets ([`wire`](crate::wire)).

mod connection;
mod http1;
mod http2;
mod in_order;
mod resp;

use std::sync::Arc;

pub(crate) use self::connection::{Broken, Codec};
use crate::request::RequestTemplate;
use crate::{Ask, Plan, Protocol};

/// The codec for a plan.
///
/// # Errors
/// When the protocol has no request like the plan's.
pub(crate) fn codec(plan: &Plan) -> Result<Box<dyn Codec>, &'static str> {
    let request = Arc::new(RequestTemplate::new(plan)?);
    Ok(match plan.target.protocol {
        Protocol::Grpc => Box::new(http2::Http2::new(request, plan)),
        Protocol::Http => Box::new(in_order::InOrder::new(request, plan.in_flight, None, http1::reply)),
        Protocol::Resp => {
            let auth =
                plan.token.as_deref().map(|token| crate::request::command(["AUTH", token].into_iter()));
            let is_throttlecrab = matches!(&plan.ask, Ask::Command(words)
                if words.first().is_some_and(|word| word.eq_ignore_ascii_case("THROTTLE")));
            let reply = match plan.ask {
                Ask::Check { .. } => resp::check_reply,
                _ if is_throttlecrab => resp::throttlecrab_reply,
                _ => resp::reply,
            };
            Box::new(in_order::InOrder::new(request, plan.in_flight, auth, reply))
        }
    })
}
