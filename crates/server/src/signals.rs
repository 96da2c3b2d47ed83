//! Signals: SIGTERM and SIGINT end the process, SIGHUP reloads rules and certificates.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndSignal {
    /// SIGTERM, from a supervisor or an operator.
    Terminate,
    /// SIGINT, which Ctrl-C at a terminal sends.
    Interrupt,
}

/// The signals that are handled.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Handles them from now on.
    ///
    /// # Errors
    /// When the system gives no handler.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns the next signal that ends the process; until then each SIGHUP calls `reload`.
    pub(crate) async fn end(&mut self, reload: impl Fn()) -> EndSignal {
        let (signal, name) = loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => break (EndSignal::Terminate, "SIGTERM"),
                Some(()) = self.interrupt.recv() => break (EndSignal::Interrupt, "SIGINT"),
                Some(()) = self.hangup.recv() => {
                    tracing::info!("received SIGHUP: reloading");
                    reload();
                }
            }
        };
        tracing::info!("received {name}");
        signal
    }
}
