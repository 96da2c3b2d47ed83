//! Protocols whose replies come in the order of the requests: HTTP/1.1 and RESP.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_core::Timestamp;

use super::connection::{Broken, Codec};
use crate::request::RequestTemplate;
use crate::tally::{Sent, Tally, Verdict};

/// One complete reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CompleteReply {
    /// Length in bytes.
    pub(super) length: usize,
    pub(super) verdict: Verdict,
    /// Whether it is the last one on this connection.
    pub(super) is_last: bool,
}

/// Reads the first reply, or nothing while it is incomplete.
pub(super) type ReadReply = fn(&[u8]) -> Result<Option<CompleteReply>, Broken>;

pub(super) struct InOrder {
    request: Arc<RequestTemplate>,
    in_flight: usize,
    /// Sent first on every connection, if there is a token.
    greeting: Option<Vec<u8>>,
    is_greeted: bool,
    waiting: VecDeque<Sent>,
    reply: ReadReply,
}

impl InOrder {
    pub(super) fn new(
        request: Arc<RequestTemplate>,
        in_flight: usize,
        greeting: Option<Vec<u8>>,
        reply: ReadReply,
    ) -> Self {
        Self { request, in_flight, greeting, is_greeted: true, waiting: VecDeque::new(), reply }
    }
}

impl Codec for InOrder {
    fn open(&mut self, out: &mut Vec<u8>) {
        self.is_greeted = self.greeting.is_none();
        out.extend(self.greeting.iter().flatten());
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < self.in_flight
    }

    fn request(&mut self, key: u64, sent: Sent, out: &mut Vec<u8>) {
        self.request.write(key, out);
        self.waiting.push_back(sent);
    }

    fn read(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        let mut read = 0;
        while let Some(CompleteReply { length, verdict, is_last }) = (self.reply)(&input[read..])? {
            read += length;
            if !self.is_greeted {
                if let Verdict::Error(what) = verdict {
                    return Err(Broken::Off(format!("the token was rejected: {what}")));
                }
                self.is_greeted = true;
                continue;
            }
            let sent = self.waiting.pop_front().ok_or_else(|| Broken::from("a reply to nothing"))?;
            tally.answered(sent, now, verdict);
            if is_last {
                return Err(Broken::Goodbye);
            }
        }
        Ok(read)
    }

    fn lost(&mut self) -> Vec<Sent> {
        self.waiting.drain(..).collect()
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
