//! The requests and admissions of each host, and the admissions of one exact bucket with the same arrivals.

use tollgate_exact::Line;

use crate::plan::Plan;

/// Counts of the measured span, by host; and the arrivals, for the reference.
#[derive(Clone, Debug, Default)]
pub struct Served {
    span: (u64, u64),
    /// Counts of each host, in the order of the plan.
    pub hosts: Vec<Host>,
    /// Instant, host and cost of every take of the run.
    arrivals: Vec<(u64, u32, u64)>,
    records: bool,
    /// Calls to the ledger in the measured span.
    pub calls: u64,
    /// Permits that hosts held when the measured span began, and when it ended.
    pub held: (u64, u64),
    /// Figures over time, where the plan asks for them.
    pub recording: Option<Recording>,
}

/// The counts of all hosts in one span of time, in permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Asked for by arrivals.
    pub asked: u64,
    /// Admitted by the store or a lease.
    pub admitted: u64,
    /// Admitted by a host's share of the quota.
    pub by_share: u64,
    /// Denied, by an answer or for lack of one.
    pub denied: u64,
    /// Calls to the store.
    pub calls: u64,
    /// Whole permits above burst + rate · t: the most of any interval that ends in this span.
    pub over: u64,
}

/// Figures over time, and the most by which all admissions were above one bucket.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Length of a span.
    pub every_ns: u64,
    /// From the beginning.
    pub moments: Vec<Moment>,
    limit: i128,
    period_ns: i128,
    burst: i128,
    admitted: i128,
    line: Line,
}

impl Recording {
    fn new(plan: &Plan) -> Self {
        Self {
            every_ns: plan.record_every_ns,
            limit: i128::from(plan.limit),
            period_ns: i128::from(plan.period_ns),
            burst: i128::from(plan.burst),
            ..Self::default()
        }
    }

    fn at(&mut self, now: u64) -> Option<&mut Moment> {
        const MOST: usize = 100_000;
        let place = (now / self.every_ns.max(1)) as usize;
        if place >= self.moments.len() && place < MOST {
            self.moments.resize(place + 1, Moment::default());
        }
        self.moments.get_mut(place)
    }

    fn admit(&mut self, cost: u64, now: u64) {
        let refilled = self.limit * i128::from(now);
        let before = self.admitted * self.period_ns - refilled;
        self.admitted += i128::from(cost);
        let above = self.line.step(before, self.admitted * self.period_ns - refilled, now);
        let over = (above - self.burst * self.period_ns).div_euclid(self.period_ns);
        if let Ok(over) = u64::try_from(over)
            && let Some(moment) = self.at(now)
        {
            moment.over = moment.over.max(over);
        }
    }

    /// The most permits that any interval admitted above burst + rate · t, on a true clock.
    #[must_use]
    pub fn over(&self) -> f64 {
        let over = self.line.highest() - self.burst * self.period_ns;
        if over > 0 { over as f64 / self.period_ns as f64 } else { 0.0 }
    }
}

/// Counts of one host in the measured span.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host {
    /// Takes that arrived.
    pub takes: u64,
    /// Permits that were asked for.
    pub asked: u64,
    /// Permits that were admitted.
    pub admitted: u64,
    /// Takes that had no answer by their deadline.
    pub late: u64,
}

impl Served {
    pub(crate) fn new(plan: &Plan) -> Self {
        let hosts = vec![Host::default(); plan.hosts];
        Self {
            span: plan.measured_ns,
            hosts,
            arrivals: Vec::new(),
            records: plan.is_fleet,
            calls: 0,
            held: (0, 0),
            recording: (plan.record_every_ns > 0).then(|| Recording::new(plan)),
        }
    }

    fn is_measured(&self, now: u64) -> bool {
        (self.span.0..self.span.1).contains(&now)
    }

    pub(crate) fn arrived(&mut self, host: usize, cost: u64, now: u64) {
        if self.records {
            self.arrivals.push((now, host as u32, cost));
        }
        if self.is_measured(now) {
            self.hosts[host].takes += 1;
            self.hosts[host].asked += cost;
        }
        self.record(now, |moment| moment.asked += cost);
    }

    fn record(&mut self, now: u64, note: impl FnOnce(&mut Moment)) {
        if let Some(moment) = self.recording.as_mut().and_then(|recording| recording.at(now)) {
            note(moment);
        }
    }

    /// Admitted by a host's share of the quota.
    pub(crate) fn by_share(&mut self, cost: u64, now: u64) {
        self.record(now, |moment| moment.by_share += cost);
        if let Some(recording) = &mut self.recording {
            recording.admit(cost, now);
        }
    }

    pub(crate) fn admitted(&mut self, host: usize, cost: u64, now: u64) {
        if self.is_measured(now) {
            self.hosts[host].admitted += cost;
        }
        self.record(now, |moment| moment.admitted += cost);
        if let Some(recording) = &mut self.recording {
            recording.admit(cost, now);
        }
    }

    pub(crate) fn denied(&mut self, cost: u64, now: u64) {
        self.record(now, |moment| moment.denied += cost);
    }

    pub(crate) fn called(&mut self, now: u64) {
        self.calls += u64::from(self.is_measured(now));
        self.record(now, |moment| moment.calls += 1);
    }

    pub(crate) fn late(&mut self, host: usize, now: u64) {
        if self.is_measured(now) {
            self.hosts[host].late += 1;
        }
    }

    /// Permits that one bucket of `limit` would have admitted of the same arrivals in the measured span.
    #[must_use]
    pub fn exact(&self, plan: &Plan, limit: u64) -> u64 {
        let permit = u128::from(plan.period_ns);
        let full = u128::from(plan.burst) * u128::from(plan.period_ns);
        let mut debt = 0_u128;
        let mut at = 0;
        let mut admitted = 0;
        let mut window = 0;
        for (now, _, cost) in &self.arrivals {
            let fits = if plan.is_window() {
                if now / plan.period_ns != window {
                    (window, debt) = (now / plan.period_ns, 0);
                }
                debt += u128::from(*cost) * permit; // denied hits count
                debt <= full
            } else {
                debt = debt.saturating_sub(u128::from(now - at) * u128::from(limit));
                at = *now;
                let fits = debt + u128::from(*cost) * permit <= full;
                debt += if fits { u128::from(*cost) * permit } else { 0 };
                fits
            };
            admitted += if fits && self.is_measured(*now) { *cost } else { 0 };
        }
        admitted
    }

    /// Each host's share by max-min fairness: its demand, or an equal part of the rest of `total` that the
    /// others leave.
    #[must_use]
    pub fn fair(&self, total: u64) -> Vec<f64> {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_by_key(|at| self.hosts[*at].asked);
        let mut left = total as f64;
        let mut shares = vec![0.0; self.hosts.len()];
        for (nth, at) in order.iter().enumerate() {
            let share = (self.hosts[*at].asked as f64).min(left / (order.len() - nth) as f64);
            shares[*at] = share;
            left -= share;
        }
        shares
    }
}
