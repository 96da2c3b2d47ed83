//! A TCP proxy that adds latency and keeps the order: a long way between a client and a store, some of whose
//! answers come late.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// A proxy on a port of 127.0.0.1, in threads of its own. Unlike
/// [`NetworkFault::Latency`](super::NetworkFault::Latency) it delays each read by itself, so that any number
/// of requests may be in flight.
#[derive(Debug)]
pub struct Distance {
    port: SocketAddr,
    way: Arc<DelayState>,
}

#[derive(Debug, Default)]
struct DelayState {
    /// One way, in nanoseconds.
    takes: AtomicU64,
    /// Number of late answers in a thousand, and their delay.
    late_share: AtomicU64,
    late_by: AtomicU64,
    /// Answers so far, those that came late, and late ones still to come whatever the share.
    answers: AtomicU64,
    late: AtomicU64,
    make_late: AtomicU64,
    ended: AtomicBool,
}

impl Distance {
    /// A proxy before what listens at `to`; `way` is the latency of each direction.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn before(to: SocketAddr, way: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound");
        let shared = Arc::new(DelayState::default());
        shared.takes.store(nanos(way), Relaxed);
        let own = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if own.ended.load(Relaxed) {
                    return;
                }
                serve(client, to, &own);
            }
        });
        Self { port, way: shared }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.port
    }

    /// From now on each direction takes this long.
    pub fn set_way(&self, way: Duration) {
        self.way.takes.store(nanos(way), Relaxed);
    }

    /// From now on `of_1000` of a thousand answers come later than the others, by `by`. Those behind them on
    /// the same connection wait for them.
    pub fn set_late(&self, of_1000: u64, by: Duration) {
        self.way.late_by.store(nanos(by), Relaxed);
        self.way.late_share.store(of_1000, Relaxed);
    }

    /// The next answer, on whatever connection, comes later by `by`.
    pub fn delay_next(&self, by: Duration) {
        self.way.late_by.store(nanos(by), Relaxed);
        self.way.make_late.store(1, Relaxed);
    }

    /// Answers that passed so far, and how many of them were delayed further.
    #[must_use]
    pub fn answers(&self) -> (u64, u64) {
        (self.way.answers.load(Relaxed), self.way.late.load(Relaxed))
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.way.ended.store(true, Relaxed);
        TcpStream::connect(self.port).ok(); // so that it looks up from waiting
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn serve(client: TcpStream, to: SocketAddr, way: &Arc<DelayState>) -> Option<()> {
    let store = TcpStream::connect(to).ok()?;
    client.set_nodelay(true).ok()?;
    store.set_nodelay(true).ok()?;
    pass(client.try_clone().ok()?, store.try_clone().ok()?, way.clone(), false);
    pass(store, client, way.clone(), true);
    Some(())
}

/// Passes bytes on until either end closes: one thread reads and notes when they are due, another writes.
#[expect(clippy::disallowed_methods, reason = "real time is what it spends")]
fn pass(mut from: TcpStream, mut to: TcpStream, way: Arc<DelayState>, is_answer: bool) {
    let (chunks, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        for (at, bytes) in due {
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        to.shutdown(Shutdown::Both).ok();
    });
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        let mut last = Instant::now();
        let mut chance = 0x9e37_79b9_7f4a_7c15
            ^ from.peer_addr().map_or(0, |at| u64::from(at.port()) << 17)
            ^ from.local_addr().map_or(0, |at| u64::from(at.port()));
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            let mut takes = way.takes.load(Relaxed);
            if is_answer {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                way.answers.fetch_add(1, Relaxed);
                if (chance >> 11) % 1000 < way.late_share.load(Relaxed) || way.make_late.swap(0, Relaxed) > 0
                {
                    way.late.fetch_add(1, Relaxed);
                    takes += way.late_by.load(Relaxed);
                }
            }
            last = last.max(Instant::now() + Duration::from_nanos(takes));
            if chunks.send((last, buffer[..n].to_vec())).is_err() {
                break;
            }
        }
        from.shutdown(Shutdown::Read).ok();
    });
}
