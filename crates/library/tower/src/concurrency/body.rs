//! A body that holds the slot of its request until its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::status::StatusCode;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tollgate::adaptive::Finish;
use tollgate::{Clock, MonotonicClock};

use super::judge::Judge;
use super::slots::Slot;
use crate::body::Body;

pin_project! {
    /// The body of a response behind a [`ConcurrencyLayer`](crate::ConcurrencyLayer). It holds the slot of
    /// its request until it has been read to its end, or is dropped.
    #[derive(Debug)]
    pub struct HeldBody<B, C = MonotonicClock>
    where
        C: Clock,
    {
        #[pin]
        body: Body<B>,
        held: Option<Held<C>>,
    }
}

/// State that is settled at the end of a body.
#[derive(Debug)]
pub(super) struct Held<C: Clock> {
    pub(super) slot: Slot<C>,
    pub(super) status: StatusCode,
    /// End of the call, as far as it is known.
    pub(super) finish: Finish,
    pub(super) judge: Arc<Judge>,
}

impl<C: Clock> Held<C> {
    fn end(self) {
        self.slot.finish(self.finish);
    }
}

impl<B, C: Clock> HeldBody<B, C> {
    /// A body that holds nothing.
    pub(super) const fn free(body: Body<B>) -> Self {
        Self { body, held: None }
    }
}

impl<B: http_body::Body<Data = Bytes>, C: Clock> HeldBody<B, C> {
    pub(super) fn new(body: Body<B>, held: Held<C>) -> Self {
        if http_body::Body::is_end_stream(&body) {
            held.end(); // no server reads what is empty
            return Self::free(body);
        }
        Self { body, held: Some(held) }
    }
}

impl<B: http_body::Body<Data = Bytes>, C: Clock> http_body::Body for HeldBody<B, C> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        let is_over = match &frame {
            Some(Ok(frame)) => match (frame.trailers_ref(), this.held.as_mut()) {
                (Some(trailers), Some(held)) => {
                    held.finish = held.judge.fields(held.status, trailers);
                    true // nothing follows them, and some servers do not look again
                }
                _ => http_body::Body::is_end_stream(&*this.body),
            },
            Some(Err(_)) => {
                *this.held = None; // it broke: that shows nothing
                false
            }
            None => true,
        };
        if is_over {
            this.held.take().into_iter().for_each(Held::end);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.body)
    }
}
