//! A chart as SVG.

use std::fmt::Write as _;

use crate::chart::{Chart, Form, Range, Series};
use crate::escape::escaped;
use crate::scale::{label, ticks};
use crate::style;

pub(crate) const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;

/// Between lines of the legend.
const LEGEND_LINE: f64 = 20.0;

/// Where values are on the page.
struct Frame {
    x: Range,
    y: Range,
    top: f64,
    height: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x.low) / (self.x.high - self.x.low) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let bottom = self.height - BOTTOM;
        bottom - (value - self.y.low) / (self.y.high - self.y.low) * (bottom - self.top)
    }
}

/// The chart as an element of a page, which supplies the styles and the title.
#[must_use]
pub fn svg(chart: &Chart) -> String {
    let mut out = String::new();
    let title = escaped(&chart.title);
    let keys = Keys::of(chart);
    let height = HEIGHT + keys.more;
    let _ = write!(out, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{title}</title>");
    draw(chart, &keys, 0.0, &mut out);
    out.push_str("</svg>");
    out
}

/// The chart as a file of its own, with its title.
#[must_use]
pub fn svg_file(chart: &Chart) -> String {
    const TITLE: f64 = 26.0;
    let mut out = String::new();
    let title = escaped(&chart.title);
    let keys = Keys::of(chart);
    let height = HEIGHT + TITLE + keys.more;
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{title}</title><style>{}</style>\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" style=\"fill:var(--ground)\"/>\
         <text class=\"title\" x=\"{RIGHT}\" y=\"24\">{title}</text>",
        style::CHART
    );
    draw(chart, &keys, TITLE, &mut out);
    out.push_str("</svg>\n");
    out
}

fn draw(chart: &Chart, keys: &Keys, above: f64, out: &mut String) {
    let top = TOP + above + keys.more;
    let height = HEIGHT + above + keys.more;
    let frame = Frame { x: chart.x_range(), y: chart.y_range(), top, height };
    legend(chart, keys, above, out);
    axes(chart, &frame, out);
    for (level, name) in &chart.marks {
        let y = frame.y(*level);
        let right = WIDTH - RIGHT;
        let _ = write!(out, "<path class=\"mark limit\" d=\"M{LEFT} {y:.1}H{right}\"/>");
        let _ = write!(
            out,
            "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y - 5.0,
            escaped(name)
        );
    }
    for series in &chart.series {
        shape(series, &frame, out);
    }
}

/// Positions of the keys of all series: as many on a line as fit.
struct Keys {
    places: Vec<(f64, f64)>,
    /// Extra height of the chart for all lines but the first.
    more: f64,
}

impl Keys {
    fn of(chart: &Chart) -> Self {
        let mut x = LEFT;
        let mut y = 0.0;
        let place = |series: &Series| {
            let width = 17.0 + series.name.chars().map(wide).sum::<f64>();
            if x > LEFT && x + width > WIDTH - RIGHT {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            let place = (x, y);
            x += width + 21.0;
            place
        };
        let places = chart.series.iter().map(place).collect();
        Self { places, more: y }
    }
}

fn legend(chart: &Chart, keys: &Keys, above: f64, out: &mut String) {
    for (series, (x, down)) in chart.series.iter().zip(&keys.places) {
        let class = series.color.class();
        let name = escaped(&series.name);
        let y = above + 18.0 + down;
        let _ = write!(
            out,
            "<rect class=\"key {class}\" x=\"{x:.0}\" y=\"{:.0}\" width=\"12\" height=\"12\" rx=\"3\"/>\
             <text x=\"{:.0}\" y=\"{y:.0}\">{name}</text>",
            y - 10.0,
            x + 17.0
        );
    }
}

/// Approximate width of a character.
pub(crate) fn wide(character: char) -> f64 {
    if character.is_ascii() { 6.4 } else { 12.0 }
}

fn axes(chart: &Chart, frame: &Frame, out: &mut String) {
    let bottom = frame.height - BOTTOM;
    let right = WIDTH - RIGHT;
    for tick in ticks(frame.y, 5, chart.y.unit) {
        let y = frame.y(tick);
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {y:.1}H{right}\"/><text x=\"{:.0}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            label(tick, chart.y.unit)
        );
    }
    for tick in ticks(frame.x, 8, chart.x.unit) {
        let (x, text) = (frame.x(tick), label(tick, chart.x.unit));
        // The last one stays within the picture.
        let half = text.chars().map(wide).sum::<f64>() / 2.0;
        let _ = write!(
            out,
            "<path class=\"axis\" d=\"M{x:.1} {bottom}v5\"/><text x=\"{:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{text}</text>",
            x.min(WIDTH - half - 4.0),
            bottom + 19.0,
        );
    }
    let middle = (LEFT + right) / 2.0;
    let _ = write!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        frame.height - 8.0,
        escaped(&chart.x.label)
    );
    let x = 14.0;
    let y = f64::midpoint(frame.top, bottom);
    let _ = write!(
        out,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>",
        escaped(&chart.y.label)
    );
}

fn shape(series: &Series, frame: &Frame, out: &mut String) {
    let class = series.color.class();
    let finite = series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
    let at: Vec<(f64, f64)> = finite.map(|&(x, y)| (frame.x(x), frame.y(y))).collect();
    let (Some(first), Some(last)) = (at.first(), at.last()) else { return };
    if series.form == Form::Dots {
        for (x, y) in &at {
            let _ = write!(out, "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\"/>");
        }
        return;
    }
    let mut path = format!("M{:.1} {:.1}", first.0, first.1);
    for (x, y) in &at[1..] {
        let _ = match series.form {
            Form::Line => write!(path, "L{x:.1} {y:.1}"),
            _ => write!(path, "H{x:.1}V{y:.1}"),
        };
    }
    if series.form == Form::Area {
        let zero = frame.y(0.0);
        let _ = write!(
            out,
            "<path class=\"area {class}\" d=\"{path}L{:.1} {zero:.1}L{:.1} {zero:.1}Z\"/>",
            last.0, first.0
        );
    }
    let _ = write!(out, "<path class=\"line {class}\" d=\"{path}\"/>");
}
