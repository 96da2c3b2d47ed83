//! Windows of calls that become one sample. Reads no clock.

use std::time::Duration;

use tollgate_core::Timestamp;

use super::limit::{Sample, SettingError, expect};

/// Most latencies that a window with a percentile remembers; beyond, it remembers every second, fourth,
/// eighth …
const MOST_KEPT: usize = 1_024;

/// Gathers calls, so that a limit changes about once a second by many calls, instead of with each call.
///
/// A window is over with the first call that ends at least [`span`](Self::span) after it began and is at
/// least the [`min_samples`](Self::min_samples)th. It becomes one [`Sample`]: the average or a percentile of
/// the latencies, the most that were in flight, and whether any call failed for overload. Failures count, and
/// their latencies do not: calls that are shed are fast. Calls shorter than [`min_rtt`](Self::min_rtt) are
/// ignored, for the same reason.
///
/// | setting | default |
/// |---|---|
/// | [`span`](Self::span) | 1 s |
/// | [`min_samples`](Self::min_samples) | 10 |
/// | [`min_rtt`](Self::min_rtt) | 100 µs |
/// | [`percentile`](Self::percentile) | the average instead |
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tollgate::Timestamp;
/// use tollgate::adaptive::{Sample, Window};
///
/// let mut window = Window::default().min_samples(2);
/// let ms = Duration::from_millis;
/// let call = |rtt, in_flight| Sample { rtt: ms(rtt), in_flight, is_overload: false };
/// let second = Timestamp::from_unix_seconds;
/// assert_eq!(window.add(call(10, 3), second(7)), None);
/// assert_eq!(window.add(call(20, 5), second(8)), Some(call(15, 5)));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    span: Duration,
    min_samples: u32,
    min_rtt: Duration,
    percentile: Option<f64>,
    open: Option<OpenWindow>,
}

/// Samples of the window so far.
#[derive(Clone, Debug, PartialEq)]
struct OpenWindow {
    since: Timestamp,
    samples: u32,
    in_flight: u64,
    is_overload: bool,
    rtt_count: u32,
    rtt_sum: Duration,
    kept: Vec<Duration>,
    /// Every `stride`th latency is kept.
    stride: u32,
}

impl Default for Window {
    fn default() -> Self {
        let span = Duration::from_secs(1);
        let min_rtt = Duration::from_micros(100);
        Self { span, min_samples: 10, min_rtt, percentile: None, open: None }
    }
}

impl Window {
    /// Sets the shortest span of a window.
    #[must_use]
    pub const fn span(mut self, span: Duration) -> Self {
        self.span = span;
        self
    }

    /// Sets the fewest calls of a window; 1 or more.
    #[must_use]
    pub const fn min_samples(mut self, calls: u32) -> Self {
        self.min_samples = calls;
        self
    }

    /// Sets the shortest latency that counts: shorter calls are ignored.
    #[must_use]
    pub const fn min_rtt(mut self, rtt: Duration) -> Self {
        self.min_rtt = rtt;
        self
    }

    /// Uses the latency that this share of the calls do not exceed, such as 0.9, instead of the average.
    /// Above 0, up to 1.
    #[must_use]
    pub const fn percentile(mut self, share: f64) -> Self {
        self.percentile = Some(share);
        self
    }

    /// Adds a call that ended at `now`. Returns the sample of its window if that is over.
    pub fn add(&mut self, call: Sample, now: Timestamp) -> Option<Sample> {
        if !call.is_overload && call.rtt < self.min_rtt {
            return None;
        }
        let open = self.open.get_or_insert_with(|| OpenWindow::at(now));
        open.since = open.since.min(now); // a clock that went back would keep it open
        open.add(call, self.percentile.is_some());
        if open.samples < self.min_samples || now.since(open.since) < self.span {
            return None;
        }
        let open = self.open.take()?;
        let in_flight = open.in_flight;
        let is_overload = open.is_overload;
        Some(Sample { rtt: open.rtt(self.percentile), in_flight, is_overload })
    }

    /// Whether its settings make sense.
    ///
    /// # Errors
    /// [`SettingError`] names the setting, its value, and its bounds.
    pub fn check(&self) -> Result<(), SettingError> {
        expect(self.min_samples > 0, "min_samples", f64::from(self.min_samples), "1 or more")?;
        let share = self.percentile.unwrap_or(1.0);
        expect(share > 0.0 && share <= 1.0, "percentile", share, "above 0, up to 1")
    }
}

impl OpenWindow {
    const fn at(since: Timestamp) -> Self {
        let in_flight = 0;
        let rtt_sum = Duration::ZERO;
        let kept = Vec::new();
        Self { since, samples: 0, in_flight, is_overload: false, rtt_count: 0, rtt_sum, kept, stride: 1 }
    }

    fn add(&mut self, call: Sample, keeps: bool) {
        self.samples = self.samples.saturating_add(1);
        self.in_flight = self.in_flight.max(call.in_flight);
        self.is_overload |= call.is_overload;
        if call.is_overload || self.rtt_count == u32::MAX {
            return;
        }
        if keeps && self.rtt_count.is_multiple_of(self.stride) {
            if self.kept.len() == MOST_KEPT {
                let mut is_odd = true;
                self.kept.retain(|_| {
                    is_odd = !is_odd;
                    !is_odd
                });
                self.stride *= 2; // up to 2^22 at u32::MAX calls
            }
            if self.rtt_count.is_multiple_of(self.stride) {
                self.kept.push(call.rtt);
            }
        }
        self.rtt_count += 1;
        self.rtt_sum = self.rtt_sum.saturating_add(call.rtt);
    }

    /// The latency of the window; zero if all calls failed.
    fn rtt(mut self, percentile: Option<f64>) -> Duration {
        let Some(share) = percentile else {
            return self.rtt_sum.checked_div(self.rtt_count).unwrap_or_default();
        };
        self.kept.sort_unstable();
        let rank = (share * self.kept.len() as f64).ceil() as usize;
        self.kept.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}
