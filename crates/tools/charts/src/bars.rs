//! Bars that lie one below the other, each with its name and its number.

use std::fmt::Write as _;

use crate::chart::{Color, Unit};
use crate::escape::escaped;
use crate::scale::label;
use crate::style;
use crate::svg::WIDTH;

/// One bar of [`Bars`].
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Label to its left.
    pub name: String,
    /// Its length, from zero.
    pub value: f64,
    /// By its meaning.
    pub color: Color,
}

/// Bars, and a level that they are held against.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
    /// A level and its name.
    pub mark: Option<(f64, String)>,
}

const NAMES: f64 = 250.0;
const NUMBERS: f64 = 70.0;
const EACH: f64 = 26.0;
/// Most characters of a name.
const MOST: usize = 36;

/// The bars as an element of a page, which supplies the styles and the title.
#[must_use]
pub fn bars_svg(bars: &Bars) -> String {
    let height = height(bars);
    let title = escaped(&bars.title);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{title}</title>");
    draw(bars, &mut out);
    out.push_str("</svg>");
    out
}

/// The bars as a file of their own, with their title.
#[must_use]
pub fn bars_svg_file(bars: &Bars) -> String {
    const TITLE: f64 = 34.0;
    let height = height(bars) + TITLE + 8.0;
    let title = escaped(&bars.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" role=\"img\"><title>{title}</title><style>{}</style>\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" style=\"fill:var(--ground)\"/>\
         <text class=\"title\" x=\"16\" y=\"24\">{title}</text><g transform=\"translate(0 {TITLE})\">",
        style::CHART
    );
    draw(bars, &mut out);
    out.push_str("</g></svg>\n");
    out
}

fn height(bars: &Bars) -> f64 {
    EACH * bars.bars.len() as f64 + 28.0
}

fn draw(bars: &Bars, out: &mut String) {
    let height = height(bars);
    let marked = bars.mark.as_ref().map(|(level, _)| *level);
    let values = bars.bars.iter().map(|bar| bar.value).chain(marked).filter(|value| value.is_finite());
    let most = values.fold(0.0_f64, f64::max);
    let scale = (WIDTH - NAMES - NUMBERS) / if most > 0.0 { most } else { 1.0 };
    for (nth, bar) in bars.bars.iter().enumerate() {
        let y = EACH * nth as f64 + 22.0;
        let value = if bar.value.is_finite() { bar.value.max(0.0) } else { 0.0 };
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text><rect class=\"bar {}\" x=\"{NAMES}\" \
             y=\"{y:.1}\" width=\"{:.1}\" height=\"16\" rx=\"3\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 10.0,
            y + 12.5,
            escaped(&clipped(&bar.name)),
            bar.color.class(),
            value * scale,
            NAMES + value * scale + 8.0,
            y + 12.5,
            label(value, Unit::Number)
        );
    }
    if let Some((level, name)) = &bars.mark {
        let x = NAMES + level * scale;
        let _ = write!(
            out,
            "<path class=\"mark limit\" d=\"M{x:.1} 16V{height}\"/><text x=\"{x:.1}\" y=\"12\" \
             text-anchor=\"middle\">{}</text>",
            escaped(name)
        );
    }
}

fn clipped(name: &str) -> String {
    match name.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
