//! The demand at a node, which sizes its leases. Floats, since no decision rests on it; no clock.

/// Number of deviations of the demand that a lease covers: one in ten runs dry.
const DEVIATIONS: f64 = 1.28;

/// Takes within this span after a first one count as one burst.
const BURST_NS: u64 = 1_000_000;
/// Longer gaps count as this long: by then the permits held have been given back.
const LONGEST_GAP_NS: u64 = 4_000_000_000;

/// A running estimate of takes and permits per nanosecond, and of how unevenly they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    average: Rates,
    /// Sums since the last averaging, and when that was.
    recent: Rates,
    since_ns: u64,
    /// Permits of the newest burst, and when it began.
    burst: f64,
    burst_ns: u64,
    /// Between the beginnings of bursts, on average, in nanoseconds.
    gap_ns: u64,
}

/// Sums over a span, or the same per nanosecond.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    takes: f64,
    permits: f64,
    /// Squares of costs.
    squares: f64,
    /// Squares of bursts: a measure of the excess over the average that a span may ask for.
    burst_squares: f64,
}

impl Demand {
    pub(super) fn observe(&mut self, cost: u64, now_ns: u64, horizon_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns >= horizon_ns {
            self.fold(elapsed_ns as f64, horizon_ns as f64);
            self.since_ns = now_ns;
        }
        let gap_ns = now_ns.saturating_sub(self.burst_ns);
        if gap_ns > BURST_NS {
            if self.burst_ns > 0 {
                self.gap_ns = (self.gap_ns * 7 + gap_ns.min(LONGEST_GAP_NS)) / 8;
            }
            (self.burst, self.burst_ns) = (0.0, now_ns);
        }
        let cost = cost as f64;
        self.recent.takes += 1.0;
        self.recent.permits += cost;
        self.recent.squares += cost * cost;
        self.recent.burst_squares += cost * (cost + 2.0 * self.burst); // (burst + cost)² - burst²
        self.burst += cost;
    }

    /// Adds the recent sums to the averages, with the weight of their span beside the horizon's.
    fn fold(&mut self, elapsed: f64, horizon: f64) {
        let weight = elapsed / (elapsed + horizon);
        let average = &mut self.average;
        let recent = std::mem::take(&mut self.recent);
        for (average, recent) in [
            (&mut average.takes, recent.takes),
            (&mut average.permits, recent.permits),
            (&mut average.squares, recent.squares),
            (&mut average.burst_squares, recent.burst_squares),
        ] {
            *average += weight * (recent / elapsed - *average);
        }
    }

    /// Takes in a horizon: their average number, or the number that they certainly have by now.
    pub(super) fn takes(&self, horizon_ns: u64) -> f64 {
        let certain = self.recent.takes - 2.0 * self.recent.takes.sqrt();
        certain.max(self.average.takes * horizon_ns as f64)
    }

    /// Time between the beginnings of two bursts, on average.
    pub(super) const fn gap_ns(&self) -> u64 {
        self.gap_ns
    }

    /// The cost of the take that an average permit is part of: of takes that cost 1 and 99, nearly 99. At
    /// least 1.
    pub(super) fn typical_cost(&self) -> u64 {
        let of = if self.average.permits > 0.0 { self.average } else { self.recent };
        if of.permits > 0.0 { (of.squares / of.permits).ceil().max(1.0) as u64 } else { 1 }
    }

    /// Permits that `span_ns` will ask for, and a margin that is seldom exceeded.
    pub(super) fn covering(&self, span_ns: u64, horizon_ns: u64) -> u64 {
        // The permits asked for since the last averaging count as a horizon's worth already.
        let lately = |sum: f64| sum / horizon_ns as f64;
        let expected = self.average.permits.max(lately(self.recent.permits)) * span_ns as f64;
        let squares = self.average.burst_squares.max(lately(self.recent.burst_squares)) * span_ns as f64;
        (expected + DEVIATIONS * squares.sqrt()).ceil() as u64
    }
}
