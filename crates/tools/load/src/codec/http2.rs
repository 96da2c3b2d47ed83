//! `ShouldRateLimit` over HTTP/2, as a client that only ever makes this one call.
//!
//! Frames are written and read by hand, so that the load generator uses less CPU than the server. Header
//! blocks are not decoded: the client announces a dynamic table of size 0, so that every block is
//! self-contained, and looks for `grpc-status` only if a reply has no message.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_core::Timestamp;

use super::connection::{Broken, Codec};
use crate::Plan;
use crate::request::RequestTemplate;
use crate::tally::{Sent, Tally, Verdict};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Bytes of a frame's head; longest frame that may come, as we do not raise it.
const HEAD: usize = 9;
const MAX_FRAME: usize = 16_384;
const MAX_WINDOW: u32 = (1 << 31) - 1;
const LAST_STREAM: u32 = MAX_WINDOW - 2;

pub(super) struct Http2 {
    request: Arc<RequestTemplate>,
    in_flight: usize,
    /// The header block of every request, field by field.
    fields: Fields,
    wire: Wire,
    /// The streams from number `first` on, by twos; those that are done are taken off the front.
    streams: VecDeque<StreamState>,
    first: u32,
    waiting: usize,
}

/// State of one connection.
#[derive(Debug)]
struct Wire {
    /// The server's settings have been received; before, its limits are unknown.
    is_ready: bool,
    /// It has sent GOAWAY.
    is_leaving: bool,
    max_streams: usize,
    /// Bytes that may still be sent on the connection, and on a fresh stream.
    window: i64,
    stream_window: i64,
    /// Bytes read since the last WINDOW_UPDATE.
    read: u32,
    block: Block,
}

/// Encoding of the fields of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    /// In full, to be stored by the server.
    First,
    /// By their numbers in its table.
    Numbers,
    /// In full, as the server's table is small; `true` if this still has to be acknowledged.
    Plain(bool),
}

#[derive(Clone, Copy, Debug)]
enum StreamState {
    Waiting(Sent),
    /// Answered with this message, and not ended yet.
    Told(Sent, Told),
    Done,
}

/// Contents of a reply's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    /// The overall code.
    code: u64,
    /// The first descriptor's status has neither a limit nor permits that remain.
    is_unmatched: bool,
}

#[derive(Debug)]
struct Fields {
    scheme: u8,
    /// Name as a number of the static table, or 0 and a name; value.
    named: Vec<(u8, &'static str, String)>,
}

impl Http2 {
    pub(super) fn new(request: Arc<RequestTemplate>, plan: &Plan) -> Self {
        let mut named = vec![
            (4, "", "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".to_owned()),
            (1, "", plan.target.authority()),
            (31, "", "application/grpc".to_owned()),
            (0, "te", "trailers".to_owned()),
        ];
        named.extend(plan.token.iter().map(|token| (23, "", format!("Bearer {token}"))));
        let fields = Fields { scheme: if plan.target.is_tls { 7 } else { 6 }, named };
        let streams = VecDeque::new();
        Self { request, in_flight: plan.in_flight, fields, wire: Wire::new(), streams, first: 1, waiting: 0 }
    }

    fn stream(&mut self, id: u32) -> Option<&mut StreamState> {
        let at = id.checked_sub(self.first)?;
        if at % 2 == 1 {
            return None;
        }
        self.streams.get_mut(at as usize / 2)
    }

    /// The end of stream `id`; `missing` is the reply if there was no message.
    fn end(&mut self, id: u32, now: Timestamp, tally: &mut Tally, missing: impl FnOnce() -> String) {
        let Some(stream) = self.stream(id) else { return };
        let (sent, verdict) = match std::mem::replace(stream, StreamState::Done) {
            StreamState::Done => return,
            StreamState::Waiting(sent) => (sent, Verdict::Error(missing())),
            StreamState::Told(sent, Told { code: 1, is_unmatched: false }) => (sent, Verdict::Admitted),
            StreamState::Told(sent, Told { code: 1, is_unmatched: true }) => (sent, Verdict::Unmatched),
            StreamState::Told(sent, Told { code: 2, .. }) => (sent, Verdict::Denied),
            StreamState::Told(sent, Told { code, .. }) => (
                sent,
                Verdict::Error(format!(
                    "an answer with overall code {code}, which is neither OK nor OVER_LIMIT"
                )),
            ),
        };
        self.waiting -= 1;
        while let Some(StreamState::Done) = self.streams.front() {
            self.streams.pop_front();
            self.first += 2;
        }
        tally.answered(sent, now, verdict);
    }
}

impl Codec for Http2 {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.wire = Wire::new();
        self.first = 1;
        out.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        // No dynamic table, no pushes, and streams that never run out of room.
        frame(SETTINGS, 0, 0, 18, out);
        for (name, value) in [(1_u16, 0), (2, 0), (4, MAX_WINDOW)] {
            out.extend(name.to_be_bytes());
            out.extend(value.to_be_bytes());
        }
        frame(WINDOW_UPDATE, 0, 0, 4, out);
        out.extend((MAX_WINDOW - 65_535).to_be_bytes());
    }

