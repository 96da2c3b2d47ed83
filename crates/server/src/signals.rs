//! Signals: SIGTERM and SIGINT end the process, SIGHUP reads rules and certificates again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::certificates::Certificates;
use crate::node::Node;

/// The signals that are listened to.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on.
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

    /// Returns when the process is told to go; meanwhile each SIGHUP has rules and certificates
    /// read again.
    pub(crate) async fn told_to_go(&mut self, node: &Node, certificates: &Certificates) {
        let name = loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => break "SIGTERM",
                Some(()) = self.interrupt.recv() => break "SIGINT",
                Some(()) = self.hangup.recv() => {
                    tracing::info!("SIGHUP: reading rules and certificates again");
                    node.rules.files.reload_now();
                    certificates.look();
                }
            }
        };
        tracing::info!(signal = name, "told to go");
    }
}
