//! Slots of rules with `algorithm: concurrency`:
//! `TOLLGATE.ACQUIRE domain key value [key value …] [ID id] [WITHDEGRADED]` and
//! `TOLLGATE.RELEASE domain key value [key value …] ID id`.

use std::borrow::Cow;

use tollgate_human_text::lossy;
use tollgate_limiter::{Descriptor, Entry, Request, Scratch, SlotAnswer, SlotId};
use tollgate_store::Store;

use crate::arguments::Arguments;
use crate::command::SlotAction;
use crate::degraded;
use crate::pending::Pending;
use crate::reply::{ReplyWriter, saturate};
use crate::time_unit::TimeUnit;
use crate::turn::{Pushed, Turn};
use crate::undecided::Reason;

const ACQUIRE: &str =
    "ERR syntax error, expected TOLLGATE.ACQUIRE domain key value [key value ...] [ID id] [WITHDEGRADED]";
const RELEASE: &str = "ERR syntax error, expected TOLLGATE.RELEASE domain key value [key value ...] ID id";
/// The limit of a reply, and what remains of it, where no slot was asked for.
const NO_LIMIT: i64 = -1;

/// Commands that wait to be carried out, in their order: a release may be about a slot acquired just before.
#[derive(Debug, Default)]
pub(crate) struct SlotCommands(Pending<SlotAction>);

impl SlotCommands {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a command.
    pub(crate) fn push(&mut self, action: SlotAction, arguments: Arguments<'_>) -> Pushed {
        self.0.push(arguments, action)
    }

    /// Forgets all commands.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Carries out all commands, which were read from `input`, and writes their replies.
    pub(crate) async fn decide<S: Store>(
        &mut self,
        input: &[u8],
        scratch: &mut Scratch,
        turn: &mut Turn<'_, S>,
    ) {
        for (arguments, action) in self.0.commands(input) {
            let mut entries = Vec::new();
            match SlotCommand::parse(action, arguments, &mut entries) {
                Err(message) => turn.fail(Reason::Invalid, message),
                Ok(command) => command.carry_out(action, &entries, scratch, turn).await,
            }
        }
        self.clear();
    }
}

/// A parsed command; its entries are kept apart from it.
#[derive(Clone, Debug)]
struct SlotCommand<'a> {
    /// A name that is not UTF-8 matches no domain.
    domain: Cow<'a, str>,
    id: Option<SlotId>,
    /// The reply ends with the element of `WITHDEGRADED`.
    with_degraded: bool,
}

impl<'a> SlotCommand<'a> {
    /// Parses a command and puts its entries into `entries`.
    fn parse(
        action: SlotAction,
        arguments: Arguments<'a>,
        entries: &mut Vec<Entry<'a>>,
    ) -> Result<Self, String> {
        let input = arguments.input();
        let is_acquire = action == SlotAction::Acquire;
        let usage = || if is_acquire { ACQUIRE.to_owned() } else { RELEASE.to_owned() };
        let (arguments, with_degraded) = if is_acquire && arguments.len() % 2 == 1 {
            degraded::split_option(arguments)
        } else {
            (arguments, false)
        };
        let [_, domain, words @ ..] = arguments.spans() else { return Err(usage()) };
        let (words, id) = match words {
            // The last two arguments; a descriptor has at least two before them.
            [words @ .., name, id] if words.len() >= 2 && name.of(input).eq_ignore_ascii_case(b"id") => {
                let id = lossy(id.of(input)).parse::<SlotId>().map_err(|error| format!("ERR {error}"))?;
                (words, Some(id))
            }
            words if is_acquire => (words, None),
            _ => return Err(usage()),
        };
        let (pairs, rest) = words.as_chunks::<2>();
        if pairs.is_empty() || !rest.is_empty() {
            return Err(usage());
        }
        for [key, value] in pairs {
            entries.push(Entry::new(key.of(input), value.of(input)));
        }
        Ok(Self { domain: lossy(domain.of(input)), id, with_degraded })
    }

    /// Carries out the command and writes its reply.
    async fn carry_out<S: Store>(
        self,
        action: SlotAction,
        entries: &[Entry<'_>],
        scratch: &mut Scratch,
        turn: &mut Turn<'_, S>,
    ) {
        let limiter = turn.limiter();
        let descriptors = [Descriptor::new(entries)];
        let request = Request { domain: &self.domain, descriptors: &descriptors, hits: 1 };
        match (action, self.id) {
            (SlotAction::Release, Some(id)) => match limiter.release(&request, id, turn.now).await {
                Ok(released) => turn.reply.integer(i64::from(released)),
                Err(error) => turn.fail(Reason::Invalid, format_args!("ERR {error}")),
            },
            (SlotAction::Release, None) => turn.fail(Reason::Invalid, RELEASE),
            (SlotAction::Acquire, id) => {
                let span = limiter.call_span("resp", &self.domain, None);
                match limiter.acquire(&request, id, turn.now, scratch).await {
                    Ok(answer) => {
                        turn.counts.count(answer.is_admitted());
                        if let Some(span) = span {
                            answer.record(&span);
                        }
                        self.write(&answer, &mut turn.reply);
                    }
                    Err(error) => turn.fail(Reason::Invalid, format_args!("ERR {error}")),
                }
            }
        }
    }

    fn write(self, answer: &SlotAnswer, reply: &mut ReplyWriter<'_>) {
        let is_denied = !answer.is_admitted();
        reply.array(7 + usize::from(self.with_degraded));
        for number in [
            i64::from(is_denied),
            answer.limit.map_or(NO_LIMIT, saturate),
            answer.remaining().map_or(NO_LIMIT, saturate),
            if is_denied { TimeUnit::Seconds.retry_after(answer.retry_after()) } else { -1 },
            answer.ttl.map_or(0, |ttl| TimeUnit::Seconds.duration(ttl)),
        ] {
            reply.integer(number);
        }
        match &answer.rule {
            None => reply.null(),
            Some(rule) => reply.bulk(rule.as_bytes()),
        }
        match answer.id {
            None => reply.null(),
            Some(id) => reply.bulk(id.to_string().as_bytes()),
        }
        if self.with_degraded {
            degraded::write(answer.degraded, reply);
        }
    }
}
