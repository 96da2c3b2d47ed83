//! The patterns on which algorithms differ, and the chart that shows each difference.

use std::time::Duration;

use tollgate_charts::{Axis, Chart, Color, Form, Series};
use tollgate_core::{Algorithm, Align, LeakyForm, QuotaError, Refill, nanos};

use crate::runner::{Run, run, seconds};
use crate::texts::Texts;

/// A pattern of arrivals that shows a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// Twice the limit around the edge of a fixed window.
    Edge,
    /// A window of few and of many cells under a steady flood.
    Cells,
    /// A burst into a token bucket, and into a leaky bucket that queues.
    Burst,
    /// A rate that warms up, and cools down in a pause.
    WarmUp,
}

/// Result of a lesson.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) chart: Chart,
    pub(crate) runs: Vec<Run>,
}

const COLORS: [Color; 5] = [Color::Denied, Color::Admitted, Color::Second, Color::Third, Color::Limit];
/// Instants at which a line is drawn.
const INSTANTS: u64 = 720;

impl Lesson {
    pub(crate) const ALL: [Self; 4] = [Self::Edge, Self::Cells, Self::Burst, Self::WarmUp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Cells => "cells",
            Self::Burst => "burst",
            Self::WarmUp => "warm-up",
        }
    }

    /// Runs the lesson with a limit in a window.
    pub(crate) fn show(self, limit: u64, window: Duration, texts: &Texts) -> Result<Shown, QuotaError> {
        let window_ns = nanos(window);
        let (about, title) = match self {
            Self::Edge => (texts.edge_about, texts.edge),
            Self::Cells => (texts.cells_about, texts.cells),
            Self::Burst => (texts.burst_about, texts.burst),
            Self::WarmUp => (texts.warm_up_about, texts.warm_up),
        };
        let arrivals = self.arrivals(limit, window_ns);
        let algorithms = self.algorithms(window).into_iter();
        let runs = algorithms.map(|(name, algorithm)| run(name, algorithm, limit, window, &arrivals));
        let runs: Vec<Run> = runs.collect::<Result<_, _>>()?;
        let end_ns = self.windows() * window_ns;
        let series = runs.iter().zip(COLORS).map(|(run, color)| {
            let (form, points) = match self {
                Self::Edge | Self::Cells => {
                    let instants = (0..=INSTANTS).map(|nth| end_ns / INSTANTS * nth);
                    (Form::Steps, run.in_window(window_ns, instants))
                }
                Self::Burst => (Form::Steps, with_begin(run.cumulative(), end_ns)),
                Self::WarmUp => (Form::Line, run.rate(window_ns, end_ns)),
            };
            Series { name: run.name.clone(), color, form, points }
        });
        let series: Vec<Series> = series.collect();
        let rate = limit as f64 / window.as_secs_f64();
        let (y, mark) = match self {
            Self::Edge | Self::Cells => (texts.in_last_window, limit as f64),
            Self::Burst => (texts.left_so_far, limit as f64),
            Self::WarmUp => (texts.a_second, rate),
        };
        let marks = vec![(mark, texts.limit.to_owned())];
        let chart = Chart {
            title: title.to_owned(),
            x: Axis::seconds(texts.time),
            y: Axis::numbers(y),
            series,
            marks,
        };
        Ok(Shown { name: self.name(), about, chart, runs })
    }

    /// Length of the pattern, in windows.
    const fn windows(self) -> u64 {
        match self {
            Self::Edge => 3,
            Self::Cells => 12,
            Self::Burst => 5,
            Self::WarmUp => 40,
        }
    }

    fn arrivals(self, limit: u64, window_ns: u64) -> Vec<u64> {
        let even = |from_ns: u64, span_ns: u64, count: u64| {
            (0..count)
                .map(move |nth| from_ns + (u128::from(span_ns) * u128::from(nth) / u128::from(count)) as u64)
        };
        // The last hundredth of a window.
        let last = window_ns / 100;
        match self {
            Self::Edge => {
                let before = even(window_ns - last, last, limit);
                before.chain(even(window_ns, last, limit)).collect()
            }
            Self::Cells => even(0, self.windows() * window_ns, 3 * self.windows() * limit).collect(),
            Self::Burst => {
                // All at once, and later as much as the rate.
                let burst = std::iter::repeat_n(0, (2 * limit) as usize);
                burst.chain(even(2 * window_ns, 3 * window_ns, 3 * limit)).collect()
            }
            Self::WarmUp => {
                // Ten times the rate, a pause, and the same again.
                let demand = |from: u64| even(from * window_ns, 15 * window_ns, 150 * limit);
                demand(0).chain(demand(25)).collect()
            }
        }
    }

    fn algorithms(self, window: Duration) -> Vec<(String, Algorithm)> {
        let bucket =
            Algorithm::TokenBucket { burst: None, initial: None, overdraft: 0, refill: Refill::Continuous };
        let cells = |cells| (format!("sliding_window, cells: {cells}"), Algorithm::sliding_window(cells));
        let by_name = |algorithm: Algorithm| (algorithm.name().to_owned(), algorithm);
        match self {
            Self::Edge => vec![
                by_name(Algorithm::FixedWindow { align: Align::Calendar }),
                cells(10),
                by_name(Algorithm::SlidingWindowCounter),
                by_name(bucket),
            ],
            Self::Cells => {
                let log = by_name(Algorithm::SlidingWindowLog { log_denied: false });
                vec![cells(1), cells(2), cells(5), cells(20), log]
            }
            Self::Burst => {
                let queue =
                    Algorithm::LeakyBucket { capacity: None, form: LeakyForm::Queue { delay_after: 0 } };
                vec![by_name(bucket), ("leaky_bucket, form: queue".to_owned(), queue)]
            }
            Self::WarmUp => {
                let warm_up = window * 10;
                vec![by_name(bucket), by_name(Algorithm::WarmUp { warm_up, cold_factor: 3 })]
            }
        }
    }
}

/// From zero at the beginning to the end.
fn with_begin(mut points: Vec<(f64, f64)>, end_ns: u64) -> Vec<(f64, f64)> {
    points.insert(0, (0.0, 0.0));
    let last = points.last().map_or(0.0, |&(_, count)| count);
    points.push((seconds(end_ns), last));
    points
}
