//! What is known of the servers' health, for readiness, metrics and one log line a change.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use tollgate_store::remote::{HostPort, StoreState};

/// What the lanes have told of each server.
#[derive(Debug)]
pub(crate) struct Health {
    servers: Mutex<Vec<Server>>,
    state: watch::Sender<StoreState>,
}

/// One server: how many lanes it answers, and how many it does not.
#[derive(Clone, Debug)]
struct Server {
    name: HostPort,
    answers: usize,
    silent: usize,
    why: Option<Arc<str>>,
    told: Told,
}

/// What the log has last been told of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Up,
    Down { since: Instant },
}

impl Server {
    fn new(name: HostPort) -> Self {
        Self { name, answers: 0, silent: 0, why: None, told: Told::Nothing }
    }

    /// What the log is to be told now, if that is another thing than last time: down as soon as one lane is not answered, up once all
    /// are. Where no lane is left, as at the end, nothing is known any more, and nothing told.
    fn news(&self) -> Option<Told> {
        match self.told {
            Told::Down { .. } if self.silent > 0 => None,
            _ if self.silent > 0 => Some(Told::Down { since: Instant::now() }),
            Told::Up => None,
            _ => (self.answers > 0).then_some(Told::Up),
        }
    }

    fn log(&mut self) {
        let Some(news) = self.news() else { return };
        let (server, why) = (&self.name, self.why.as_deref().unwrap_or_default());
        match (self.told, news) {
            (Told::Down { since }, Told::Up) => {
                tracing::info!(%server, "memcached is up again after {:.1?}", since.elapsed());
            }
            (_, Told::Down { .. }) => tracing::warn!(%server, "memcached is down: {why}"),
            _ => tracing::info!(%server, "memcached is up"),
        }
        self.told = news;
    }
}

/// What one lane says of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    Answers,
    Silent,
}

impl Health {
    pub(crate) fn new(servers: &[HostPort]) -> Self {
        let (state, _) = watch::channel(StoreState::Trying);
        Self { servers: Mutex::new(servers.iter().cloned().map(Server::new).collect()), state }
    }

    pub(crate) fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// A lane that said `before` of server `at` now says `after`.
    pub(crate) fn change(&self, at: usize, before: Said, after: Said, why: Option<Arc<str>>) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let server = &mut servers[at];
        match before {
            Said::Nothing => {}
            Said::Answers => server.answers -= 1,
            Said::Silent => server.silent -= 1,
        }
        match after {
            Said::Nothing => {}
            Said::Answers => server.answers += 1,
            Said::Silent => server.silent += 1,
        }
        if why.is_some() {
            server.why = why;
        }
        server.log();
        let silent = servers.iter().find(|server| server.silent > 0);
        let is_up = silent.is_none() && servers.iter().any(|server| server.answers > 0);
        self.state.send_if_modified(|state| {
            let new = match (silent, &state) {
                (Some(server), StoreState::Down { since, .. }) => {
                    StoreState::Down { since: *since, why: server.why.clone().unwrap_or_default() }
                }
                (Some(server), _) => {
                    StoreState::Down { since: Instant::now(), why: server.why.clone().unwrap_or_default() }
                }
                (None, _) if is_up => StoreState::Up,
                (None, _) => return false, // whoever knew is gone: what was known last stands
            };
            let is_new = new != *state;
            *state = new;
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(count: u16) -> Vec<HostPort> {
        (0..count).map(|at| HostPort::new("h", at)).collect()
    }

    #[test]
    fn the_log_is_told_once_a_change_however_many_lanes_there_are() {
        use Said::{Answers, Nothing, Silent};

        let health = Health::new(&servers(1));
        for (before, after, is_down) in [
            (Nothing, Answers, Some(false)),
            (Nothing, Answers, Some(false)), // the lane of another thread
            (Answers, Silent, Some(true)),
            (Answers, Silent, Some(true)),
            (Silent, Answers, Some(true)), // one lane is not answered yet
            (Silent, Answers, Some(false)),
            (Answers, Silent, Some(true)),
            (Answers, Nothing, Some(true)), // the end: whoever knew is gone, and nobody says that it is up again
            (Silent, Nothing, Some(true)),
        ] {
            let told = || health.servers.lock().unwrap_or_else(PoisonError::into_inner)[0].told;
            let earlier = told();
            health.change(0, before, after, None);
            let is = match told() {
                Told::Nothing => None,
                Told::Up => Some(false),
                Told::Down { .. } => Some(true),
            };
            assert_eq!(is, is_down, "{before:?} → {after:?}");
            if let (Told::Down { since }, Told::Down { since: now }) = (earlier, told()) {
                assert_eq!(since, now, "the same outage");
            }
        }
    }

    #[test]
    fn one_silent_lane_is_enough_and_all_must_answer_again() {
        let health = Health::new(&servers(2));
        assert_eq!(health.state(), StoreState::Trying);
        health.change(0, Said::Nothing, Said::Answers, None);
        health.change(1, Said::Nothing, Said::Answers, None);
        assert!(health.state().is_up());
        health.change(1, Said::Answers, Said::Silent, Some("b: refused".into()));
        health.change(0, Said::Answers, Said::Silent, Some("a: refused".into()));
        health.change(1, Said::Silent, Said::Answers, None);
        assert!(matches!(health.state(), StoreState::Down { why, .. } if &*why == "a: refused"));
        health.change(0, Said::Silent, Said::Nothing, None); // its runtime has ended
        assert!(health.state().is_up());
    }
}
