//! What is the matter with which connection, and the store's state from it: up, down and why; one log line a change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use tollgate_store::remote::StoreState;

/// Fewer calls without an answer mean nothing.
const FEW: u64 = 5;

/// Who tells: connections by number.
pub(crate) type Witness = u64;

#[derive(Debug)]
pub(crate) struct Health {
    store: String,
    heard: Mutex<Heard>,
    state: watch::Sender<StoreState>,
    /// It answers, and too late for too many calls.
    slow: Mutex<Slow>,
}

/// Calls of the last seconds, the older the less, and what to say of them.
#[derive(Debug, Default)]
struct Slow {
    asked: u64,
    silent: u64,
    why: Option<Arc<str>>,
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
        Self { store: store.to_owned(), heard: Mutex::default(), state, slow: Mutex::default() }
    }

    pub(crate) fn state(&self) -> StoreState {
        self.state.borrow().clone()
    }

    /// What to say of a store that is up and answers too late for more than 1 % of the calls.
    pub(crate) fn slow(&self) -> Option<Arc<str>> {
        if !self.state.borrow().is_up() {
            return None;
        }
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).why.clone()
    }

    /// So many more calls were made, and so many not answered in time; reported about once a second. One log line when it becomes too slow,
    /// one when that is over.
    pub(crate) fn calls(&self, asked: u64, silent: u64, round_trip: Duration, deadline: Duration) {
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        (slow.asked, slow.silent) = (slow.asked / 2 + asked.max(silent), slow.silent / 2 + silent);
        let is_up = self.state.borrow().is_up();
        if !is_up {
            (slow.asked, slow.silent) = (0, 0); // an outage is reported as such
        }
        match &slow.why {
            None if is_up && slow.silent >= FEW && slow.silent * 100 > slow.asked => {
                let share = slow.silent * 100 / slow.asked.max(1);
                let why = format!(
                    "too slow: round trip {round_trip:.1?}, deadline {deadline:?}: {share} % of calls were not answered in time; \
                     raise --store-deadline, or look at the server's load and the network"
                );
                tracing::warn!(store = %self.store, "the store is {why}");
                slow.why = Some(why.into());
            }
            Some(_) if !is_up || slow.silent * 200 <= slow.asked => {
                if is_up {
                    tracing::info!(store = %self.store, "the store answers in time again");
                }
                slow.why = None;
            }
            _ => {}
        }
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
    fn it_is_too_slow_while_more_than_one_call_in_a_hundred_gets_no_answer() {
        let ms = Duration::from_millis;
        let health = Health::new("redis");
        let calls = |asked, silent| health.calls(asked, silent, ms(12), ms(10));
        calls(1000, 900);
        assert_eq!(health.slow(), None, "nothing is known of it yet");
        health.up(1);
        calls(1000, 900);
        assert!(health.slow().is_some_and(|why| why.contains("round trip 12.0ms, deadline 10ms: 90 %")));
        calls(100_000, 0);
        assert_eq!(health.slow(), None);
        for _ in 0..20 {
            calls(1000, 10);
            assert_eq!(health.slow(), None, "one in a hundred");
        }
        calls(1000, 20);
        assert!(health.slow().is_some());
        health.down(1, &why_text());
        assert_eq!(health.slow(), None, "it is down, which says more");
        calls(0, 0);
        health.up(1);
        assert_eq!(health.slow(), None);
        calls(1, 1);
        assert_eq!(health.slow(), None, "one call");
    }

    fn why_text() -> Arc<str> {
        "a".into()
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
