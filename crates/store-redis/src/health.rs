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
    heard: Mutex<Heard>,
    state: watch::Sender<StoreState>,
}

#[derive(Debug, Default)]
struct Heard {
    /// What each says: nothing where it reaches its server, else why not.
    whys: BTreeMap<Witness, Option<Arc<str>>>,
    since: Option<Instant>,
}

impl Health {
    pub(crate) fn new(store: &str) -> Self {
        let (state, _) = watch::channel(StoreState::Trying);
        Self { store: store.to_owned(), heard: Mutex::default(), state }
    }

    pub(crate) fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// `witness` cannot reach its server, or may not use it.
    pub(crate) fn down(&self, witness: Witness, why: &Arc<str>) {
        self.change(|whys| {
            whys.insert(witness, Some(why.clone()));
        });
    }

    /// `witness` reaches its server.
    pub(crate) fn up(&self, witness: Witness) {
        self.change(|whys| {
            whys.insert(witness, None);
        });
    }

    /// `witness` is no more. With the last one, as at the end, what was known last stands.
    pub(crate) fn gone(&self, witness: Witness) {
        self.change(|whys| {
            whys.remove(&witness);
        });
    }

    fn change(&self, how: impl FnOnce(&mut BTreeMap<Witness, Option<Arc<str>>>)) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        how(&mut heard.whys);
        let state = match heard.whys.values().flatten().next().cloned() {
            Some(why) => StoreState::Down { since: *heard.since.get_or_insert_with(Instant::now), why },
            None if heard.whys.is_empty() => return,
            None => StoreState::Up,
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
                heard.since = None;
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

    #[test]
    fn what_ends_while_it_is_down_does_not_say_that_it_is_up() {
        let health = Health::new("redis");
        health.up(1);
        health.down(1, &"a".into());
        health.down(2, &"a".into());
        health.gone(1);
        health.gone(2);
        assert!(matches!(health.state(), StoreState::Down { .. }));
        health.up(3);
        assert_eq!(health.state(), StoreState::Up);
    }

    #[tokio::test(start_paused = true)]
    async fn each_outage_began_when_it_did_and_not_when_the_last_one_did() {
        let health = Health::new("redis");
        for _ in 0..2 {
            tokio::time::advance(std::time::Duration::from_secs(5)).await;
            let began = Instant::now();
            health.down(1, &"a".into());
            tokio::time::advance(std::time::Duration::from_secs(5)).await;
            health.down(1, &"b".into());
            assert_eq!(health.state(), StoreState::Down { since: began, why: "b".into() });
            health.up(1);
        }
    }
}
