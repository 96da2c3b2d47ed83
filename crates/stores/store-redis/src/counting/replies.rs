//! The meaning of the replies to a flight: answers, or another call. Not here: error replies (`redis-link`).

use tollgate_redis_link::{Planned, Replies, Request as _, Value};

use super::buffers::Buffers;
use super::request::{CounterRequest, NextCall, Work};
use crate::ask::AskError;
use crate::call::{self, MOST_CALLS, Replied, ReplyPart};
use crate::config::StoreTime;

/// The reply to a call on `count` keys, each of which gets its own answer, or to a request's own call.
pub(super) fn on_reply(
    time: StoreTime,
    mut requests: impl Iterator<Item = Planned<CounterRequest>>,
    count: usize,
    value: Value,
    buffers: &mut Buffers,
    replies: &mut Replies<'_, CounterRequest>,
) {
    if count > 1 {
        return on_steps(time, requests, count, &value, buffers, replies);
    }
    let Some(mut planned) = requests.next() else { return };
    let next = match &mut planned.request.work {
        Work::Each { .. } => {
            return on_steps(time, std::iter::once(planned), 1, &value, buffers, replies);
        }
        Work::Together { asks, now, .. } => {
            buffers.answers.clear();
            call::together_answers(asks, *now, time, &value, &mut buffers.answers)
        }
        Work::Call { waiter } => {
            if let Some(waiter) = waiter.take() {
                waiter.answer(Ok(value));
            }
            return;
        }
    };
    go_on(planned, next, buffers, replies);
}

fn on_steps(
    time: StoreTime,
    requests: impl Iterator<Item = Planned<CounterRequest>>,
    count: usize,
    value: &Value,
    buffers: &mut Buffers,
    replies: &mut Replies<'_, CounterRequest>,
) {
    let replied = Replied::read(value).and_then(|replied| match replied.key_count() {
        parts if parts == count => Ok(replied),
        parts => Err(AskError::Reply(format!("{parts} answers for {count} keys"))),
    });
    for (nth, planned) in requests.enumerate() {
        let part = replied.as_ref().map_err(Clone::clone).and_then(|replied| replied.part(nth));
        let next = match (part, &replied, &planned.request.work) {
            (Ok(ReplyPart::Failed(error)), ..) => {
                replies.on_error(planned, &error);
                continue;
            }
            (Ok(part), Ok(replied), Work::Each { asks, now, .. }) => {
                buffers.answers.clear();
                call::answers(asks, *now, time, replied.at, &part, &mut buffers.answers)
            }
            (Err(fault), ..) => Err(fault),
            _ => Err(AskError::Reply("an answer to another request".to_owned())),
        };
        go_on(planned, next, buffers, replies);
    }
}

/// Answers the request, or sends its next call.
fn go_on(
    mut planned: Planned<CounterRequest>,
    next: Result<call::Next, AskError>,
    buffers: &mut Buffers,
    replies: &mut Replies<'_, CounterRequest>,
) {
    let request = &mut planned.request;
    let shared = replies.shared();
    match next.map(NextCall::of) {
        Ok(None) => return request.done(buffers, shared),
        Ok(Some(next)) => request.next = next,
        Err(fault) => return request.fault(&fault, shared),
    }
    request.calls += 1;
    if request.calls < MOST_CALLS {
        replies.send_next(planned);
    } else {
        request.fail(|| shared.rejected("others keep changing the key's rule"));
    }
}
