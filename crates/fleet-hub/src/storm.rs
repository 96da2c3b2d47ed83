//! How many nodes may say hello per second, and when the others come back.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate_core::Timestamp;

const SECOND: Duration = Duration::from_secs(1);
/// The longest time that a node is sent away for.
const LONGEST: Duration = Duration::from_secs(30);

/// The hellos of the last second.
#[derive(Debug)]
pub(crate) struct Storm {
    per_second: usize,
    admitted: VecDeque<Timestamp>,
    /// The turn of the node that was sent away last.
    last_turn: Timestamp,
}

impl Storm {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = per_second.max(1) as usize;
        Self { per_second, admitted: VecDeque::with_capacity(per_second), last_turn: Timestamp::ZERO }
    }

    /// Admits a hello, or returns after what time the node should come back: each has a turn of its own.
    pub(crate) fn admit(&mut self, now: Timestamp) -> Result<(), Duration> {
        while self.admitted.front().is_some_and(|at| now.since(*at) >= SECOND) {
            self.admitted.pop_front();
        }
        if self.admitted.len() < self.per_second {
            self.admitted.push_back(now);
            return Ok(());
        }
        let turn = self.last_turn.max(now + SECOND) + SECOND / self.per_second as u32;
        self.last_turn = turn.min(now + LONGEST);
        Err(self.last_turn.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_thousand_nodes_at_once_200_are_admitted_per_second_and_all_within_ten_seconds() {
        let mut storm = Storm::new(200);
        let mut coming: Vec<Duration> = vec![Duration::ZERO; 1_000];
        let mut admitted: Vec<Duration> = Vec::new();
        while let Some(at) = coming.iter().copied().min() {
            coming.swap_remove(coming.iter().position(|it| *it == at).expect("the least"));
            match storm.admit(Timestamp::from_unix_seconds(1_000) + at) {
                Ok(()) => admitted.push(at),
                Err(after) => coming.push(at + after),
            }
        }
        for (place, at) in admitted.iter().enumerate().skip(200) {
            assert!(*at >= admitted[place - 200] + SECOND, "201 in a second");
        }
        assert!(admitted.last() <= Some(&Duration::from_secs(10)), "{:?}", admitted.last());
    }
}
