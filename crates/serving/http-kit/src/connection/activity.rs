//! Last activity of a connection, from which follows what it waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Body;
use tollgate_net::Presence;

use crate::settings::SurfaceSettings;

/// Last activity of a connection. Written by its one task; atomics only because that task may move between
/// threads.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests whose head has arrived.
    requests: AtomicU64,
    is_answering: AtomicBool,
    /// The next reply is the last.
    pub(super) is_last: AtomicBool,
    /// Bytes have arrived since the last reply: a head has begun.
    has_received: AtomicBool,
    /// Bytes that have arrived since the last reply: of a head, and of the body behind it.
    received: AtomicUsize,
    /// The API has made a reply that is not written whole.
    is_replying: AtomicBool,
    /// The client takes no more bytes.
    is_blocked: AtomicBool,
    /// Bytes that it took.
    sent: AtomicU64,
    /// Bytes of the last reply's body. There is never more than one reply: the next request is read when the
    /// client has taken the reply before.
    reply_bytes: AtomicU64,
    /// The status by which `hyper` would answer a head that it cannot read; 0 if there is none.
    unreadable: AtomicU16,
    /// Whether the client is still there, for a request that waits.
    pub(super) presence: Arc<Presence>,
}

impl Activity {
    /// A request's head is there. Returns its number, from 1.
    pub(super) fn begin_request(&self) -> u64 {
        let number = self.requests.load(Relaxed) + 1;
        self.requests.store(number, Relaxed);
        self.is_answering.store(true, Relaxed);
        number
    }

    pub(super) fn end_request(&self, reply: &impl Body) {
        self.reply_bytes.store(reply.size_hint().lower(), Relaxed);
        self.is_replying.store(true, Relaxed);
        self.is_answering.store(false, Relaxed);
        self.presence.unwatch();
        self.has_received.store(false, Relaxed);
        self.received.store(0, Relaxed);
    }

    /// Bytes that were read before and not answered are read again.
    pub(super) fn begin_reading(&self) {
        self.received.store(0, Relaxed);
    }

    pub(super) fn receive(&self, bytes: usize) {
        self.has_received.store(true, Relaxed);
        self.received.store(self.received.load(Relaxed).saturating_add(bytes), Relaxed);
    }

    /// Bytes of the request that has begun.
    pub(super) fn received_bytes(&self) -> usize {
        self.received.load(Relaxed)
    }

    pub(super) fn send(&self, bytes: usize) {
        self.sent.store(self.sent.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    pub(super) fn set_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Relaxed);
    }

    /// All that was to be written has been.
    pub(super) fn flushed(&self) {
        if !self.is_answering.load(Relaxed) {
            self.is_replying.store(false, Relaxed);
        }
    }

    /// Whether `bytes` are `hyper`'s own reply to a head that it cannot read, which is not to be sent.
    pub(super) fn is_own_reply(&self, bytes: &[u8]) -> bool {
        if self.is_answering.load(Relaxed) || self.is_replying.load(Relaxed) {
            return false;
        }
        let digits = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let Some(status) = digits.and_then(|digits| StatusCode::from_bytes(digits).ok()) else {
            return false;
        };
        self.unreadable.store(status.as_u16(), Relaxed);
        true
    }

    /// The status by which `hyper` would have answered, once.
    pub(super) fn take_unreadable(&self) -> Option<StatusCode> {
        match self.unreadable.load(Relaxed) {
            0 => None,
            status => {
                self.unreadable.store(0, Relaxed);
                StatusCode::from_u16(status).ok()
            }
        }
    }

    pub(super) fn is_unreadable(&self) -> bool {
        self.unreadable.load(Relaxed) != 0
    }

    /// Bytes that are held because the client takes none.
    pub(super) fn unread_bytes(&self) -> usize {
        let is_blocked = self.is_blocked.load(Relaxed);
        if is_blocked { self.reply_bytes.load(Relaxed) as usize } else { 0 }
    }

    pub(super) fn phase(&self) -> Phase {
        let requests = self.requests.load(Relaxed);
        if self.is_blocked.load(Relaxed) {
            Phase::Writing(self.sent.load(Relaxed))
        } else if self.is_answering.load(Relaxed) {
            Phase::Answering
        } else if requests == 0 || self.has_received.load(Relaxed) {
            Phase::Head(requests)
        } else {
            Phase::Idle(requests)
        }
    }
}
/// State of a connection that decides its timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The client to take bytes, after it has taken this many.
    Writing(u64),
    /// A body, which has a timeout of its own, or the API.
    Answering,
    /// The end of a head, after this many requests.
    Head(u64),
    /// The next request, after this many.
    Idle(u64),
}

impl Phase {
    pub(super) const fn timeout(self, settings: &SurfaceSettings) -> Option<Duration> {
        match self {
            Self::Writing(_) => Some(settings.write_timeout),
            Self::Answering => None,
            Self::Head(_) => Some(settings.header_timeout),
            Self::Idle(_) => Some(settings.idle_timeout),
        }
    }

    pub(super) const fn overdue(self) -> &'static str {
        match self {
            Self::Writing(_) => "the client did not take its reply in time",
            Self::Answering => "no reply in time",
            Self::Head(_) => "a request's head did not arrive in time",
            Self::Idle(_) => "idle for too long",
        }
    }
}
