//! Signals that wake the thread that looks at the files.

use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Why to look at the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// The file system reports a change.
    Change,
    /// A caller asks for a reload.
    Reload,
    /// The source ends.
    Stop,
}

/// The signals that were raised.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raised {
    pub(super) is_change: bool,
    pub(super) is_reload: bool,
    pub(super) is_stopped: bool,
}

impl Raised {
    /// Combines the signals of both.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            is_change: self.is_change || other.is_change,
            is_reload: self.is_reload || other.is_reload,
            is_stopped: self.is_stopped || other.is_stopped,
        }
    }
}

/// Signals from other threads. A signal stays raised until a wait returns it, [`Signal::Stop`] for ever.
#[derive(Debug, Default)]
pub(super) struct Signals {
    raised: Mutex<Raised>,
    changed: Condvar,
}

impl Signals {
    pub(super) fn raise(&self, signal: Signal) {
        let mut raised = self.lock();
        match signal {
            Signal::Change => raised.is_change = true,
            Signal::Reload => raised.is_reload = true,
            Signal::Stop => raised.is_stopped = true,
        }
        drop(raised);
        self.changed.notify_all();
    }

    /// Waits until a signal is raised, at most for `timeout`; returns and lowers all signals.
    pub(super) fn wait(&self, timeout: Duration) -> Raised {
        let is_quiet = |raised: &mut Raised| !(raised.is_change || raised.is_reload || raised.is_stopped);
        let mut raised = self.wait_while(timeout, is_quiet);
        let before = *raised;
        *raised = Raised { is_stopped: before.is_stopped, ..Raised::default() };
        before
    }

    /// Waits for `duration`, unless [`Signal::Stop`] is raised; lowers no signal.
    pub(super) fn sleep(&self, duration: Duration) {
        drop(self.wait_while(duration, |raised| !raised.is_stopped));
    }

    fn wait_while(
        &self,
        timeout: Duration,
        condition: impl FnMut(&mut Raised) -> bool,
    ) -> MutexGuard<'_, Raised> {
        let mut raised = self.lock();
        self.changed.wait_while_for(&mut raised, condition, timeout);
        raised
    }

    fn lock(&self) -> MutexGuard<'_, Raised> {
        self.raised.lock()
    }
}