    fn has_room(&self) -> bool {
        let wire = &self.wire;
        let length = self.request.len() as i64;
        wire.is_ready
            && !wire.is_leaving
            && self.waiting < self.in_flight.min(wire.max_streams)
            && wire.window >= length
            && wire.stream_window >= length
    }

    fn request(&mut self, key: u64, sent: Sent, out: &mut Vec<u8>) {
        let id = self.first + 2 * self.streams.len() as u32;
        self.wire.is_leaving |= id >= LAST_STREAM;
        self.streams.push_back(StreamState::Waiting(sent));
        self.waiting += 1;
        let begin = out.len();
        frame(HEADERS, END_HEADERS, id, 0, out);
        self.wire.block = self.fields.write(self.wire.block, out);
        let length = (out.len() - begin - HEAD) as u32;
        out[begin..begin + 3].copy_from_slice(&length.to_be_bytes()[1..]);
        frame(DATA, END_STREAM, id, self.request.len() as u32, out);
        self.request.write(key, out);
        self.wire.window -= self.request.len() as i64;
    }

    fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        let mut read = 0;
        while let [a, b, c, kind, flags, i, j, k, l, rest @ ..] = &input[read..] {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length > MAX_FRAME {
                return Err(Broken::from("a reply that is not of HTTP/2"));
            }
            // An incomplete frame stays in the input.
            let Some(payload) = rest.get(..length) else { break };
            let id = u32::from_be_bytes([*i, *j, *k, *l]) & MAX_WINDOW;
            read += HEAD + length;
            match *kind {
                DATA => {
                    self.wire.read += length as u32;
                    if let Some(stream) = self.stream(id)
                        && let StreamState::Waiting(sent) = *stream
                        && length > 0
                    {
                        *stream = StreamState::Told(sent, told(payload, *flags));
                    }
                    if flags & END_STREAM != 0 {
                        self.end(id, now, tally, || "an answer without a message".to_owned());
                    }
                }
                HEADERS if flags & END_STREAM != 0 => self.end(id, now, tally, || grpc_status(payload)),
                RST_STREAM => {
                    let code = number(payload);
                    self.end(id, now, tally, || {
                        format!("the server reset the call with HTTP/2 error {code}")
                    });
                }
                GOAWAY => {
                    self.wire.is_leaving = true;
                    let code = payload.get(4..).map_or(0, number);
                    if code != 0 {
                        return Err(Broken::Off(format!(
                            "the server ended the connection with HTTP/2 error {code}"
                        )));
                    }
                }
                _ => self.wire.control(*kind, *flags, id, payload, out),
            }
        }
        // The window is given back in large steps: one frame for many replies.
        if self.wire.read > MAX_WINDOW / 2 {
            frame(WINDOW_UPDATE, 0, 0, 4, out);
            out.extend(std::mem::take(&mut self.wire.read).to_be_bytes());
        }
        // After GOAWAY the connection ends with the reply to its last call.
        if self.wire.is_leaving && self.waiting == 0 {
            return Err(Broken::Goodbye);
        }
        Ok(read)
    }

    fn lost(&mut self) -> Vec<Sent> {
        self.waiting = 0;
        let sent = |stream| match stream {
            StreamState::Waiting(sent) | StreamState::Told(sent, _) => Some(sent),
            StreamState::Done => None,
        };
        self.streams.drain(..).filter_map(sent).collect()
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}

impl Wire {
    fn new() -> Self {
        Self {
            is_ready: false,
            is_leaving: false,
            max_streams: usize::MAX,
            window: 65_535,
            stream_window: 65_535,
            read: 0,
            block: Block::First,
        }
    }

    /// Frames about the connection rather than about a call.
    fn control(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8], out: &mut Vec<u8>) {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                self.is_ready = true;
                for setting in payload.chunks_exact(6) {
                    let value = number(&setting[2..]);
                    match u16::from_be_bytes([setting[0], setting[1]]) {
                        // Ours needs some 200 bytes of it.
                        1 if value < 1_024 => self.block = Block::Plain(true),
                        3 => self.max_streams = value as usize,
                        4 => self.stream_window = i64::from(value),
                        _ => {}
                    }
                }
                frame(SETTINGS, ACK, 0, 0, out);
            }
            PING if flags & ACK == 0 => {
                frame(PING, ACK, 0, payload.len() as u32, out);
                out.extend(payload);
            }
            WINDOW_UPDATE if id == 0 => self.window += i64::from(number(payload) & MAX_WINDOW),
            _ => {}
        }
    }
}

