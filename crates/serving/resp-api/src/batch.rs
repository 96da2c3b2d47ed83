//! Decisions that arrived together and are made together.
//!
//! A batch holds commands of one kind: all that bring their own rate, all that ask the rules, or all that
//! are about slots. Replies leave in the order of the commands, so a command that cannot join makes the
//! batch flush first.

use tollgate_limiter::Scratch;
use tollgate_store::Store;

use crate::arguments::Arguments;
use crate::check::Checks;
use crate::command::Decision;
use crate::slots::SlotCommands;
use crate::throttle::Throttles;
use crate::turn::{Pushed, Turn};

/// Commands that wait to be decided, and buffers that are kept from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    throttles: Throttles,
    checks: Checks,
    slots: SlotCommands,
    scratch: Scratch,
}

impl Batch {
    /// Adds a command.
    #[inline]
    pub(crate) fn push(&mut self, decision: Decision, arguments: Arguments<'_>) -> Pushed {
        match decision {
            Decision::Throttle(form) if self.checks.is_empty() && self.slots.is_empty() => {
                self.throttles.push(form, arguments)
            }
            Decision::Check if self.throttles.is_empty() && self.slots.is_empty() => {
                self.checks.push(arguments)
            }
            Decision::Slot(action) if self.throttles.is_empty() && self.checks.is_empty() => {
                self.slots.push(action, arguments)
            }
            Decision::Throttle(_) | Decision::Check | Decision::Slot(_) => Pushed::Full,
        }
    }

    /// Decides all commands and writes their replies. `input` is the buffer that they were read from.
    #[inline]
    pub(crate) async fn flush<S: Store>(&mut self, input: &[u8], turn: &mut Turn<'_, S>) {
        if !self.throttles.is_empty() {
            self.throttles.decide(input, &mut self.scratch, turn).await;
        }
        if !self.checks.is_empty() {
            self.checks.decide(input, &mut self.scratch, turn).await;
        }
        if !self.slots.is_empty() {
            // Boxed, so that the future of a turn stays small.
            Box::pin(self.slots.decide(input, &mut self.scratch, turn)).await;
        }
    }

    /// Forgets commands whose connection is gone.
    pub(crate) fn clear(&mut self) {
        self.throttles.clear();
        self.checks.clear();
        self.slots.clear();
    }
}
