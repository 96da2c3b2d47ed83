//! How much a node is asked for: what sizes a lease. Floats, since no decision rests on it; no clock.

/// How many deviations of the demand a lease covers: one in ten runs dry.
const DEVIATIONS: f64 = 1.28;

/// Takes that come within so long of a first one come at once.
const AT_ONCE_NS: u64 = 1_000_000;
/// A longer gap says no more: by then what was held has been given back.
const LONGEST_GAP_NS: u64 = 4_000_000_000;

/// A running estimate of takes and permits per nanosecond, and of how unevenly they come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// Takes per nanosecond.
    takes: f64,
    /// Permits per nanosecond.
    rate: f64,
    /// Squares of costs per nanosecond: the variance that comes with them.
    energy: f64,
    /// Squares of what came at once, per nanosecond: how much more than the average a span may ask for.
    lumpiness: f64,
    since_ns: u64,
    count: f64,
    sum: f64,
    squares: f64,
    lumps: f64,
    /// What came at once with the last take, and when.
    lump: f64,
    lump_ns: u64,
    /// Between what came at once and what came next, on average, in nanoseconds.
    gap_ns: u64,
}

impl Demand {
    pub(super) fn observe(&mut self, cost: u64, now_ns: u64, horizon_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.since_ns);
        if elapsed_ns >= horizon_ns {
            self.fold(elapsed_ns as f64, horizon_ns as f64);
            self.since_ns = now_ns;
        }
        let cost = cost as f64;
        self.count += 1.0;
        self.sum += cost;
        self.squares += cost * cost;
        let gap_ns = now_ns.saturating_sub(self.lump_ns);
        if gap_ns > AT_ONCE_NS {
            if self.lump_ns > 0 {
                self.gap_ns = (self.gap_ns * 7 + gap_ns.min(LONGEST_GAP_NS)) / 8;
            }
            (self.lump, self.lump_ns) = (0.0, now_ns);
        }
        self.lumps += cost * (cost + 2.0 * self.lump);
        self.lump += cost;
    }

    /// What was counted since the last time goes into the averages, with the weight of its span beside the horizon's.
    fn fold(&mut self, elapsed: f64, horizon: f64) {
        let weight = elapsed / (elapsed + horizon);
        self.takes += weight * (self.count / elapsed - self.takes);
        self.rate += weight * (self.sum / elapsed - self.rate);
        self.energy += weight * (self.squares / elapsed - self.energy);
        self.lumpiness += weight * (self.lumps / elapsed - self.lumpiness);
        (self.count, self.sum, self.squares, self.lumps) = (0.0, 0.0, 0.0, 0.0);
    }

    /// Takes in a horizon: what they were on average, or what they surely are by now.
    pub(super) fn takes(&self, horizon_ns: u64) -> f64 {
        let surely = self.count - 2.0 * self.count.sqrt();
        surely.max(self.takes * horizon_ns as f64)
    }

    /// How long nobody asks, from one time to the next.
    pub(super) const fn gap_ns(&self) -> u64 {
        self.gap_ns
    }

    /// What a permit's take costs on average: of takes that cost 1 and 99, nearly 99. At least 1.
    pub(super) fn typical_cost(&self) -> u64 {
        let (squares, sum) =
            if self.rate > 0.0 { (self.energy, self.rate) } else { (self.squares, self.sum) };
        if sum > 0.0 { (squares / sum).ceil().max(1.0) as u64 } else { 1 }
    }

    /// Permits that `span_ns` will ask for; what was asked for since the last averaging counts as a span's worth already.
    pub(super) fn expected(&self, span_ns: u64, horizon_ns: u64) -> f64 {
        let lately = self.sum / horizon_ns as f64;
        self.rate.max(lately) * span_ns as f64
    }

    /// The same, and so much more that it is seldom passed.
    pub(super) fn covering(&self, span_ns: u64, horizon_ns: u64) -> u64 {
        let lately = self.lumps / horizon_ns as f64;
        let spread = (self.lumpiness.max(lately) * span_ns as f64).sqrt();
        (self.expected(span_ns, horizon_ns) + DEVIATIONS * spread).ceil() as u64
    }
}
