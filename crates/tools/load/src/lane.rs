//! One connection's work without I/O: writing due requests and reading replies.
//!
//! Time is an argument, so that a test can stall a server for as long as it likes.

use tollgate_core::Timestamp;

use crate::Keys;
use crate::codec::{Broken, Codec};
use crate::pace::{Next, Pace};
use crate::tally::{Sent, Tally};

/// No more requests are written while this many bytes wait to be sent.
const MAX_OUTPUT: usize = 1 << 18;

pub(crate) struct Lane {
    codec: Box<dyn Codec>,
    keys: Keys,
    pace: Pace,
    /// Requests to send again.
    again: Vec<Sent>,
}

impl Lane {
    pub(crate) fn new(codec: Box<dyn Codec>, keys: Keys, pace: Pace) -> Self {
        Self { codec, keys, pace, again: Vec::new() }
    }

    /// Begins a new connection.
    pub(crate) fn open(&mut self, out: &mut Vec<u8>) {
        self.codec.open(out);
    }

    /// Writes every request that is due at `now` and fits.
    pub(crate) fn fill(&mut self, now: Timestamp, out: &mut Vec<u8>, tally: &mut Tally) {
        while out.len() < MAX_OUTPUT && self.codec.has_room() {
            let sent = match self.again.pop() {
                Some(sent) => sent,
                None => {
                    let Next::Send(sent) = self.pace.next(now) else { return };
                    tally.sent(sent, now);
                    sent
                }
            };
            self.codec.request(self.keys.draw(), sent, out);
        }
    }

    /// Reads bytes received at `now`; returns the number of bytes of complete replies.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        now: Timestamp,
        tally: &mut Tally,
    ) -> Result<usize, Broken> {
        self.codec.read(input, out, now, tally)
    }

    /// The connection ended: in-flight requests fail, or are sent again.
    pub(crate) fn lose(&mut self, broken: &Broken, tally: &mut Tally) {
        let lost = self.codec.lost();
        match broken {
            Broken::Goodbye => self.again.extend(lost),
            Broken::Off(why) => tally.failed(why, counted(&lost)),
        }
    }

    /// Counts the next request as failed if one is due, since there is no connection.
    pub(crate) fn fail_due(&mut self, now: Timestamp, why: &str, tally: &mut Tally) {
        if let Next::Send(sent) = self.pace.next(now) {
            tally.failed(why, u64::from(sent.is_counted));
        }
    }

    /// The run ends: nothing more is sent.
    pub(crate) fn give_up(&mut self, why: &str, tally: &mut Tally) {
        tally.failed(why, counted(&self.codec.lost()) + counted(&std::mem::take(&mut self.again)));
        tally.failed("never sent: no connection had room in time", self.pace.abandon());
    }

    pub(crate) fn is_done(&self) -> bool {
        self.pace.is_over() && self.codec.waiting() == 0 && self.again.is_empty()
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.codec.waiting() > 0
    }
}

fn counted(sent: &[Sent]) -> u64 {
    sent.iter().filter(|sent| sent.is_counted).count() as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pace::Course;
    use crate::tests::{at_ms, plan_for};
    use crate::{Ask, Distribution, End, Plan};

    #[test]
    fn an_open_loop_counts_the_wait_behind_a_stalled_server() {
        // One request every 10 ms, one at a time. The server answers the first at once, and then nothing
        // until 95 ms.
        let ask = Ask::Command(vec!["INCR".to_owned(), "{key}".to_owned()]);
        let plan = Plan { rate: Some(100), end: End::Requests(10), ..plan_for("resp://h:1", ask) };
        let pace = Pace::new(Course::new(&plan, at_ms(0)), 0, 1);
        let keys = Keys::new(10, Distribution::Uniform, 1);
        let mut lane = Lane::new(crate::codec::codec(&plan).expect("a codec"), keys, pace);
        let mut tally = Tally::new();
        let mut out = Vec::new();
        lane.open(&mut out);
        lane.fill(at_ms(0), &mut out, &mut tally);
        assert_eq!(lane.read(b":1\r\n", &mut out, at_ms(1), &mut tally), Ok(4));
        lane.fill(at_ms(10), &mut out, &mut tally);
        for late_ms in 1..=9 {
            lane.fill(at_ms(10 + late_ms * 5), &mut out, &mut tally);
        }
        // From here on a reply a millisecond; request number i was to leave at 10 × i ms.
        let mut want = vec![1];
        for index in 1..10 {
            let now_ms = 94 + index;
            assert_eq!(lane.read(b":1\r\n", &mut out, at_ms(now_ms), &mut tally), Ok(4));
            want.push(now_ms - 10 * index);
            lane.fill(at_ms(now_ms), &mut out, &mut tally);
        }
        want.sort_unstable();
        let found: Vec<u64> = tally
            .latency
            .iter_recorded()
            .map(|step| Duration::from_nanos(step.value_iterated_to()).as_micros().div_ceil(1_000) as u64)
            .collect();
        let near = |(found, want): (&u64, &u64)| found.abs_diff(*want) <= 1;
        assert!(found.len() == 10 && found.iter().zip(&want).all(near), "{found:?}, not {want:?}");
        assert_eq!((lane.is_done(), tally.admitted), (true, 10));
        // The second left on time, the last of them 14 ms late: the lateness of sending is measured apart.
        assert!(tally.late.max() > 60_000_000, "{}", tally.late.max());
    }

    #[test]
    fn what_was_never_answered_or_never_sent_is_counted_as_such() {
        let plan = Plan { rate: Some(100), end: End::Requests(10), ..plan_for("http://h:1", Ask::Get) };
        let plan = Plan { in_flight: 3, ..plan };
        let pace = Pace::new(Course::new(&plan, at_ms(0)), 0, 1);
        let keys = Keys::new(10, Distribution::Uniform, 1);
        let mut lane = Lane::new(crate::codec::codec(&plan).expect("a codec"), keys, pace);
        let mut tally = Tally::new();
        let mut out = Vec::new();
        lane.fill(at_ms(95), &mut out, &mut tally);
        assert!(lane.is_waiting());
        lane.give_up("no answer", &mut tally);
        assert_eq!(tally.errors["no answer"], 3);
        assert_eq!(tally.requests(), 10);
        assert!(lane.is_done());
    }
}
