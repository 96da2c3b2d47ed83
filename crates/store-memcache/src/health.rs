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
#[derive(Clone, Debug, Default)]
struct Server {
    answers: usize,
    silent: usize,
    why: Option<Arc<str>>,
}

/// What one lane says of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    Answers,
    Silent,
}

impl Health {
    pub(crate) fn new(servers: usize) -> Self {
        let (state, _) = watch::channel(StoreState::Trying);
        Self { servers: Mutex::new(vec![Server::default(); servers]), state }
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

/// One log line a change of what is known of one server.
pub(crate) fn log(server: &HostPort, after: Said, why: Option<&str>) {
    match after {
        Said::Answers => tracing::info!(%server, "memcached answers"),
        Said::Silent => {
            tracing::warn!(%server, why, "memcached does not answer; it is asked again in the background")
        }
        Said::Nothing => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_silent_lane_is_enough_and_all_must_answer_again() {
        let health = Health::new(2);
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
