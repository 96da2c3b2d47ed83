//! Charts as SVG: paths in a box that the page stretches, with the labels as text beside it. Pure.

use tollgate_control::history::{Counts, History, Point};

use crate::texts::{Lang, grouped};

/// The box of a chart.
const WIDTH: i64 = 600;
const HEIGHT: i64 = 200;
/// So much of a step must have passed for a rate.
const LEAST_SPAN_MS: i64 = 30_000;
/// Most rows of the table below a chart.
const MOST_ROWS: usize = 30;

/// A chart with its table.
pub(crate) struct Chart {
    pub(crate) label: String,
    pub(crate) keys: Vec<LegendItem>,
    /// Areas first, so that lines are above them.
    pub(crate) paths: Vec<Path>,
    /// The highest first.
    pub(crate) ys: Vec<String>,
    pub(crate) xs: Vec<String>,
    /// Shown while the pointer is over them.
    pub(crate) spots: Vec<Spot>,
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<ChartRow>,
}

/// A place of the drawing that says its numbers.
pub(crate) struct Spot {
    pub(crate) left: i64,
    pub(crate) width: i64,
    pub(crate) text: String,
}

/// A curve in the legend.
pub(crate) struct LegendItem {
    pub(crate) class: &'static str,
    pub(crate) text: &'static str,
    /// The last value.
    pub(crate) value: String,
}

/// A path of the drawing.
pub(crate) struct Path {
    pub(crate) class: String,
    pub(crate) d: String,
}

/// A row of the table.
pub(crate) struct ChartRow {
    pub(crate) time: String,
    pub(crate) at_ms: i64,
    pub(crate) cells: Vec<String>,
}

/// The words of a chart.
pub(crate) struct Words {
    pub(crate) time: &'static str,
    pub(crate) admitted: &'static str,
    pub(crate) denied: &'static str,
    pub(crate) shadow: &'static str,
    pub(crate) degraded: &'static str,
    pub(crate) near: &'static str,
}

