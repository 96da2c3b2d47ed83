//! The requests of a body or a query, parsed in place: texts stay where they are, and the lists that hold
//! them are used again by the next request.

use std::borrow::Cow;
use std::ops::Range;

use hyper::StatusCode;
use tollgate_buffers::recycle;
use tollgate_http_kit::Problem;
use tollgate_human_text::lossy;
use tollgate_limiter::{Descriptor, Entry, Request};

/// A domain; owned only where it had to be unescaped.
pub(crate) type Text<'b> = Cow<'b, str>;

/// A key or a value; owned only where it had to be unescaped.
pub(crate) type Bytes<'b> = Cow<'b, [u8]>;

/// Name of a domain, or a number. Bytes that are not UTF-8 become a text that is neither.
pub(crate) fn text(bytes: Bytes<'_>) -> Text<'_> {
    match bytes {
        Cow::Borrowed(bytes) => lossy(bytes),
        Cow::Owned(bytes) => lossy(&bytes).into_owned().into(),
    }
}

/// One request of a body.
#[derive(Clone, Debug)]
pub(crate) struct ParsedRequest<'b> {
    pub(crate) domain: Text<'b>,
    pub(crate) hits: u64,
    /// The hits are used already.
    pub(crate) is_consumed: bool,
    /// Its descriptors in [`ParsedBody::descriptors`].
    pub(crate) descriptors: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct ParsedDescriptor {
    pub(crate) hits: Option<u64>,
    /// They are used already.
    pub(crate) is_consumed: bool,
    /// Its entries in [`ParsedBody::entries`].
    pub(crate) entries: Range<usize>,
}

impl ParsedDescriptor {
    /// Without hits of its own.
    pub(crate) const fn of(entries: Range<usize>) -> Self {
        Self { hits: None, is_consumed: false, entries }
    }
}

/// All that one body or query asks.
#[derive(Debug, Default)]
pub(crate) struct ParsedBody<'b> {
    pub(crate) requests: Vec<ParsedRequest<'b>>,
    pub(crate) descriptors: Vec<ParsedDescriptor>,
    /// Keys and values.
    pub(crate) entries: Vec<(Bytes<'b>, Bytes<'b>)>,
    /// It is a list of requests, to be answered by a list of decisions.
    pub(crate) is_batch: bool,
    /// It asks for more than the caps allow.
    pub(crate) is_above_caps: bool,
}

/// Most parts of one body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) requests: usize,
    pub(crate) descriptors: usize,
    pub(crate) entries: usize,
}

/// The allocations of a parsed body, and of the limiter's view of it, kept between requests.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    body: ParsedBody<'static>,
    entries: Vec<Entry<'static>>,
    descriptors: Vec<Descriptor<'static>>,
}

/// Items that a grown list keeps; a rare large request does not hold its memory for ever.
const KEPT: usize = 1_024;

impl Lists {
    /// An empty body in these allocations. Put it back afterwards.
    pub(crate) fn body<'b>(&mut self) -> ParsedBody<'b> {
        let ParsedBody { requests, descriptors, entries, .. } = std::mem::take(&mut self.body);
        ParsedBody {
            requests: recycle(requests),
            descriptors,
            entries: recycle(entries),
            ..ParsedBody::default()
        }
    }

    /// The entries of `body` as the limiter takes them. Put them back afterwards.
    pub(crate) fn entries<'p>(&mut self, body: &'p ParsedBody<'_>) -> Vec<Entry<'p>> {
        let mut entries = recycle(std::mem::take(&mut self.entries));
        entries.extend(body.entries.iter().map(|(key, value)| Entry::new(key, value)));
        entries
    }

    /// The descriptors of `body`. Put them back afterwards.
    pub(crate) fn descriptors<'p>(
        &mut self,
        body: &ParsedBody<'_>,
        entries: &'p [Entry<'p>],
    ) -> Vec<Descriptor<'p>> {
        let mut descriptors = recycle(std::mem::take(&mut self.descriptors));
        descriptors.extend(body.descriptors.iter().map(|descriptor| Descriptor {
            entries: &entries[descriptor.entries.clone()],
            hits: descriptor.hits,
            limit: None,
        }));
        descriptors
    }

    pub(crate) fn put_back_body(&mut self, body: ParsedBody<'_>) {
        let ParsedBody { requests, mut descriptors, entries, .. } = body;
        descriptors.clear();
        descriptors.shrink_to(KEPT);
        self.body = ParsedBody {
            requests: kept(requests),
            descriptors,
            entries: kept(entries),
            ..ParsedBody::default()
        };
    }

    pub(crate) fn put_back_entries(&mut self, entries: Vec<Entry<'_>>) {
        self.entries = kept(entries);
    }

    pub(crate) fn put_back_descriptors(&mut self, descriptors: Vec<Descriptor<'_>>) {
        self.descriptors = kept(descriptors);
    }
}

fn kept<A, B>(items: Vec<A>) -> Vec<B> {
    let mut items = recycle(items);
    items.shrink_to(KEPT);
    items
}

impl<'b> ParsedRequest<'b> {
    /// The request as the limiter takes it.
    pub(crate) fn request<'p>(&'p self, descriptors: &'p [Descriptor<'p>]) -> Request<'p> {
        Request { domain: &self.domain, descriptors: &descriptors[self.descriptors.clone()], hits: self.hits }
    }
}

impl ParsedBody<'_> {
    /// Whether each request of a body above `max_bytes` keeps to that cap: a single one, alone or as a batch
    /// of one, never does; those of a larger batch do by the bytes of their texts.
    ///
    /// # Errors
    /// 413 if a request is above the cap.
    pub(crate) fn check_bytes(&self, max_bytes: usize) -> Result<(), Problem> {
        let too_large = |detail| Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        if self.requests.len() <= 1 {
            return too_large(format!("the body is larger than {max_bytes} bytes"));
        }
        for (index, request) in self.requests.iter().enumerate() {
            let descriptors = &self.descriptors[request.descriptors.clone()];
            let entries = descriptors.iter().flat_map(|descriptor| &self.entries[descriptor.entries.clone()]);
            let texts: usize = entries.map(|(key, value)| key.len() + value.len()).sum();
            let bytes = request.domain.len() + texts;
            if bytes > max_bytes {
                let detail = format!(
                    "requests[{index}]: its texts take {bytes} bytes; one request may have {max_bytes}"
                );
                return too_large(detail);
            }
        }
        Ok(())
    }

    /// Whether every request can be decided, so that a batch is decided as a whole or not at all.
    pub(crate) fn check(&self, descriptors: &[Descriptor<'_>]) -> Result<(), Problem> {
        for (index, parsed) in self.requests.iter().enumerate() {
            if let Err(error) = parsed.request(descriptors).check() {
                let place = if self.is_batch { format!("requests[{index}]: ") } else { String::new() };
                return Err(Problem::bad(format!("{place}{error}")));
            }
        }
        Ok(())
    }
}
