//! A chart as data.

/// Unit of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count or a share: `1.5 k`.
    Number,
    /// Seconds, shown as a duration: `5 min`.
    Seconds,
}

/// Label and unit of one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    pub label: String,
    /// Unit in which its numbers are shown.
    pub unit: Unit,
}

impl Axis {
    /// An axis of seconds.
    #[must_use]
    pub fn seconds(label: impl Into<String>) -> Self {
        Self { label: label.into(), unit: Unit::Seconds }
    }

    /// An axis of numbers.
    #[must_use]
    pub fn numbers(label: impl Into<String>) -> Self {
        Self { label: label.into(), unit: Unit::Number }
    }
}

/// The colour of a series, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// Requests that were offered.
    Offered,
    /// Requests that were admitted.
    Admitted,
    /// Requests that were denied.
    Denied,
    /// The second of two that are compared.
    Second,
    /// The third of three that are compared.
    Third,
    /// A limit that values are compared with.
    Limit,
}

impl Color {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Offered => "offered",
            Self::Admitted => "admitted",
            Self::Denied => "denied",
            Self::Second => "second",
            Self::Third => "third",
            Self::Limit => "limit",
        }
    }
}

/// Shape of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Straight lines from point to point.
    Line,
    /// Each value holds until the next point.
    Steps,
    /// As steps, filled down to zero.
    Area,
    /// A dot for each point.
    Dots,
}

/// Values along the x axis, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// By its meaning.
    pub color: Color,
    pub form: Form,
    /// (x, y); those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

/// A chart with two axes. Both begin at zero, or below where a value is negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The first is drawn first, beneath the others.
    pub series: Vec<Series>,
    /// Levels that are marked, with their names.
    pub marks: Vec<(f64, String)>,
}

/// The least and the greatest of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Chart {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.series.iter().flat_map(|series| series.points.iter().copied());
        all.filter(|(x, y)| x.is_finite() && y.is_finite())
    }

    pub(crate) fn x_range(&self) -> Range {
        range(self.points().map(|(x, _)| x))
    }

    pub(crate) fn y_range(&self) -> Range {
        let marks = self.marks.iter().map(|(level, _)| *level).filter(|level| level.is_finite());
        range(self.points().map(|(_, y)| y).chain(marks))
    }
}

fn range(values: impl Iterator<Item = f64>) -> Range {
    let Range { low, high } = values.fold(Range { low: 0.0, high: 0.0 }, |range, value| Range {
        low: range.low.min(value),
        high: range.high.max(value),
    });
    Range { low, high: if high > low { high } else { low + 1.0 } }
}
