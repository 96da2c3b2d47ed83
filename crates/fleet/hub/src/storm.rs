//! Limits hellos per second, in all and for each machine and token, and gives the others a time to come back.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_shares::{Part, Room, Shares};

const SECOND: Duration = Duration::from_secs(1);
/// The longest time that a node is sent away for.
const LONGEST: Duration = Duration::from_secs(30);
/// Holders that have used up their share and whose turns are known.
const MOST_TURNS: usize = 1_000;

/// The hellos of the last second.
#[derive(Debug)]
pub(crate) struct Storm {
    per_second: usize,
    admitted: VecDeque<(Timestamp, [u64; 2])>,
    shares: Shares,
    /// The turn of the node that was sent away last, for all and for each holder that has its share.
    turns: HashMap<Option<u64>, Timestamp>,
}

impl Storm {
    pub(crate) fn new(per_second: u32) -> Self {
        let per_second = per_second.max(1) as usize;
        let admitted = VecDeque::with_capacity(per_second);
        Self { per_second, admitted, shares: Shares::default(), turns: HashMap::new() }
    }

    /// Admits a hello of `holders`, or returns after what time the node should come back: each has a turn of
    /// its own.
    pub(crate) fn admit(&mut self, now: Timestamp, holders: [Part; 2]) -> Result<(), Duration> {
        while let Some((_, names)) = self.admitted.pop_front_if(|(at, _)| now.since(*at) >= SECOND) {
            self.shares.give_back(names, Room::PLACE);
        }
        let free = Room { places: (self.per_second - self.admitted.len()) as u64, bytes: 1 };
        let over = match self.shares.take(&holders, Room::PLACE, free) {
            _ if free.places == 0 => None,
            Ok(()) => {
                self.admitted.push_back((now, holders.map(|it| it.name)));
                return Ok(());
            }
            // A holder above its share does not delay the turns of others.
            Err((place, _)) => holders.get(place).map(|it| it.name),
        };
        if self.turns.len() >= MOST_TURNS {
            self.turns.retain(|_, turn| *turn > now);
        }
        if self.turns.len() >= MOST_TURNS {
            return Err(LONGEST);
        }
        let turn = self.turns.entry(over).or_insert(Timestamp::ZERO);
        *turn = ((*turn).max(now + SECOND) + SECOND / self.per_second as u32).min(now + LONGEST);
        Err(turn.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(machine: u64) -> [Part; 2] {
        [Part { name: machine, times: 4 }, Part { name: u64::MAX, times: 9 }]
    }

    /// When each of these nodes is admitted, all coming at once. The number is that of a node's machine.
    fn storm(nodes: &[u64]) -> Vec<(Duration, u64)> {
        let mut storm = Storm::new(200);
        let mut coming: Vec<(Duration, u64)> = nodes.iter().map(|it| (Duration::ZERO, *it)).collect();
        let mut admitted = Vec::new();
        while let Some(place) = (0..coming.len()).min_by_key(|place| coming[*place].0) {
            let (at, machine) = coming.swap_remove(place);
            match storm.admit(Timestamp::from_unix_seconds(1_000) + at, of(machine)) {
                Ok(()) => admitted.push((at, machine)),
                Err(after) => coming.push((at + after, machine)),
            }
        }
        admitted
    }

    #[test]
    fn of_a_thousand_nodes_at_once_200_are_admitted_per_second_and_all_within_ten_seconds() {
        let own: Vec<u64> = (0..1_000).collect();
        let one: Vec<u64> = vec![7; 1_000];
        for nodes in [own, one] {
            let admitted = storm(&nodes);
            for (place, (at, _)) in admitted.iter().enumerate().skip(200) {
                assert!(*at >= admitted[place - 200].0 + SECOND, "201 in a second");
            }
            assert!(admitted.last().is_some_and(|it| it.0 <= Duration::from_secs(10)), "{admitted:?}");
        }
    }

    #[test]
    fn a_machine_that_floods_leaves_a_fifth_to_others_and_makes_none_of_their_turns_later() {
        let mut storm = Storm::new(200);
        let mut admitted = 0;
        let noon = Timestamp::from_unix_seconds(1_000);
        for ms in 0..10_000_u64 {
            let now = noon + Duration::from_millis(ms);
            admitted += (0..5).filter(|_| storm.admit(now, of(7)).is_ok()).count();
            if ms % 100 == 50 {
                assert_eq!(storm.admit(now, of(8)), Ok(()), "another machine at {ms} ms");
            }
        }
        assert!((1_400..=1_601).contains(&admitted), "{admitted} of the flood");
    }
}
