//! Signals: SIGTERM and SIGINT end the process, SIGHUP reloads rules and certificates.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::certificates::Certificates;
use crate::node::Node;

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

    /// Returns at the next signal that ends the process; until then each SIGHUP reloads rules and
    /// certificates.
    pub(crate) async fn end(&mut self, node: &Node, certificates: &Certificates) {
        let name = loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => break "SIGTERM",
                Some(()) = self.interrupt.recv() => break "SIGINT",
                Some(()) = self.hangup.recv() => {
                    tracing::info!("received SIGHUP: reloading rules and certificates");
                    node.rules.files.reload_now();
                    certificates.reload();
                }
            }
        };
        tracing::info!("received {name}");
    }
}
