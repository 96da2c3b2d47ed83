//! How much a node is asked for: what sizes a lease. Floats, since no decision rests on it; no clock.

/// How many deviations of the demand a lease covers: one in ten runs dry.
const DEVIATIONS: f64 = 1.28;

/// A running estimate of permits wanted a nanosecond, and of how unevenly.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Permits a nanosecond.
    rate: f64,
    /// Squares of costs a nanosecond: the variance that comes with them.
    energy: f64,
    since_ns: u64,
    sum: f64,
    squares: f64,
}

impl Demand {
    pub(super) fn observe(&mut self, cost: u64, now_ns: u64, horizon_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns >= horizon_ns {
            self.fold(elapsed_ns as f64, horizon_ns as f64);
            self.since_ns = now_ns;
        }
        let cost = cost as f64;
        self.sum += cost;
        self.squares += cost * cost;
    }

    /// What was counted since the last time goes into the averages, with the weight of its span beside the horizon's.
    fn fold(&mut self, elapsed: f64, horizon: f64) {
        let weight = elapsed / (elapsed + horizon);
        self.rate += weight * (self.sum / elapsed - self.rate);
        self.energy += weight * (self.squares / elapsed - self.energy);
        (self.sum, self.squares) = (0.0, 0.0);
    }

    /// Permits that `span_ns` will ask for; what was asked for since the last averaging counts as a span's worth already.
    pub(super) fn expected(&self, span_ns: u64, horizon_ns: u64) -> f64 {
        let lately = self.sum / horizon_ns as f64;
        self.rate.max(lately) * span_ns as f64
    }

    /// The same, and so much more that it is seldom passed.
    pub(super) fn covering(&self, span_ns: u64, horizon_ns: u64) -> u64 {
        let lately = self.squares / horizon_ns as f64;
        let spread = (self.energy.max(lately) * span_ns as f64).sqrt();
        (self.expected(span_ns, horizon_ns) + DEVIATIONS * spread).ceil() as u64
    }
}
