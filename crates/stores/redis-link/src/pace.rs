//! The number of flights that may be in flight to a server at once, by its distance. Reads no clock.
//!
//! Few for a near server: calls that wait for an answer share commands with others, so the more callers, the
//! fewer commands per call. More for a far one: a call that first waits for an answer and is then sent takes
//! up to two round trips, which may not fit in its deadline.

use tokio::time::Duration;

/// Nearer than this, a round trip is mostly the server's work.
const NEAR: Duration = Duration::from_millis(1);
/// Up to this far two round trips are short enough to wait for.
const MIDDLE: Duration = Duration::from_millis(4);

/// The most flights and connections in use at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Flights of a queue.
    pub(crate) at_once: usize,
    /// Flights of one connection.
    pub(crate) per_connection: usize,
    /// Flights of a queue where `gap` has passed since the last one was sent.
    pub(crate) most: usize,
    pub(crate) gap: Duration,
    /// Connections that are kept ready: where opening one takes long, a second for calls that a late answer
    /// would hold up.
    pub(crate) ready: usize,
}

impl Pace {
    /// `base` is the least round trip seen, not the usual one: a server with too much to do must not be given
    /// more at once.
    pub(crate) fn of(base: Duration, patience: Duration) -> Self {
        if base < NEAR {
            return Self { at_once: 2, per_connection: 2, most: 2, gap: Duration::ZERO, ready: 1 };
        }
        if base < MIDDLE && base * 5 / 2 <= patience {
            return Self { at_once: 2, per_connection: 1, most: 2, gap: Duration::ZERO, ready: 2 };
        }
        let at_once = usize::try_from(base.as_micros() / 500).unwrap_or(usize::MAX).clamp(2, 16);
        Self { at_once, per_connection: 2 * at_once, most: 2 * at_once, gap: base / 16, ready: 2 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farther_the_server_the_more_flights_unless_two_round_trips_are_short() {
        let ms = Duration::from_millis;
        for (base_us, patience_ms, at_once, per_connection, most, ready) in [
            (0, 9, 2, 2, 2, 1),
            (200, 9, 2, 2, 2, 1),
            (1_000, 9, 2, 1, 2, 2),
            (3_600, 9, 2, 1, 2, 2),
            (3_601, 9, 7, 14, 14, 2), // two would not fit
            (2_000, 4, 4, 8, 8, 2),
            (3_999, 2_000, 2, 1, 2, 2),
            (4_000, 2_000, 8, 16, 16, 2),
            (8_000, 9, 16, 32, 32, 2),
            (30_000, 49, 16, 32, 32, 2),
        ] {
            let pace = Pace::of(Duration::from_micros(base_us), ms(patience_ms));
            let got = (pace.at_once, pace.per_connection, pace.most, pace.ready);
            assert_eq!(got, (at_once, per_connection, most, ready), "{base_us} us, {patience_ms} ms");
        }
    }
}
