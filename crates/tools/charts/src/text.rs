//! Charts of characters.

use crate::chart::{Chart, Form, Range};
use crate::scale::label;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Each series of the chart below the other, all on one scale, `width` characters wide and `height` high.
#[must_use]
pub fn text(chart: &Chart, width: usize, height: usize) -> String {
    let x = chart.x_range();
    let y = chart.y_range();
    let mut out = format!("{}\n", chart.title);
    for series in &chart.series {
        let values = sampled(&series.points, series.form, x, width);
        out.push_str(&format!("\n{}\n{}", series.name, columns(&values, y.high, height)));
    }
    let from = label(x.low, chart.x.unit);
    let to = label(x.high, chart.x.unit);
    let gap = width.saturating_sub(from.chars().count() + to.chars().count());
    out.push_str(&format!("{:9}{from}{:gap$}{to}  {}\n", "", "", chart.x.label));
    out
}

/// One value for each column: the greatest of what falls into it, or what holds there.
fn sampled(points: &[(f64, f64)], form: Form, x: Range, width: usize) -> Vec<f64> {
    let mut values = vec![f64::NAN; width];
    let place = |at: f64| (((at - x.low) / (x.high - x.low) * width as f64) as usize).min(width - 1);
    for &(at, value) in points.iter().filter(|(at, value)| at.is_finite() && value.is_finite()) {
        if let Some(kept) = values.get_mut(place(at)) {
            *kept = kept.max(value);
        }
    }
    let mut last = f64::NAN;
    for value in &mut values {
        if !value.is_nan() {
            last = *value;
        } else if form != Form::Dots {
            *value = last;
        }
    }
    values
}

/// Columns of blocks, with the greatest value and zero at the left.
#[must_use]
pub fn columns(values: &[f64], most: f64, height: usize) -> String {
    let height = height.max(1);
    let eighths = |value: f64| {
        let share = if most > 0.0 && value > 0.0 { (value / most).min(1.0) } else { 0.0 };
        (share * height as f64 * 8.0).ceil() as usize
    };
    let mut out = String::new();
    for row in (0..height).rev() {
        let side = match row {
            _ if row + 1 == height => label(most, crate::Unit::Number),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        out.push_str(&format!("{side:>8}|"));
        let line: String = values
            .iter()
            .map(|value| match eighths(*value).saturating_sub(row * 8) {
                0 => ' ',
                more => BLOCKS[more.min(8) - 1],
            })
            .collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
