//! The body of a response: the inner service's, or one that was made here.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::client::cache::Recorded;

pin_project! {
    /// The body of a response: the inner service's, or one that was made here.
    #[derive(Debug)]
    pub struct Body<B> {
        #[pin]
        kind: BodyKind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum BodyKind<B> {
        Inner { #[pin] body: B },
        Here { bytes: Bytes },
        Recorded { #[pin] body: Recorded<B> },
    }
}

impl<B> Body<B> {
    pub(crate) const fn inner(body: B) -> Self {
        Self { kind: BodyKind::Inner { body } }
    }

    pub(crate) const fn recorded(body: Recorded<B>) -> Self {
        Self { kind: BodyKind::Recorded { body } }
    }

    pub(crate) const fn here(bytes: Bytes) -> Self {
        Self { kind: BodyKind::Here { bytes } }
    }
}

impl<B: http_body::Body<Data = Bytes>> http_body::Body for Body<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body } => body.poll_frame(context),
            KindProjection::Recorded { body } => body.poll_frame(context),
            KindProjection::Here { bytes } if bytes.is_empty() => Poll::Ready(None),
            KindProjection::Here { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Inner { body } => body.is_end_stream(),
            BodyKind::Recorded { body } => body.inner().is_end_stream(),
            BodyKind::Here { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Inner { body } => body.size_hint(),
            BodyKind::Recorded { body } => body.inner().size_hint(),
            BodyKind::Here { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