/// A curve: class, text, and the number that it counts.
type CountCurve = (&'static str, &'static str, fn(&Counts) -> i64);
/// A column of the table.
type Column = (&'static str, fn(&Counts) -> i64);

/// Decisions per second over time: admitted, denied and, if there are any, denied by shadow rules. `clock`
/// writes times.
pub(crate) fn per_second(
    history: &History,
    words: &Words,
    label: String,
    clock: impl Fn(i64) -> String,
) -> Chart {
    let mut curves: Vec<CountCurve> =
        vec![("", words.admitted, |it| it.admitted), ("bad", words.denied, |it| it.denied)];
    if history.points.iter().any(|it| it.counts.shadow_denied > 0) {
        curves.push(("warn", words.shadow, |it| it.shadow_denied));
    }
    let columns: [Column; 5] = [
        (words.admitted, |it| it.admitted),
        (words.denied, |it| it.denied),
        (words.shadow, |it| it.shadow_denied),
        (words.near, |it| it.near),
        (words.degraded, |it| it.degraded),
    ];
    counted(history, &curves, (words.time, &columns), label, clock)
}

/// Denials per second over time: those of the limit in force, and those of a trial beside it.
pub(crate) fn compared(history: &History, lang: Lang, label: String, clock: impl Fn(i64) -> String) -> Chart {
    let w = lang.traffic();
    let n = lang.trial();
    let curves: [CountCurve; 2] =
        [("bad", n.denied_in_force, |it| it.denied), ("warn", n.denied_in_trial, |it| it.trial_denied())];
    let columns: [Column; 4] = [
        (w.offered, |it| it.offered()),
        (n.denied_in_force, |it| it.denied),
        (n.denied_in_trial, |it| it.trial_denied()),
        (n.both, |it| it.both_denied),
    ];
    counted(history, &curves, (w.time, &columns), label, clock)
}

fn counted(
    history: &History,
    series: &[CountCurve],
    (time, columns): (&'static str, &[Column]),
    label: String,
    clock: impl Fn(i64) -> String,
) -> Chart {
    let points = drawable(history);
    let values = |of: fn(&Counts) -> i64| -> Vec<i64> {
        points.iter().map(|it| tenths(of(&it.counts), it.span_ms)).collect()
    };
    let curves: Vec<Curve> = series.iter().map(|(class, text, of)| (*class, *text, values(*of))).collect();
    let times: Vec<i64> = points.iter().map(|it| it.at_ms).collect();
    let head = std::iter::once(time).chain(columns.iter().map(|it| it.0)).collect();
    let rows = table_rows(history, columns, &clock);
    Chart { head, rows, ..drawn(label, &curves, &times, &clock) }
}

/// The points up to the last of which enough has passed for a rate: a step that has just begun is no fall.
pub(crate) fn drawable(history: &History) -> &[Point] {
    let is_known = |it: &Point| it.span_ms >= history.step_ms.min(LEAST_SPAN_MS);
    let last = history.points.iter().rposition(is_known).map_or(0, |at| at + 1);
    history.points.get(..last).unwrap_or_default()
}

/// A curve: class, text, and tenths per second.
pub(crate) type Curve = (&'static str, &'static str, Vec<i64>);

/// A chart without its table; the first curve has an area below it. `times` are those of the values.
pub(crate) fn drawn(label: String, curves: &[Curve], times: &[i64], clock: &impl Fn(i64) -> String) -> Chart {
    let top = nice(curves.iter().flat_map(|it| &it.2).copied().max().unwrap_or_default());
    let areas = curves.iter().take(1).map(|(class, _, values)| Path {
        class: format!("area {class}").trim_end().to_owned(),
        d: area(values, top, WIDTH, HEIGHT),
    });
    let lines = curves.iter().map(|(class, _, values)| Path {
        class: format!("line {class}"),
        d: line_of(values, top, WIDTH, HEIGHT),
    });
    let paths = areas.chain(lines).collect();
    let key = |(class, text, values): &Curve| {
        let value = values.last().map_or_else(String::new, |it| rate(*it));
        LegendItem { class, text, value }
    };
    let width = WIDTH / i64::try_from(times.len().max(1)).unwrap_or(WIDTH).min(WIDTH);
    let spot = |(index, at_ms): (usize, &i64)| {
        let value = |values: &[i64]| values.get(index).map_or_else(String::new, |it| rate(*it));
        let values = curves.iter().map(|(_, text, values)| format!("{text} {}", value(values)));
        let text: Vec<String> = std::iter::once(clock(*at_ms)).chain(values).collect();
        let middle = x(index, times.len(), WIDTH);
        let left = (middle - width / 2).clamp(0, WIDTH - width);
        Spot { left, width: width.max(1), text: text.join(" · ") }
    };
    let marks = [0, 1, 2, 3, 4].map(|it| it * times.len().saturating_sub(1) / 4);
    Chart {
        label,
        keys: curves.iter().map(key).collect(),
        paths,
        ys: [top, top / 2, 0].map(rate).to_vec(),
        xs: if times.is_empty() { Vec::new() } else { marks.map(|it| clock(times[it])).to_vec() },
        spots: times.iter().enumerate().map(spot).collect(),
        head: Vec::new(),
        rows: Vec::new(),
    }
}

/// The newest first, several points in one row if there are many.
fn table_rows(history: &History, columns: &[Column], clock: &impl Fn(i64) -> String) -> Vec<ChartRow> {
    let together = history.points.len().div_ceil(MOST_ROWS).max(1);
    let row = |points: &[Point]| {
        let mut sum = Counts::default();
        points.iter().for_each(|it| sum.add(it.counts));
        let cells = columns.iter().map(|(_, of)| grouped(of(&sum))).collect();
        let at_ms = points.first().map_or(0, |it| it.at_ms);
        ChartRow { time: clock(at_ms), at_ms, cells }
    };
    history.points.chunks(together).rev().map(row).collect()
}

/// A small curve without labels: the line, and the area below it.
pub(crate) fn spark(values: &[i64]) -> (String, String) {
    let top = values.iter().copied().max().unwrap_or_default().max(1);
    (line_of(values, top, 200, 36), area(values, top, 200, 36))
}

/// A count in a time as tenths per second.
pub(crate) fn tenths(count: i64, step_ms: i64) -> i64 {
    let rate = i128::from(count) * 10_000 / i128::from(step_ms.max(1));
    i64::try_from(rate).unwrap_or(i64::MAX)
}

/// Tenths per second as people read them: one decimal below a hundred.
pub(crate) fn rate(tenths: i64) -> String {
    if tenths >= 1_000 || tenths % 10 == 0 {
        return grouped((tenths + 5) / 10);
    }
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Hundredths of a percent as people read them.
pub(crate) fn percent(share: i64) -> String {
    format!("{}.{} %", share / 100, share % 100 / 10)
}

/// The least round number that is not below `most`, in tenths; at least one per second.
fn nice(most: i64) -> i64 {
    let mut unit = 10_i64;
    loop {
        for times in [1, 2, 5] {
            let round = unit.saturating_mul(times);
            if round >= most || unit >= i64::MAX / 10 {
                return round;
            }
        }
        unit *= 10;
    }
}

fn x(index: usize, count: usize, width: i64) -> i64 {
    let index = index as i64;
    let last = count.saturating_sub(1).max(1) as i64;
    index * width / last
}

fn y(value: i64, top: i64, height: i64) -> i64 {
    let up = i128::from(value.clamp(0, top)) * i128::from(height) / i128::from(top.max(1));
    height - up as i64
}

fn line_of(values: &[i64], top: i64, width: i64, height: i64) -> String {
    let place = |(index, value): (usize, &i64)| {
        format!("{} {}", x(index, values.len(), width), y(*value, top, height))
    };
    let places: Vec<String> = values.iter().enumerate().map(place).collect();
    if places.is_empty() { String::new() } else { format!("M{}", places.join(" ")) }
}

fn area(values: &[i64], top: i64, width: i64, height: i64) -> String {
    let line = line_of(values, top, width, height);
    if line.is_empty() { line } else { format!("{line}V{height}H0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        for (count, step_ms, text) in [
            (0, 10_000, "0"),
            (5, 10_000, "0.5"),
            (10, 10_000, "1"),
            (12_345, 10_000, "1,235"),
            (1, 60_000, "0"),
        ] {
            assert_eq!(rate(tenths(count, step_ms)), text, "{count} in {step_ms}");
        }
        assert_eq!(
            (percent(284), percent(10_000), percent(5)),
            ("2.8 %".into(), "100.0 %".into(), "0.0 %".into())
        );
        for (most, top) in [(0, 10), (10, 10), (11, 20), (201, 500), (5_001, 10_000)] {
            assert_eq!(nice(most), top);
        }
        assert!(nice(i64::MAX) > 0);
    }

    #[test]
    fn a_chart_has_a_curve_for_each_outcome_and_a_table_of_all_counts() {
        let counts = |admitted, denied| Counts { admitted, denied, ..Counts::default() };
        let points = (0..90).map(|index| Point {
            at_ms: index * 10_000,
            span_ms: 10_000,
            counts: counts(100, index % 2),
        });
        let history = History { step_ms: 10_000, points: points.collect() };
        let words = Words { time: "t", admitted: "a", denied: "d", shadow: "s", degraded: "x", near: "n" };
        let chart = per_second(&history, &words, "l".to_owned(), |at| at.to_string());
        assert_eq!((chart.paths.len(), chart.keys.len(), chart.spots.len()), (3, 2, 90));
        assert_eq!(chart.ys, ["10", "5", "0"]);
        assert!(chart.paths[0].d.starts_with("M0 0 6 0 ") && chart.paths[0].d.ends_with("V200H0"));
        assert_eq!(chart.rows.len(), 30);
        let sum = |column: usize| -> i64 {
            chart.rows.iter().map(|it| it.cells[column].parse::<i64>().expect("a number")).sum()
        };
        assert_eq!((sum(0), sum(1)), (9_000, 45));
        let empty = per_second(&History::default(), &words, String::new(), |at| at.to_string());
        assert!(empty.rows.is_empty() && empty.xs.is_empty());
    }

    #[test]
    fn a_curve_ends_at_the_last_step_of_which_enough_has_passed_at_its_rate() {
        let admitted = |admitted| Counts { admitted, ..Counts::default() };
        for (span_ms, last) in [(29_999, "10"), (30_000, "10"), (450_000, "10"), (900_000, "10")] {
            let point = |at_ms, span_ms: i64| Point { at_ms, span_ms, counts: admitted(span_ms / 100) };
            let points = vec![point(0, 900_000), point(900_000, 900_000), point(1_800_000, span_ms)];
            let history = History { step_ms: 900_000, points };
            let words =
                Words { time: "t", admitted: "a", denied: "d", shadow: "s", degraded: "x", near: "n" };
            let chart = per_second(&history, &words, "l".to_owned(), |at| at.to_string());
            assert_eq!(chart.keys[0].value, last, "{span_ms}");
            assert_eq!(chart.spots.len(), if span_ms < 30_000 { 2 } else { 3 }, "{span_ms}");
            assert_eq!(chart.rows.len(), 3, "counts are all in the table");
        }
    }
}
