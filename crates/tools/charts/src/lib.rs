//! Charts and pages of reports: as SVG, as text for a terminal, and as one HTML file that needs no network.
//!
//! A [`Chart`] is data. [`svg`] draws it, [`text`] draws it with characters, and a [`Page`] holds charts and
//! tables. Everything that comes from data is escaped. Not here: what is charted.

mod bars;
mod chart;
mod escape;
mod language;
mod page;
mod scale;
mod style;
mod svg;
mod text;

pub use bars::{Bar, Bars, bars_svg, bars_svg_file};
pub use chart::{Axis, Chart, Color, Form, Series, Unit};
pub use language::Language;
pub use page::{Page, Table};
pub use scale::label;
pub use svg::{svg, svg_file};
pub use text::{columns, text};
