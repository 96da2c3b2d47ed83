//! Requests over time, in a bounded number of equal spans that grow with the trace.

use serde::Serialize;
use utoipa::ToSchema;

/// Spans of a timeline, at most.
const MOST: usize = 120;
const SECOND_NS: u64 = 1_000_000_000;

/// Requests in one span of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Span {
    pub offered: u64,
    /// Requests that the first set of rules denied.
    pub denied: u64,
    /// Requests that the second set of rules denied.
    pub denied_b: u64,
}

/// Requests over time.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Timeline {
    /// When the first span begins.
    pub begin_ns: u64,
    /// The length of each.
    pub span_ns: u64,
    /// One after another.
    pub spans: Vec<Span>,
}

impl Timeline {
    pub(crate) fn new(begin_ns: u64) -> Self {
        Self { begin_ns: begin_ns / SECOND_NS * SECOND_NS, span_ns: SECOND_NS, spans: Vec::new() }
    }

    /// A request; `now` never goes back.
    #[inline]
    pub(crate) fn add(&mut self, now: u64, is_denied: bool, is_denied_b: bool) {
        let mut place = (now.saturating_sub(self.begin_ns) / self.span_ns) as usize;
        while place >= MOST {
            self.span_ns = self.span_ns.saturating_mul(2);
            let sum = |pair: &[Span]| {
                pair.iter().fold(Span::default(), |sum, span| Span {
                    offered: sum.offered + span.offered,
                    denied: sum.denied + span.denied,
                    denied_b: sum.denied_b + span.denied_b,
                })
            };
            self.spans = self.spans.chunks(2).map(sum).collect();
            place = (now.saturating_sub(self.begin_ns) / self.span_ns) as usize;
        }
        if place >= self.spans.len() {
            self.spans.resize(place + 1, Span::default());
        }
        let span = &mut self.spans[place];
        span.offered += 1;
        span.denied += u64::from(is_denied);
        span.denied_b += u64::from(is_denied_b);
    }
}

/// One character for each value, as high as its share of the greatest.
pub(crate) fn bars(values: impl Iterator<Item = u64> + Clone) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.clone().max().unwrap_or(0).max(1);
    let bar = |value: u64| match value {
        0 => ' ',
        _ => BARS[((u128::from(value) * 8).div_ceil(u128::from(most)) as usize).clamp(1, 8) - 1],
    };
    values.map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_stays_small_and_loses_no_request() {
        let mut timeline = Timeline::new(5 * SECOND_NS);
        for second in 5..100_005 {
            timeline.add(second * SECOND_NS, second % 10 == 0, false);
        }
        assert!(timeline.spans.len() <= MOST && timeline.spans.len() > MOST / 3);
        assert_eq!(timeline.spans.iter().map(|span| span.offered).sum::<u64>(), 100_000);
        assert_eq!(timeline.spans.iter().map(|span| span.denied).sum::<u64>(), 10_000);
        timeline.add(u64::MAX, false, false);
        assert!(timeline.spans.len() <= MOST);
        assert_eq!(bars([0, 1, 50, 100].into_iter()), " ▁▄█");
    }
}
