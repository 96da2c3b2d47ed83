//! One request, and its body within its bounds: bytes, time, and what all connections together may hold.

use std::borrow::Cow;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, EXPECT};
use hyper::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;
use tokio::time::Sleep;
use tollgate_net::{Budget, OverBudget, Presence};

use crate::admin::{AdminAccess, Caller};
use crate::problem::{Problem, Reason};
use crate::reply::JSON;
use crate::wake::TaskWake;

/// Bytes of a body that are read only to be dropped.
const MOST_DROPPED: usize = 64 * 1024 * 1024;

/// One request to an [`Api`](crate::Api): its head, and its body, which is not read yet. A body that is not
/// read is dropped, and its connection with it.
///
/// Lent, not given: a head is a quarter of a kilobyte, and each async function would copy it twice.
#[derive(Debug)]
pub struct Request<'r> {
    pub(crate) received: &'r mut hyper::Request<Incoming>,
    pub(crate) body_timeout: Duration,
    pub(crate) budget: &'r Arc<Budget>,
    pub(crate) admin: &'r AdminAccess,
    pub(crate) caller: Caller<'r>,
    pub(crate) presence: &'r Arc<Presence>,
    /// Wakes the connection's task.
    pub(crate) wake: &'r TaskWake,
}

impl Request<'_> {
    #[must_use]
    pub fn method(&self) -> &Method {
        self.received.method()
    }

    /// The path of its target.
    #[must_use]
    pub fn path(&self) -> &str {
        self.received.uri().path()
    }

    /// The segment of the path at `index`, counted from 0 and percent-decoded: `b` is segment 1 of `/a/b`.
    /// `None` when there is none, or when it is not UTF-8.
    #[must_use]
    pub fn segment(&self, index: usize) -> Option<Cow<'_, str>> {
        let segment = self.path().split('/').nth(index + 1)?;
        percent_decode_str(segment).decode_utf8().ok()
    }

    /// Where the client is; `None` where connections have no address.
    #[must_use]
    pub const fn peer(&self) -> Option<IpAddr> {
        self.caller.peer
    }

    /// The text after `?` in the target, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.received.uri().query()
    }

    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.received.headers()
    }

    /// Whether its client is still there: for a request that waits long before it is answered.
    #[must_use]
    pub const fn presence(&self) -> &Arc<Presence> {
        self.presence
    }

    /// Whether the reply may name this machine's files and what is in them: to callers on this machine, and
    /// to the holder of the admin token, but not to others that reach the port.
    #[must_use]
    pub fn may_see_files(&self) -> bool {
        self.admin.may_see_files(self.headers(), self.caller)
    }

    /// The whole body, which must not claim to be anything other than JSON.
    ///
    /// # Errors
    /// 415 for another content type, and as [`body`](Self::body).
    pub async fn json(&mut self, max_bytes: usize) -> Result<Bytes, Problem> {
        must_be_json(self.headers())?;
        self.body(max_bytes).await
    }

    /// The whole body, once. A body that arrived with its head, as most do, is neither copied nor timed.
    ///
    /// The rest of a body that is too large is read and dropped, up to 64 MiB of it, unless its client waits
    /// to be asked for it: a connection that is closed while its client sends is reset, and the client may
    /// never see the reply.
    ///
    /// # Errors
    /// 413 above `max_bytes`, 408 when it takes longer than the surface's timeout, 503 when the bodies of all
    /// connections that have not arrived whole exceed their budget, 400 when it breaks off.
    pub async fn body(&mut self, max_bytes: usize) -> Result<Bytes, Problem> {
        let waits_to_be_asked = self.received.headers().contains_key(EXPECT);
        let incoming = self.received.body_mut();
        let timeout = self.body_timeout;
        let wake = self.wake;
        let mut frames = Frames { timeout, has_polled: false, sleep: None, wake };
        if incoming.size_hint().lower() > max_bytes as u64 {
            if !waits_to_be_asked {
                frames.drop_rest(incoming).await;
            }
            return Err(too_large(max_bytes));
        }
        let Some(first) = frames.data(incoming).await? else { return Ok(Bytes::new()) };
        if first.len() <= max_bytes && incoming.is_end_stream() {
            return Ok(first);
        }
        let mut share = self.budget.share();
        let mut all = BytesMut::new();
        let mut next = first;
        loop {
            if next.len() > max_bytes - all.len() {
                drop((next, all, share));
                frames.drop_rest(incoming).await;
                return Err(too_large(max_bytes));
            }
            if let Err(error) = share.grow(next.len()) {
                drop((next, all, share));
                frames.drop_rest(incoming).await;
                return Err(over_budget(error));
            }
            all.extend_from_slice(&next);
            match frames.data(incoming).await? {
                Some(data) => next = data,
                None => return Ok(all.freeze()),
            }
        }
    }
}

