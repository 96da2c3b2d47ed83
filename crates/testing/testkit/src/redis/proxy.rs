//! A TCP proxy between a client and a store that spoils what passes, on request.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::process::{free_port, poll};

/// Effect of a [`Proxy`] on the traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NetworkFault {
    /// Nothing: all passes at once.
    #[default]
    None,
    /// Answers of the store arrive this much later. One read at a time: bytes that arrive meanwhile come with
    /// the next.
    Latency(Duration),
    /// Nothing passes in either direction; connections stay open, and new ones are accepted. Bytes that were
    /// sent meanwhile pass afterwards.
    Stall,
    /// Requests pass, and answers are thrown away: the store does the work, and no answer arrives.
    DropReplies,
    /// Requests are thrown away.
    DropRequests,
    /// Bytes in both directions are thrown away, and lost for good: a partition that lasts longer than TCP
    /// would try.
    Swallow,
    /// Requests pass; at the first byte of an answer the connection is cut.
    CutReplies,
    /// No connection is accepted: the client gets "connection refused". Those that are open stay open.
    Refuse,
}

/// A proxy on a port of 127.0.0.1, in threads of its own.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<ProxyCore>,
}

#[derive(Debug)]
struct ProxyCore {
    port: u16,
    to: SocketAddr,
    state: Mutex<ProxyState>,
    changed: Condvar,
    accepted: AtomicU64,
    sent: AtomicU64,
}

#[derive(Debug, Default)]
struct ProxyState {
    fault: NetworkFault,
    ended: bool,
    listening: bool,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// A proxy before what listens at `to`; nothing is spoilt yet.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn before(to: SocketAddr) -> Self {
        let (port, listener) = (0..100)
            .find_map(|_| {
                let port = free_port();
                Some((port, TcpListener::bind(("127.0.0.1", port)).ok()?))
            })
            .expect("a free port");
        let shared = Arc::new(ProxyCore {
            port,
            to,
            state: Mutex::new(ProxyState { listening: true, ..ProxyState::default() }),
            changed: Condvar::new(),
            accepted: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        let own = shared.clone();
        std::thread::spawn(move || own.accept(listener));
        Self { shared }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.shared.port).into()
    }

    /// From now on it does this.
    ///
    /// # Panics
    /// When it cannot listen again after [`NetworkFault::Refuse`].
    pub fn set(&self, fault: NetworkFault) {
        let listens = fault != NetworkFault::Refuse;
        self.shared.change(|state| state.fault = fault);
        poll("the proxy to do as told", || {
            if self.shared.look(|state| state.listening == listens) {
                return Some(());
            }
            if !listens {
                TcpStream::connect(self.address()).ok(); // so that it looks up from waiting
            }
            None
        });
    }

    /// Cuts all connections that are open.
    pub fn cut(&self) {
        self.shared.change(|state| {
            for stream in state.open.drain(..) {
                stream.shutdown(Shutdown::Both).ok();
            }
        });
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Bytes that clients have sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.ended = true);
        self.cut();
        TcpStream::connect(self.address()).ok(); // so that it looks up from waiting
    }
}

impl ProxyCore {
    fn look<T>(&self, what: impl FnOnce(&ProxyState) -> T) -> T {
        what(&self.state.lock())
    }

    fn change(&self, how: impl FnOnce(&mut ProxyState)) {
        how(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Waits while `so` holds; returns the fault then, or `None` at the end.
    fn wait_while(&self, so: impl Fn(NetworkFault) -> bool) -> Option<NetworkFault> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.ended && so(state.fault));
        (!state.ended).then_some(state.fault)
    }

    fn accept(self: Arc<Self>, first: TcpListener) {
        let mut listener = Some(first);
        loop {
            let Some(accepted) = listener.as_ref().map(TcpListener::accept) else {
                if self.wait_while(|fault| fault == NetworkFault::Refuse).is_none() {
                    return;
                }
                listener = TcpListener::bind(("127.0.0.1", self.port)).ok();
                self.change(|state| state.listening = listener.is_some());
                continue;
            };
            let (fault, ended) = self.look(|state| (state.fault, state.ended));
            if ended {
                return;
            }
            if fault == NetworkFault::Refuse {
                listener = None;
                self.change(|state| state.listening = false);
                continue;
            }
            if let Ok((client, _)) = accepted {
                self.accepted.fetch_add(1, Ordering::Relaxed);
                let own = self.clone();
                std::thread::spawn(move || own.serve(client));
            }
        }
    }

    fn serve(self: Arc<Self>, client: TcpStream) -> Option<()> {
        let store = TcpStream::connect(self.to).ok()?; // where there is none, the client's end is closed
        client.set_nodelay(true).ok()?;
        store.set_nodelay(true).ok()?;
        let to_store = store.try_clone().ok()?;
        let to_client = client.try_clone().ok()?;
        self.change(|state| {
            state.open.extend([&client, &store].into_iter().filter_map(|it| it.try_clone().ok()));
        });
        let own = self.clone();
        std::thread::spawn(move || own.pass(client, to_store, true));
        self.pass(store, to_client, false);
        Some(())
    }

    /// Passes bytes on until either end closes, and then closes both.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream, request: bool) {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if request {
                self.sent.fetch_add(n as u64, Ordering::Relaxed);
            }
            match self.wait_while(|fault| fault == NetworkFault::Stall) {
                None => break,
                Some(NetworkFault::Swallow) => continue,
                Some(NetworkFault::DropRequests) if request => continue,
                Some(NetworkFault::DropReplies) if !request => continue,
                Some(NetworkFault::CutReplies) if !request => break,
                Some(fault @ NetworkFault::Latency(by)) if !request => {
                    let mut state = self.state.lock();
                    let same = |state: &mut ProxyState| !state.ended && state.fault == fault;
                    self.changed.wait_while_for(&mut state, same, by);
                }
                Some(_) => {}
            }
            if to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    }
}
