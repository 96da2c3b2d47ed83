//! One thread per core: a runtime of its own, and a socket of its own on the address of every surface.
//!
//! The system distributes connections among the workers; from then on nothing crosses from one core to
//! another. Not here: signals, reload, the time to drain (`server`), accepting (`tollgate_net`).

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::acceptor::BoundSurface;
use crate::node::ServerNode;

/// Starts worker `number`, which serves `surfaces`. It sends its number to `ended` when it ends, even by a
/// panic.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn start(
    number: usize,
    node: Arc<ServerNode>,
    surfaces: Vec<BoundSurface>,
    closing: watch::Receiver<bool>,
    ended: mpsc::UnboundedSender<usize>,
) -> io::Result<()> {
    let runtime = small_runtime()?;
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        let _at_end = Ended { number, ended };
        runtime.block_on(async {
            node.limiter.store().warm(node.clock.now()).await;
            let mut accepting = JoinSet::new();
            for surface in surfaces {
                match surface.accept(closing.clone()) {
                    Ok(surface) => drop(accepting.spawn(surface)),
                    Err(error) => return tracing::error!(%error, number, "worker cannot use its socket"),
                }
            }
            while accepting.join_next().await.is_some() {
                if !*closing.borrow() {
                    return tracing::error!(number, "worker stopped accepting connections");
                }
            }
            node.limiter.store().close().await;
        });
    })?;
    Ok(())
}

/// A runtime for one thread.
pub(crate) fn small_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Reports that a worker has ended.
struct Ended {
    number: usize,
    ended: mpsc::UnboundedSender<usize>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.ended.send(self.number); // the receiver is gone if draining took too long
    }
}
