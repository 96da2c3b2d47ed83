//! The state of a store, up or down with the reason, from the reports of connections about their servers; one
//! log line per change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::StoreState;

/// The health of one store's servers, as their connections report it.
///
/// A server is down while any connection reports so, and up again once all of them reach it. The store is
/// down while any server is.
///
/// # Example
/// ```
/// use tollgate_store::remote::{Health, StoreState};
///
/// let health = Health::new(["redis at 10.0.0.7:6379"]);
/// let (one, other) = (health.reporter(0), health.reporter(0));
/// health.up(one);
/// assert_eq!(health.state(), StoreState::Up);
/// health.down(other, &"10.0.0.7:6379: connection refused".into());
/// assert!(!health.state().is_up());
/// health.gone(other);
/// assert_eq!(health.state(), StoreState::Up);
/// ```
#[derive(Debug)]
pub struct Health {
    servers: Mutex<Vec<ServerHealth>>,
    state: watch::Sender<StoreState>,
    reporters: AtomicU64,
}

/// A connection, or another reporter of one server's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reporter {
    server: usize,
    number: u64,
}

/// One server, or all servers of a store that are logged as one.
#[derive(Debug)]
struct ServerHealth {
    name: String,
    /// By number: `None` from a reporter that reaches the server, otherwise the reason.
    reports: BTreeMap<u64, Option<Arc<str>>>,
    logged: Logged,
}

/// The state of a server that was last logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logged {
    Nothing,
    Up,
    Down { since: Instant },
}

impl ServerHealth {
    /// The reason why it is down, from the oldest of the reporters that say so.
    fn why(&self) -> Option<&Arc<str>> {
        self.reports.values().flatten().next()
    }

    /// Logs a change. Without reporters, as at the end, the state is unknown and nothing is logged.
    fn log(&mut self) {
        let store = &self.name;
        match (self.logged, self.why()) {
            (Logged::Down { .. }, Some(_)) => {} // another reason, the same outage
            (_, Some(why)) => {
                tracing::error!(%store, "the store is down: {why}");
                self.logged = Logged::Down { since: Instant::now() };
            }
            (_, None) if self.reports.is_empty() => {}
            (Logged::Up, None) => {}
            (Logged::Down { since }, None) => {
                tracing::info!(%store, "the store is up again after {:.1?}", since.elapsed());
                self.logged = Logged::Up;
            }
            (Logged::Nothing, None) => {
                tracing::info!(%store, "the store is up");
                self.logged = Logged::Up;
            }
        }
    }
}

