//! One thread a core: a runtime of its own, and a socket of its own on the address of every surface.
//!
//! The system deals connections out among the workers; from then on nothing crosses from one core to another.
//! Not here: signals, reload, draining's clock (`server`), accepting (`tollgate_net`).

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tollgate_net::{AcceptLimits, Figures, Surface, Tls, accept};

use crate::node::Node;

/// A surface behind one socket of one worker, not accepting yet.
pub(crate) struct Door(Box<dyn FnOnce(watch::Receiver<bool>) -> io::Result<Accepting> + Send>);

type Accepting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the doors of one surface share.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) limits: Arc<AcceptLimits>,
    pub(crate) figures: Arc<Figures>,
}

impl Door {
    pub(crate) fn new<S: Surface>(socket: TcpListener, surface: Arc<S>, entrance: &Entrance) -> Self {
        let Entrance { tls, limits, figures } = entrance.clone();
        Self(Box::new(move |drain| {
            let listener = tokio::net::TcpListener::from_std(socket)?;
            Ok(Box::pin(accept(listener, surface, tls, limits, figures, drain)))
        }))
    }
}

/// Starts the thread that answers at `doors`; it says its number to `ended` when it is through, also when it panicked.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn start(
    number: usize,
    node: Arc<Node>,
    doors: Vec<Door>,
    closing: watch::Receiver<bool>,
    ended: mpsc::UnboundedSender<usize>,
) -> io::Result<()> {
    let runtime = small_runtime()?;
    std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        let _said = Ended { number, ended };
        runtime.block_on(async {
            node.limiter.store().warm(node.clock.now()).await;
            let mut accepting = JoinSet::new();
            for Door(open) in doors {
                match open(closing.clone()) {
                    Ok(door) => drop(accepting.spawn(door)),
                    Err(error) => return tracing::error!(%error, number, "a worker has no socket"),
                }
            }
            while accepting.join_next().await.is_some() {
                if !*closing.borrow() {
                    return tracing::error!(number, "a worker has stopped to accept");
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

/// Says that a worker has ended.
struct Ended {
    number: usize,
    ended: mpsc::UnboundedSender<usize>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.ended.send(self.number); // nobody listens any more when the drain took too long
    }
}
