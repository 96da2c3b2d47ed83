//! A few responses that may be used again instead of a request to the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AGE, AUTHORIZATION, CACHE_CONTROL, COOKIE, HOST, RANGE, VARY,
};
use http::{HeaderMap, Method, Request, Response, StatusCode, response};
use http_body::Frame;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tollgate::Timestamp;

/// Longest body that is kept, in bytes.
const MAX_BODY: usize = 64 << 10;
/// Longest name that is kept, in bytes.
const MAX_NAME: usize = 8 << 10;

/// A bounded number of responses; the one that ends first makes room.
#[derive(Debug)]
pub(crate) struct Cache {
    most: usize,
    entries: Mutex<Vec<CachedResponse>>,
}

#[derive(Debug)]
struct CachedResponse {
    name: Name,
    ends: Timestamp,
    head: response::Parts,
    body: Bytes,
}

/// Name of a request: all of it that its response may depend on.
type Name = Vec<u8>;

/// The name of a request whose response may be kept.
pub(crate) fn name_of<B>(request: &Request<B>) -> Option<Name> {
    let fields = request.headers();
    let is_plain = request.method() == Method::GET && !fields.contains_key(RANGE);
    if !is_plain || directive(fields, "no-cache").is_some() || directive(fields, "no-store").is_some() {
        return None;
    }
    let mut name = request.uri().to_string().into_bytes();
    for field in [HOST, AUTHORIZATION, COOKIE, ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE] {
        for value in fields.get_all(field) {
            name.push(b'\n'); // in no value
            name.extend_from_slice(value.as_bytes());
        }
        name.push(b'\r');
    }
    (name.len() <= MAX_NAME).then_some(name)
}

/// The argument of a directive of `Cache-Control`; empty where it has none.
fn directive<'a>(fields: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = fields.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).find_map(|directive| {
        let (found, argument) = directive.split_once('=').unwrap_or((directive, ""));
        found.trim().eq_ignore_ascii_case(name).then(|| argument.trim().trim_matches('"'))
    })
}

/// Time for which a response may be used again.
fn fresh_for(response: &response::Parts) -> Option<Duration> {
    let fields = &response.headers;
    let forbids = |name| directive(fields, name).is_some();
    if response.status != StatusCode::OK
        || fields.contains_key(VARY)
        || forbids("no-store")
        || forbids("no-cache")
    {
        return None;
    }
    let age = fields.get(AGE).and_then(|age| age.to_str().ok()?.parse().ok()).unwrap_or(0);
    let left = directive(fields, "max-age")?.parse::<u32>().ok()?.saturating_sub(age);
    (left > 0).then(|| Duration::from_secs(left.into()))
}

impl Cache {
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, entries: Mutex::new(Vec::new()) }
    }

    pub(crate) fn get(&self, name: &[u8], now: Timestamp) -> Option<Response<Bytes>> {
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.ends > now);
        let entry = entries.iter().find(|entry| entry.name == name)?;
        Some(Response::from_parts(entry.head.clone(), entry.body.clone()))
    }

    /// The response, which is kept once its body has been read to the end, if it may be.
    pub(crate) fn record<B: http_body::Body>(
        self: Arc<Self>,
        name: Name,
        response: Response<B>,
        now: Timestamp,
    ) -> Response<Recorded<B>> {
        let (head, body) = response.into_parts();
        let is_short = body.size_hint().lower() <= MAX_BODY as u64;
        let recorder = fresh_for(&head).filter(|_| is_short).map(|span| {
            let entry = CachedResponse { name, ends: now + span, head: head.clone(), body: Bytes::new() };
            Recorder { cache: self, entry, read: BytesMut::new() }
        });
        Response::from_parts(head, Recorded { body, recorder })
    }

    fn put(&self, entry: CachedResponse) {
        let mut entries = self.entries.lock();
        entries.retain(|other| other.name != entry.name);
        if entries.len() >= self.most {
            let first = entries.iter().enumerate().min_by_key(|(_, entry)| entry.ends).map(|(at, _)| at);
            match first {
                Some(first) => drop(entries.swap_remove(first)),
                None => return, // nothing may be kept
            }
        }
        entries.push(entry);
    }
}

pin_project! {
    /// A body that is kept once it was read to the end.
    #[derive(Debug)]
    pub(crate) struct Recorded<B> {
        #[pin]
        body: B,
        recorder: Option<Recorder>,
    }
}

#[derive(Debug)]
struct Recorder {
    cache: Arc<Cache>,
    entry: CachedResponse,
    read: BytesMut,
}

impl Recorder {
    fn finish(mut self) {
        self.entry.body = self.read.freeze();
        self.cache.put(self.entry);
    }
}

impl<B: http_body::Body<Data = Bytes>> Recorded<B> {
    pub(crate) fn inner(&self) -> &B {
        &self.body
    }

    pub(crate) fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let mut this = self.project();
        let frame = std::task::ready!(this.body.as_mut().poll_frame(context));
        match &frame {
            Some(Ok(frame)) => match (frame.data_ref(), this.recorder.as_mut()) {
                (Some(data), Some(recorder)) if recorder.read.len() + data.len() <= MAX_BODY => {
                    recorder.read.extend_from_slice(data);
                    if this.body.is_end_stream() {
                        this.recorder.take().into_iter().for_each(Recorder::finish);
                    }
                }
                _ => *this.recorder = None,
            },
            Some(Err(_)) => *this.recorder = None,
            None => this.recorder.take().into_iter().for_each(Recorder::finish),
        }
        Poll::Ready(frame)
    }
}
