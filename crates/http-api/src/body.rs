//! Reads a body: at most so many bytes, at most so long. Not here: what it says.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::Sleep;

use crate::answer::Refusal;

/// Bytes of half-arrived bodies over all connections.
#[derive(Debug)]
pub(crate) struct Budget {
    held: AtomicUsize,
    most: usize,
}

/// Part of a budget, given back when dropped.
struct Held<'b> {
    budget: &'b Budget,
    bytes: usize,
}

impl Budget {
    pub(crate) const fn new(most: usize) -> Self {
        Self { held: AtomicUsize::new(0), most }
    }

    /// Bytes held now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Held<'_> {
    fn more(&mut self, bytes: usize) -> Result<(), Refusal> {
        let before = self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before.saturating_add(bytes) > self.budget.most {
            let detail = "too many bodies are half-arrived; nothing was decided, try again later";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        }
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The whole body. One that came with its head, as most do, is neither copied nor timed.
pub(crate) async fn read(
    mut body: Incoming,
    most: usize,
    patience: Duration,
    budget: &Budget,
) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    let mut watch = Watch { patience, has_looked: false, sleep: None };
    let Some(first) = watch.data(&mut body, most).await? else { return Ok(Bytes::new()) };
    if body.is_end_stream() {
        return Ok(first);
    }
    let mut held = Held { budget, bytes: 0 };
    let mut all = BytesMut::new();
    let mut next = first;
    loop {
        held.more(next.len())?;
        all.extend_from_slice(&next);
        match watch.data(&mut body, most - all.len()).await? {
            Some(data) => next = data,
            None => return Ok(all.freeze()),
        }
    }
}

fn too_large(most: usize) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is above {most} bytes"))
}

/// How long is waited for the rest of a body. The time begins when it is found to be late.
struct Watch {
    patience: Duration,
    has_looked: bool,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// The next bytes, `most` of them at most; `None` at the end.
    async fn data(&mut self, body: &mut Incoming, most: usize) -> Result<Option<Bytes>, Refusal> {
        loop {
            let frame = match self.frame(body).await? {
                None => return Ok(None),
                Some(frame) => frame,
            };
            let Ok(data) = frame.into_data() else { continue }; // trailers say nothing to us
            if data.len() > most {
                return Err(too_large(most));
            }
            return Ok(Some(data));
        }
    }

    async fn frame(&mut self, body: &mut Incoming) -> Result<Option<Frame<Bytes>>, Refusal> {
        let mut frame = body.frame();
        let frame = poll_fn(|cx| match Pin::new(&mut frame).poll(cx) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            Poll::Pending if !self.has_looked => {
                // The first look tells the connection that the body is wanted; what has arrived is there at the next.
                self.has_looked = true;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
                sleep.as_mut().poll(cx).map(|()| None)
            }
        });
        match frame.await {
            None => {
                let detail = format!("the body took longer than {:?}", self.patience);
                Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, detail))
            }
            Some(None) => Ok(None),
            Some(Some(Ok(frame))) => Ok(Some(frame)),
            Some(Some(Err(error))) => Err(Refusal::bad(format!("the body cannot be read: {error}"))),
        }
    }
}