impl Health {
    /// A health without reports. Each name is one server, logged by itself; it must not hold a password.
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let server = |name: String| ServerHealth { name, reports: BTreeMap::new(), logged: Logged::Nothing };
        Self {
            servers: Mutex::new(servers.into_iter().map(|name| server(name.into())).collect()),
            state: watch::Sender::new(StoreState::Trying),
            reporters: AtomicU64::new(0),
        }
    }

    /// A new reporter for the `nth` server.
    #[must_use]
    pub fn reporter(&self, nth: usize) -> Reporter {
        Reporter { server: nth, number: self.reporters.fetch_add(1, Relaxed) }
    }

    /// The store's state.
    #[must_use]
    pub fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }

    /// Receives every change of [`Health::state`].
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// `reporter` cannot reach its server, or must not use it.
    pub fn down(&self, reporter: Reporter, why: &Arc<str>) {
        self.change(reporter.server, |reports| {
            reports.insert(reporter.number, Some(why.clone()));
        });
    }

    /// `reporter` reaches its server.
    pub fn up(&self, reporter: Reporter) {
        self.change(reporter.server, |reports| {
            reports.insert(reporter.number, None);
        });
    }

    /// `reporter` has ended. When the last one ends, as at shutdown, the last known state stays.
    pub fn gone(&self, reporter: Reporter) {
        self.change(reporter.server, |reports| {
            reports.remove(&reporter.number);
        });
    }

    fn change(&self, server: usize, how: impl FnOnce(&mut BTreeMap<u64, Option<Arc<str>>>)) {
        let mut servers = self.servers.lock();
        let Some(server) = servers.get_mut(server) else { return };
        how(&mut server.reports);
        server.log();
        let down = servers.iter().find_map(ServerHealth::why).cloned();
        let is_known = servers.iter().any(|server| !server.reports.is_empty());
        self.state.send_if_modified(|state| {
            let new = match (down, &*state) {
                (Some(why), StoreState::Down { since, .. }) => StoreState::Down { since: *since, why },
                (Some(why), _) => StoreState::Down { since: Instant::now(), why },
                (None, _) if is_known => StoreState::Up,
                (None, _) => return false,
            };
            let is_new = new != *state;
            *state = new;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn why(text: &str) -> Arc<str> {
        text.into()
    }

    /// A health of as many servers, with as many reporters for each.
    fn health<const N: usize>(servers: [usize; N]) -> (Health, [Reporter; N]) {
        let names = (0..=servers.iter().copied().max().unwrap_or(0)).map(|nth| format!("redis {nth}"));
        let health = Health::new(names);
        let reporters = servers.map(|nth| health.reporter(nth));
        (health, reporters)
    }

    #[test]
    fn it_is_down_while_any_reporter_says_so() {
        let (health, [one, other]) = health([0, 0]);
        assert_eq!(health.state(), StoreState::Trying);
        health.up(one);
        assert_eq!(health.state(), StoreState::Up);
        health.down(one, &why("a"));
        health.down(other, &why("b"));
        let StoreState::Down { since, why: first } = health.state() else { panic!("down") };
        assert_eq!(&*first, "a");
        health.up(one);
        let same = StoreState::Down { since, why: why("b") };
        assert_eq!(health.state(), same, "the same outage, another reason");
        health.gone(other);
        assert_eq!(health.state(), StoreState::Up);
    }

    #[test]
    fn one_server_down_is_enough_and_all_must_be_up_again() {
        let (health, [a, b]) = health([0, 1]);
        health.up(a);
        health.up(b);
        health.down(b, &why("b: connection refused"));
        health.down(a, &why("a: connection refused"));
        health.up(b);
        assert_eq!(health.state().why(), Some(&why("a: connection refused")));
        health.gone(a); // its runtime has ended
        assert!(health.state().is_up());
    }

    #[test]
    fn when_its_last_reporter_ends_a_store_that_was_down_does_not_become_up() {
        let (health, [one, other, third]) = health([0, 0, 0]);
        health.up(one);
        health.down(one, &why("a"));
        health.down(other, &why("a"));
        health.gone(one);
        health.gone(other);
        assert!(matches!(health.state(), StoreState::Down { .. }));
        health.up(third);
        assert_eq!(health.state(), StoreState::Up);
    }

    #[test]
    fn each_change_is_logged_once_however_many_report_it() {
        let (health, [one, other]) = health([0, 0]);
        let steps: [(&dyn Fn(), bool); 8] = [
            (&|| health.up(one), true),
            (&|| health.up(other), true), // another thread's connection
            (&|| health.down(one, &why("a")), false),
            (&|| health.down(other, &why("b")), false),
            (&|| health.up(one), false), // the other is not answered yet
            (&|| health.up(other), true),
            (&|| health.down(one, &why("a")), false),
            (&|| health.gone(other), false), // the end: no report says that it is up again
        ];
        let logged = || health.servers.lock()[0].logged;
        for (nth, (step, is_up)) in steps.into_iter().enumerate() {
            let before = logged();
            step();
            assert_eq!(logged() == Logged::Up, is_up, "step {nth}");
            if let (Logged::Down { since }, Logged::Down { since: now }) = (before, logged()) {
                assert_eq!(since, now, "step {nth}: the same outage");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_outage_begins_when_it_does_and_not_when_the_previous_one_did() {
        let (health, [one]) = health([0]);
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(5)).await;
            let began = Instant::now();
            health.down(one, &why("a"));
            tokio::time::advance(Duration::from_secs(5)).await;
            health.down(one, &why("b"));
            assert_eq!(health.state(), StoreState::Down { since: began, why: why("b") });
            health.up(one);
        }
    }
}
