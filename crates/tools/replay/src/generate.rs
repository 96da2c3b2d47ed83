//! Traces made from a seed: the same seed and options make the same trace on every machine.

use std::f64::consts::TAU;
use std::io::{self, Write};

/// The arrival pattern of a generated trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// Independent arrivals at a steady rate.
    Poisson,
    /// Bursts of 1 to 100 requests of one client, as far apart as the rate needs.
    Bursts,
    /// Arrivals whose rate goes up and down once a day, from a tenth to twice the mean.
    Diurnal,
    /// Each client sends half of what it sends in a minute at the end of each minute, and half at the start
    /// of the next.
    Boundary,
    /// Steady arrivals, and 20 times as much in the third quarter of the time.
    Surge,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TracePlan {
    pub(crate) shape: Shape,
    pub(crate) requests: u64,
    /// Requests a second, on average without the surge.
    pub(crate) rate: f64,
    pub(crate) clients: u64,
    /// Exponent of Zipf's law: how uneven the clients are.
    pub(crate) alpha: f64,
    pub(crate) seed: u64,
}

/// Ranks by Zipf's law, by inverting the integral of x^-α and rejecting: no table.
struct Zipf {
    most: f64,
    alpha: f64,
    from: f64,
    to: f64,
}

impl Zipf {
    fn new(clients: u64, alpha: f64) -> Self {
        let most = clients.max(1) as f64;
        let mut zipf = Self { most, alpha, from: 0.0, to: 0.0 };
        (zipf.from, zipf.to) = (zipf.integral(1.5) - 1.0, zipf.integral(most + 0.5));
        zipf
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.alpha;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.alpha;
        if power.abs() < 1e-9 { y.exp() } else { (1.0 + y * power).max(f64::MIN_POSITIVE).powf(1.0 / power) }
    }

    /// From 1 to the number of clients.
    fn draw(&self, dice: &mut fastrand::Rng) -> u64 {
        loop {
            let y = self.to + dice.f64() * (self.from - self.to);
            let x = self.inverse(y);
            let rank = (x + 0.5).floor().clamp(1.0, self.most);
            if y >= self.integral(rank + 0.5) - rank.powf(-self.alpha) {
                return rank as u64;
            }
        }
    }
}

/// Writes the trace as CSV: `t_us,client`.
pub(crate) fn generate(plan: &TracePlan, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    let mut dice = fastrand::Rng::with_seed(plan.seed);
    let zipf = Zipf::new(plan.clients, plan.alpha);
    writeln!(out, "t_us,client")?;
    let mut at_s = 0.0_f64;
    let mut last_us = 0;
    let mut left = plan.requests;
    let whole_s = plan.requests as f64 / plan.rate / if plan.shape == Shape::Surge { 5.75 } else { 1.0 };
    while left > 0 {
        let (rate, count) = match plan.shape {
            Shape::Poisson => (plan.rate, 1),
            Shape::Surge if (0.5..0.75).contains(&(at_s / whole_s)) => (20.0 * plan.rate, 1),
            Shape::Surge => (plan.rate, 1),
            Shape::Diurnal => (plan.rate * (1.05 - 0.95 * (TAU * at_s / 86_400.0).cos()) / 1.05, 1),
            Shape::Bursts => {
                let count = dice.u64(1..=100);
                (plan.rate / 50.5, count)
            }
            Shape::Boundary => (0.0, 0),
        };
        if plan.shape == Shape::Boundary {
            left = boundary(plan, left, &mut out)?;
            continue;
        }
        at_s += -(1.0 - dice.f64()).ln() / rate;
        let client = zipf.draw(&mut dice);
        for step in 0..count.min(left) {
            last_us = last_us.max((at_s * 1e6) as u64 + step); // the burst before may last longer
            writeln!(out, "{last_us},c{client}")?;
        }
        left -= count.min(left);
    }
    out.flush()
}

/// Rows 9 and 38 of the acceptance list: around the end of each minute, half just before and half just after.
fn boundary(plan: &TracePlan, requests: u64, out: &mut impl Write) -> io::Result<u64> {
    let each = ((plan.rate * 30.0 / plan.clients.max(1) as f64) as u64).max(1);
    let mut left = requests;
    for minute in 1.. {
        for (begin_us, count) in [(minute * 60_000_000 - 500_000, each), (minute * 60_000_000, each)] {
            for step in 0..count {
                for client in 1..=plan.clients.max(1) {
                    if left == 0 {
                        return Ok(0);
                    }
                    left -= 1;
                    writeln!(out, "{},c{client}", begin_us + step * 499_999 / count)?;
                }
            }
        }
    }
    Ok(0)
}
