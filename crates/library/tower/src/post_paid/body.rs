//! A body that counts its use while it is sent.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use super::used::{ByFields, Used};
use crate::body::Body;

pin_project! {
    /// The body of a response behind a [`PostPaidLayer`](crate::PostPaidLayer). Its use counts frame by
    /// frame, so a dropped body has counted the part that was read.
    #[derive(Debug)]
    pub struct MeteredBody<B> {
        #[pin]
        body: Body<B>,
        meter: Option<Meter>,
    }
}

/// Counts the use of a body's frames.
pub(super) struct Meter {
    pub(super) used: Used,
    pub(super) counts_bytes: bool,
    pub(super) status: StatusCode,
    pub(super) by_fields: Option<Arc<ByFields>>,
}

impl Meter {
    fn count(&self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref().filter(|_| self.counts_bytes) {
            self.used.add(data.len() as u64);
        }
        if let (Some(trailers), Some(by_fields)) = (frame.trailers_ref(), &self.by_fields) {
            self.used.add(by_fields(self.status, trailers));
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("counts_bytes", &self.counts_bytes).finish_non_exhaustive()
    }
}

impl<B> MeteredBody<B> {
    pub(super) const fn new(body: Body<B>, meter: Option<Meter>) -> Self {
        Self { body, meter }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for MeteredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        if let (Some(Ok(frame)), Some(meter)) = (&frame, this.meter.as_ref()) {
            meter.count(frame);
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
