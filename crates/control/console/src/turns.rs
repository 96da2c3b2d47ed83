//! Turns for what takes long: a few run at the same time, those who wait are served user by user, and a user
//! has a share of the places to wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tollgate_control::ControlError;
use tollgate_shares::{Place, Places, Room};

/// As many run at once: half of the database's readers, so that pages and logins have the others.
const MOST_RUNNING: usize = 2;
/// As many wait or run.
const MOST_WAITING: u64 = 64;
/// The part of these for editors of every app and administrators only.
const RESERVE: u64 = 8;
/// Whoever waits longer is sent away.
const LONGEST: Duration = Duration::from_secs(10);

/// The turns of one console.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Arc<Places>,
    state: Arc<Mutex<TurnQueue>>,
}

#[derive(Debug, Default)]
struct TurnQueue {
    running: usize,
    /// By user, in the order in which they are served.
    waiting: VecDeque<(String, VecDeque<oneshot::Sender<TurnGuard>>)>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _running: TurnGuard,
    _place: Place,
}

#[derive(Debug)]
struct TurnGuard(Arc<Mutex<TurnQueue>>);

impl Turns {
    pub(crate) fn new() -> Self {
        Self { places: Places::of(MOST_WAITING, RESERVE), state: Arc::default() }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`ControlError::TooMany`] if the user has its share of those that wait, or waits for 10 s.
    pub(crate) async fn turn(&self, user: &str, may_have_reserve: bool) -> Result<Turn, ControlError> {
        let place = self.places.take(&[(&user, 1)], Room::PLACE, may_have_reserve);
        let place = place.map_err(|_| ControlError::TooMany { seconds: 1 })?;
        let waits = {
            let mut state = lock(&self.state);
            if state.running < MOST_RUNNING {
                state.running += 1;
                let running = TurnGuard(Arc::clone(&self.state));
                return Ok(Turn { _running: running, _place: place });
            }
            let (sender, receiver) = oneshot::channel();
            match state.waiting.iter_mut().find(|it| it.0 == user) {
                Some((_, of_user)) => of_user.push_back(sender),
                None => state.waiting.push_back((user.to_owned(), VecDeque::from([sender]))),
            }
            receiver
        };
        match tokio::time::timeout(LONGEST, waits).await {
            Ok(Ok(running)) => Ok(Turn { _running: running, _place: place }),
            _ => Err(ControlError::TooMany { seconds: 5 }),
        }
    }

    #[cfg(test)]
    fn in_use(&self) -> u64 {
        self.places.in_use().places
    }
}

fn lock(state: &Mutex<TurnQueue>) -> MutexGuard<'_, TurnQueue> {
    state.lock()
}

impl TurnQueue {
    /// The next to run: the first of the first user, who then stands behind the other users.
    fn next(&mut self) -> Option<oneshot::Sender<TurnGuard>> {
        let (user, mut of_user) = self.waiting.pop_front()?;
        let next = of_user.pop_front();
        if !of_user.is_empty() {
            self.waiting.push_back((user, of_user));
        }
        next
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        while let Some(next) = state.next() {
            if next.is_closed() {
                continue; // it has left
            }
            drop(state);
            // One that leaves just now gives the turn on when its `TurnGuard` is dropped.
            let _ = next.send(TurnGuard(Arc::clone(&self.0)));
            return;
        }
        state.running = state.running.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn users_are_served_in_turn_and_each_has_a_share_of_the_places() {
        let turns = Arc::new(Turns::new());
        let first = turns.turn("a", false).await;
        let second = turns.turn("a", false).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        let mut wait = |user: &'static str| {
            let turns = Arc::clone(&turns);
            let order = Arc::clone(&order);
            tasks.push(tokio::spawn(async move {
                let turn = turns.turn(user, false).await;
                order.lock().push((user, turn.is_ok()));
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(turn);
            }));
        };
        for _ in 0..60 {
            wait("a");
        }
        wait("b");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let sent_away = order.lock().iter().filter(|it| !it.1).count();
        assert_eq!(sent_away, 34, "with the two that run, half of the 56 that are not the reserve");
        drop((first, second));
        for task in tasks {
            task.await.expect("it ends");
        }
        let order = order.lock();
        let of_b = order.iter().filter(|it| it.1).position(|it| it.0 == "b");
        assert!(of_b.is_some_and(|at| at <= 2), "{order:?}");
        assert_eq!((turns.in_use(), lock(&turns.state).running), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_in_time_is_refused_and_no_turn_is_lost() {
        let turns = Turns::new();
        let _first = turns.turn("a", false).await;
        let second = turns.turn("a", false).await;
        let late = turns.turn("b", false).await;
        assert!(matches!(late, Err(ControlError::TooMany { .. })), "{late:?}");
        drop(second);
        assert!(turns.turn("c", false).await.is_ok());
    }
}
