//! What each host was asked for and admitted, and what one exact bucket would have admitted of the same
//! arrivals.

use crate::plan::Plan;

/// Counts of the measured span, by host; and the arrivals, for the reference.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    span: (u64, u64),
    pub(crate) hosts: Vec<Host>,
    /// Instant, host and cost of every take of the run.
    arrivals: Vec<(u64, u32, u64)>,
    records: bool,
    /// Calls to the ledger in the measured span.
    pub(crate) calls: u64,
    /// Permits that hosts held when the measured span began, and when it ended.
    pub(crate) held: (u64, u64),
}

/// Counts of one host in the measured span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Host {
    pub(crate) takes: u64,
    /// Permits that were asked for, and that were admitted.
    pub(crate) asked: u64,
    pub(crate) admitted: u64,
    /// Takes that had no answer by their deadline.
    pub(crate) late: u64,
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
    }

    pub(crate) fn admitted(&mut self, host: usize, cost: u64, now: u64) {
        if self.is_measured(now) {
            self.hosts[host].admitted += cost;
        }
    }

    pub(crate) fn called(&mut self, now: u64) {
        self.calls += u64::from(self.is_measured(now));
    }

    pub(crate) fn late(&mut self, host: usize, now: u64) {
        if self.is_measured(now) {
            self.hosts[host].late += 1;
        }
    }

    /// What one bucket of `limit` would have admitted of the same arrivals in the measured span.
    pub(crate) fn exact(&self, plan: &Plan, limit: u64) -> u64 {
        let (permit, full) =
            (u128::from(plan.period_ns), u128::from(plan.burst) * u128::from(plan.period_ns));
        let (mut debt, mut at, mut admitted) = (0_u128, 0, 0);
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

    /// Each host's share by max-min fairness: what it asked for, or an equal part of what the others leave of
    /// `total`.
    pub(crate) fn fair(&self, total: u64) -> Vec<f64> {
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_by_key(|at| self.hosts[*at].asked);
        let (mut left, mut shares) = (total as f64, vec![0.0; self.hosts.len()]);
        for (nth, at) in order.iter().enumerate() {
            let share = (self.hosts[*at].asked as f64).min(left / (order.len() - nth) as f64);
            shares[*at] = share;
            left -= share;
        }
        shares
    }
}
