//! Commands that cannot be decided by the rules, because they are too large or there is no room for them:
//! their replies, and how they are counted.
//!
//! A program passes on what its clients send, and takes an error for an outage.

use tollgate_limiter::{Rejected, Undecided};
use tollgate_store::Store;

use crate::command::{Command, Decision, SlotAction};
use crate::degraded;
use crate::throttle::Form;
use crate::turn::Turn;

/// The parts of a dropped command that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InspectedParts {
    /// The first argument; empty if it is too long for a name.
    pub(crate) name: Vec<u8>,
    /// The last argument; empty if it is long.
    pub(crate) last: Vec<u8>,
    /// Number of arguments, the name included.
    pub(crate) arguments: usize,
}

/// Why a command is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It exceeds a cap.
    TooLarge,
    /// The partial commands of all connections do.
    Overload,
}

/// Kind of rejection, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It breaks the protocol.
    Malformed,
    TooLarge,
    Overload,
    /// Its arguments are invalid.
    Invalid,
    /// There is no such command.
    Unknown,
    Unauthorized,
    /// No rules are loaded.
    Unavailable,
}

impl Reason {
    /// As metrics and logs call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Overload => "overload",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
            Self::Unauthorized => "unauthorized",
            Self::Unavailable => "unavailable",
        }
    }
}

impl<S: Store> Turn<'_, S> {
    /// Counts and logs a command that is answered by `status`, and not by the rules.
    #[cold]
    pub(crate) fn reject(&self, status: &str, reason: Reason, detail: &str) {
        let peer = self.peer;
        let reason = reason.name();
        self.limiter().request_rejected(Rejected { surface: "resp", peer, status, reason, detail });
    }

    /// Replies that a command is not executed.
    #[cold]
    pub(crate) fn fail(&mut self, reason: Reason, text: impl std::fmt::Display) {
        let text = text.to_string();
        let code = text.split(' ').next().unwrap_or_default();
        self.reject(code, reason, &text);
        self.reply.error(text);
    }

    /// Answers a command that was dropped.
    #[cold]
    pub(crate) fn undecided(&mut self, seen: &InspectedParts, why: Why) {
        let (reason, text) = match why {
            Why::TooLarge => (Reason::TooLarge, "ERR the command is too large; nothing was counted"),
            Why::Overload => {
                (Reason::Overload, "ERR too many bytes of partial commands; nothing was counted")
            }
        };
        let admits = match self.limiter().settings().undecided {
            Undecided::Deny => false,
            Undecided::Allow => true,
            Undecided::Error => return self.fail(reason, text),
        };
        let is_denied = i64::from(!admits);
        let is_crab = 1 - i64::from(!admits);
        // Numbers as for a request that nothing limits, or one that no wait helps.
        let (numbers, nulls) = match Command::named(&seen.name) {
            Some(Command::Decide(Decision::Check)) => ([is_denied, -1, -1, -1, 0], 1),
            Some(Command::Decide(Decision::Slot(SlotAction::Acquire))) => ([is_denied, -1, -1, -1, 0], 2),
            Some(Command::Decide(Decision::Throttle(Form::Crab))) => ([is_crab, 0, 0, 0, -is_denied], 0),
            Some(Command::Decide(Decision::Throttle(_))) => ([is_denied, 0, 0, -1, 0], 0),
            _ => return self.fail(reason, text),
        };
        self.reject(if admits { "admitted" } else { "denied" }, reason, text);
        let with_degraded =
            seen.last.eq_ignore_ascii_case(b"withdegraded") && (nulls == 0 || seen.arguments % 2 == 1);
        let reply = &mut self.reply;
        reply.array(numbers.len() + nulls + usize::from(with_degraded));
        numbers.into_iter().for_each(|number| reply.integer(number));
        (0..nulls).for_each(|_| reply.null());
        if with_degraded {
            degraded::write(None, reply);
        }
    }
}
