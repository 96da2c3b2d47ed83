//! What a caller asks, as it stands in the body or the query: texts stay where they are, and the lists that hold them
//! are used again by the next request.

use std::borrow::Cow;
use std::ops::Range;

use tollgate_limiter::{Descriptor, Entry, Request};

use crate::answer::Refusal;

/// A key or a value; owned only where it had to be unescaped.
pub(crate) type Text<'b> = Cow<'b, str>;

/// One request of a body.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'b> {
    pub(crate) domain: Text<'b>,
    pub(crate) hits: u64,
    /// Its descriptors in [`Sheet::parts`].
    pub(crate) parts: Range<usize>,
}

/// One descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) hits: Option<u64>,
    /// Its entries in [`Sheet::texts`].
    pub(crate) texts: Range<usize>,
}

/// All that one body asks.
#[derive(Debug, Default)]
pub(crate) struct Sheet<'b> {
    pub(crate) asks: Vec<Ask<'b>>,
    pub(crate) parts: Vec<Part>,
    /// Keys and values.
    pub(crate) texts: Vec<(Text<'b>, Text<'b>)>,
    /// It is a list of requests, and wants a list of decisions.
    pub(crate) is_batch: bool,
}

/// How much may be asked at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) batch: usize,
    pub(crate) descriptors: usize,
    pub(crate) entries: usize,
}

/// Room for a sheet and what is made of it, kept between requests.
#[derive(Debug, Default)]
pub(crate) struct Room {
    sheet: Sheet<'static>,
    entries: Vec<Entry<'static>>,
    descriptors: Vec<Descriptor<'static>>,
}

/// What is kept of grown lists; a rare large request does not hold its memory for ever.
const KEPT: usize = 1_024;

impl Room {
    /// An empty sheet in this room.
    pub(crate) fn sheet<'b>(&mut self) -> Sheet<'b> {
        let Sheet { asks, parts, texts, .. } = std::mem::take(&mut self.sheet);
        Sheet { asks: rehouse_asks(asks), parts, texts: rehouse_texts(texts), is_batch: false }
    }

    /// Keeps the room of `sheet`.
    pub(crate) fn keep(&mut self, sheet: Sheet<'_>) {
        let Sheet { mut asks, mut parts, mut texts, .. } = sheet;
        asks.clear();
        parts.clear();
        texts.clear();
        asks.shrink_to(KEPT);
        parts.shrink_to(KEPT);
        texts.shrink_to(KEPT);
        self.sheet = Sheet { asks: rehouse_asks(asks), parts, texts: rehouse_texts(texts), is_batch: false };
    }

    /// The entries of `sheet` as the limiter wants them. Keep them afterwards.
    pub(crate) fn entries<'p>(&mut self, sheet: &'p Sheet<'_>) -> Vec<Entry<'p>> {
        let mut entries = rehouse_entries(std::mem::take(&mut self.entries));
        entries.extend(sheet.texts.iter().map(|(key, value)| Entry { key, value }));
        entries
    }

    /// The descriptors of `sheet`. Keep them afterwards.
    pub(crate) fn descriptors<'p>(
        &mut self,
        sheet: &Sheet<'_>,
        entries: &'p [Entry<'p>],
    ) -> Vec<Descriptor<'p>> {
        let mut descriptors = rehouse_descriptors(std::mem::take(&mut self.descriptors));
        descriptors.extend(sheet.parts.iter().map(|part| Descriptor {
            entries: &entries[part.texts.clone()],
            hits: part.hits,
            limit: None,
        }));
        descriptors
    }

    pub(crate) fn keep_entries(&mut self, mut entries: Vec<Entry<'_>>) {
        entries.clear();
        entries.shrink_to(KEPT);
        self.entries = rehouse_entries(entries);
    }

    pub(crate) fn keep_descriptors(&mut self, mut descriptors: Vec<Descriptor<'_>>) {
        descriptors.clear();
        descriptors.shrink_to(KEPT);
        self.descriptors = rehouse_descriptors(descriptors);
    }
}

impl<'b> Ask<'b> {
    /// The question for the limiter.
    pub(crate) fn request<'p>(&'p self, descriptors: &'p [Descriptor<'p>]) -> Request<'p> {
        Request { domain: &self.domain, descriptors: &descriptors[self.parts.clone()], hits: self.hits }
    }
}

impl Sheet<'_> {
    /// Whether every request can be decided at all, so that a batch is decided whole or not at all.
    pub(crate) fn check(&self, descriptors: &[Descriptor<'_>]) -> Result<(), Refusal> {
        for (index, ask) in self.asks.iter().enumerate() {
            if let Err(error) = ask.request(descriptors).check() {
                let place = if self.is_batch { format!("requests[{index}]: ") } else { String::new() };
                return Err(Refusal::bad(format!("{place}{error}")));
            }
        }
        Ok(())
    }
}

// The room of an emptied list, for items of another lifetime: collecting in place moves it without a copy.

fn rehouse_asks<'a>(items: Vec<Ask<'_>>) -> Vec<Ask<'a>> {
    items.into_iter().map(|_| Ask { domain: Cow::Borrowed(""), hits: 0, parts: 0..0 }).collect()
}

fn rehouse_texts<'a>(items: Vec<(Text<'_>, Text<'_>)>) -> Vec<(Text<'a>, Text<'a>)> {
    items.into_iter().map(|_| (Cow::Borrowed(""), Cow::Borrowed(""))).collect()
}

fn rehouse_entries<'a>(items: Vec<Entry<'_>>) -> Vec<Entry<'a>> {
    items.into_iter().map(|_| Entry { key: "", value: "" }).collect()
}

fn rehouse_descriptors<'a>(items: Vec<Descriptor<'_>>) -> Vec<Descriptor<'a>> {
    items.into_iter().map(|_| Descriptor::new(&[])).collect()
}