/// Rejects bodies that claim to be something other than JSON. Bodies without `Content-Type` are accepted, and
/// so is the default of `curl -d`.
fn must_be_json(fields: &HeaderMap) -> Result<(), Problem> {
    let Some(content_type) = fields.get(CONTENT_TYPE) else { return Ok(()) };
    if *content_type == JSON {
        return Ok(());
    }
    let essence = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    match &*essence.trim_ascii().to_ascii_lowercase() {
        b"application/json" | b"application/x-www-form-urlencoded" => Ok(()),
        essence if essence.starts_with(b"application/") && essence.ends_with(b"+json") => Ok(()),
        _ => {
            let detail = "the body must be JSON; send it with `Content-Type: application/json`";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

fn too_large(max_bytes: usize) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {max_bytes} bytes"))
}

#[cold]
fn unreadable(error: &hyper::Error) -> Problem {
    Problem::bad(format!("the body cannot be read: {error}"))
}

fn over_budget(_: OverBudget) -> Problem {
    let detail = "too many bytes of half-arrived bodies; nothing was done, try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).because(Reason::Overload)
}

/// The frames of one body. The timeout begins when the body is found to be late.
struct Frames<'r> {
    timeout: Duration,
    has_polled: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    wake: &'r TaskWake,
}

impl Frames<'_> {
    /// Reads the rest of an unwanted body, as far as it comes in time.
    async fn drop_rest(&mut self, body: &mut Incoming) {
        let mut left = MOST_DROPPED;
        while let Ok(Some(data)) = self.data(body).await {
            left = left.saturating_sub(data.len());
            if left == 0 {
                break;
            }
        }
    }

    /// The next bytes; `None` at the end.
    fn data(&mut self, body: &mut Incoming) -> impl Future<Output = Result<Option<Bytes>, Problem>> {
        poll_fn(move |cx| {
            loop {
                let polled = self.wake.hold(|| {
                    let polled = Pin::new(&mut *body).poll_frame(cx);
                    // The connection is woken to receive more, and there is no more.
                    let is_last = matches!(polled, Poll::Ready(Some(Ok(_)))) && body.is_end_stream();
                    (polled, u32::from(is_last))
                });
                let frame = match polled {
                    Poll::Ready(frame) => frame,
                    Poll::Pending => return self.poll_late(cx).map(Err),
                };
                let frame = match frame {
                    None => return Poll::Ready(Ok(None)),
                    Some(Ok(frame)) => frame,
                    Some(Err(error)) => return Poll::Ready(Err(unreadable(&error))),
                };
                let Ok(data) = frame.into_data() else { continue }; // trailers are ignored
                return Poll::Ready(Ok(Some(data)));
            }
        })
    }

    /// Waits for bytes that are not there. Ready when they take too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Problem> {
        if !self.has_polled {
            // The first poll tells the connection that the body is wanted; what has arrived is there at the
            // next.
            self.has_polled = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.timeout)));
        sleep.as_mut().poll(cx).map(|()| {
            let detail = format!("the body did not arrive within {:?}", self.timeout);
            Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
        })
    }
}