impl Fields {
    /// Writes a header block, and returns how the next is to be written.
    fn write(&self, block: Block, out: &mut Vec<u8>) -> Block {
        if block == Block::Plain(true) {
            out.push(0x20);
        }
        // POST is number 3.
        out.extend([0x83, 0x80 | self.scheme]);
        if block == Block::Numbers {
            // The latest is number 62.
            out.extend((62..62 + self.named.len() as u8).rev().map(|number| 0x80 | number));
            return block;
        }
        // With six bits of prefix the server remembers the field, with four it does not.
        let (mark, bits) = if block == Block::First { (0x40, 6) } else { (0, 4) };
        for (number, name, value) in &self.named {
            integer(mark, bits, usize::from(*number), out);
            if *number == 0 {
                integer(0, 7, name.len(), out);
                out.extend(name.bytes());
            }
            integer(0, 7, value.len(), out);
            out.extend(value.bytes());
        }
        if block == Block::First { Block::Numbers } else { Block::Plain(false) }
    }
}

/// An integer of a header block in `bits` of a byte, and further bytes if it does not fit.
fn integer(mark: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let full = (1 << bits) - 1;
    if value < full {
        out.push(mark | value as u8);
        return;
    }
    out.push(mark | full as u8);
    let mut rest = value - full;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn frame(kind: u8, flags: u8, id: u32, length: u32, out: &mut Vec<u8>) {
    let [_, a, b, c] = length.to_be_bytes();
    out.extend([a, b, c, kind, flags]);
    out.extend(id.to_be_bytes());
}

/// The first four bytes, as a number.
fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Reads a framed message; the overall code is 0 if the message does not begin with it.
fn told(payload: &[u8], flags: u8) -> Told {
    let message = if flags & PADDED != 0 { payload.get(1..).unwrap_or_default() } else { payload };
    let (code, rest) = match message.get(5..) {
        Some([0x08, code, rest @ ..]) if *code < 0x80 => (u64::from(*code), rest),
        _ => return Told { code: 0, is_unmatched: false },
    };
    // A status without a limit is a few bytes long, and another one need not be read.
    let status = match rest {
        [0x12, length, rest @ ..] if *length < 8 => rest.get(..usize::from(*length)),
        _ => None,
    };
    // Its code, and neither `current_limit` nor `limit_remaining`.
    let is_unmatched = status.is_some_and(|status| matches!(status, [] | [0x08, _]));
    Told { code, is_unmatched }
}

/// The reason in the header block of a reply without a message, as far as it can be read.
fn grpc_status(block: &[u8]) -> String {
    /// `grpc-status` in the code that header blocks use to save bits, and the numbers from 0 in the same.
    const NAME: &[u8] = &[0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f];
    const NUMBERS: [&[u8]; 17] = [
        &[0x07],
        &[0x0f],
        &[0x17],
        &[0x67],
        &[0x6b],
        &[0x6f],
        &[0x73],
        &[0x77],
        &[0x7b],
        &[0x7f],
        &[0x08, 0x3f],
        &[0x08, 0x7f],
        &[0x08, 0xbf],
        &[0x0b, 0x3f],
        &[0x0b, 0x5f],
        &[0x0b, 0x7f],
        &[0x0b, 0x9f],
    ];
    const WORDS: [&str; 17] = [
        "ok",
        "cancelled",
        "unknown",
        "invalid argument",
        "deadline exceeded",
        "not found",
        "already exists",
        "permission denied",
        "resource exhausted",
        "failed precondition",
        "aborted",
        "out of range",
        "unimplemented",
        "internal",
        "unavailable",
        "data loss",
        "unauthenticated",
    ];
    // The high bit of the length says that the value is in that code, which is only compared and not decoded.
    let after = |name: &[u8]| {
        let at = block.windows(name.len()).position(|window| window == name)?;
        let (&length, rest) = block[at + name.len()..].split_first()?;
        let value = rest.get(..usize::from(length & 0x7f))?;
        match length & 0x80 {
            0 => std::str::from_utf8(value).ok()?.parse().ok(),
            _ => NUMBERS.iter().position(|number| *number == value),
        }
    };
    match after(NAME).or_else(|| after(b"grpc-status")) {
        Some(0) => "an answer without a message".to_owned(),
        Some(code) => format!("gRPC status {code} ({})", WORDS.get(code).unwrap_or(&"of no known name")),
        None => "an answer without a message (is it a gRPC server?)".to_owned(),
    }
}

#[cfg(test)]
mod tests;
