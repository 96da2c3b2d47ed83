//! What is the matter with which connection, and the store's state from it: up, down and why; one log line a change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use tollgate_store::remote::StoreState;

/// Who tells: connections by number.
pub(crate) type Witness = u64;

#[derive(Debug)]
pub(crate) struct Health {
    store: String,
    down: Mutex<Down>,
    state: watch::Sender<StoreState>,
}

#[derive(Debug, Default)]
struct Down {
    whys: BTreeMap<Witness, Arc<str>>,
    since: Option<Instant>,
    heard: bool,
}

impl Health {
    pub(crate) fn new(store: &str) -> Self {
        let (state, _) = watch::channel(StoreState::Trying);
        Self { store: store.to_owned(), down: Mutex::default(), state }
    }

    pub(crate) fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// `witness` cannot reach its server, or may not use it.
    pub(crate) fn down(&self, witness: Witness, why: &Arc<str>) {
        self.change(|down| {
            down.whys.insert(witness, why.clone());
        });
    }

    /// `witness` reaches its server.
    pub(crate) fn up(&self, witness: Witness) {
        self.change(|down| {
            down.heard = true;
            down.whys.remove(&witness);
        });
    }

    /// `witness` is no more.
    pub(crate) fn gone(&self, witness: Witness) {
        self.change(|down| {
            down.whys.remove(&witness);
        });
    }

    fn change(&self, how: impl FnOnce(&mut Down)) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut down);
        let state = match down.whys.values().next().cloned() {
            Some(why) => StoreState::Down { since: *down.since.get_or_insert_with(Instant::now), why },
            None if down.heard => StoreState::Up,
            None => StoreState::Trying,
        };
        let before = self.state.borrow().clone();
        if before == state {
            return;
        }
        match (&before, &state) {
            (StoreState::Down { .. }, StoreState::Down { .. }) => {} // another reason, the same outage
            (_, StoreState::Down { why, .. }) => {
                tracing::warn!(store = %self.store, "the store is down: {why}");
            }
            (StoreState::Down { since, .. }, _) => {
                let down_for = since.elapsed();
                tracing::info!(store = %self.store, "the store is up again after {down_for:.1?}");
                down.since = None;
            }
            _ => tracing::info!(store = %self.store, "the store is up"),
        }
        self.state.send_replace(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_down_while_any_witness_says_so() {
        let health = Health::new("redis");
        let why = |text: &str| -> Arc<str> { text.into() };
        assert_eq!(health.state(), StoreState::Trying);
        health.up(1);
        assert_eq!(health.state(), StoreState::Up);
        health.down(1, &why("a"));
        health.down(2, &why("b"));
        let StoreState::Down { since, why: first } = health.state() else { panic!("down") };
        assert_eq!(&*first, "a");
        health.up(1);
        assert_eq!(
            health.state(),
            StoreState::Down { since, why: why("b") },
            "the same outage, another reason"
        );
        health.gone(2);
        assert_eq!(health.state(), StoreState::Up);
    }
}
