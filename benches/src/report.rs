//! A table of results: on the terminal as text, into a page as markdown.
//!
//! A page keeps each table between two marks, so that running a comparison again replaces its figures and
//! nothing else.

use std::fmt::Write as _;
use std::path::Path;

/// The middle of several runs, with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// The spread of at least one run.
    pub(crate) fn of(mut runs: Vec<f64>) -> Self {
        runs.sort_by(f64::total_cmp);
        let at = |index: usize| runs.get(index).copied().unwrap_or(f64::NAN);
        Self { median: at(runs.len() / 2), least: at(0), most: at(runs.len().saturating_sub(1)) }
    }

    /// `median (least–most)`, to three digits or so.
    pub(crate) fn cell(self) -> String {
        if !self.median.is_finite() {
            return figure(self.median);
        }
        format!("{} ({}–{})", figure(self.median), figure(self.least), figure(self.most))
    }
}

/// A number as a reader wants it: three digits or so, thousands set apart.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value.abs() < 10.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Rows under a heading, with the command that made them.
pub(crate) struct Table {
    /// Names the marks in a page: `in-process`, `memory`.
    pub(crate) name: &'static str,
    pub(crate) title: String,
    /// The command that reproduces these figures.
    pub(crate) command: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) notes: Vec<String>,
}

impl Table {
    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).chain(self.columns.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = format!("\n{}\n", self.title);
        for row in std::iter::once(&self.columns).chain(&self.rows) {
            for (cell, width) in row.iter().zip(&widths) {
                let _ = write!(text, "{cell:<width$}  ");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    /// For a page.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!("**{}**\n\n```sh\n{}\n```\n\n", self.title, self.command);
        let _ = writeln!(text, "| {} |", self.columns.join(" | "));
        let _ = writeln!(text, "|{}", " --- |".repeat(self.columns.len()));
        for row in &self.rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        for note in &self.notes {
            let _ = write!(text, "\n{}\n", wrapped(note));
        }
        text
    }

    /// Puts this table between its marks in the page at `path`, or at its end where there are none.
    pub(crate) fn write_into(&self, path: &Path) -> std::io::Result<()> {
        let page = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            page => page?,
        };
        std::fs::write(path, self.placed_in(&page))
    }

    fn placed_in(&self, page: &str) -> String {
        let open = format!("<!-- {} -->", self.name);
        let close = format!("<!-- end of {} -->", self.name);
        let block = format!("{open}\n{}{close}", self.markdown());
        match (page.find(&open), page.find(&close)) {
            (Some(from), Some(to)) if from < to => {
                format!("{}{block}{}", &page[..from], &page[to + close.len()..])
            }
            _ => format!("{page}\n{block}\n"),
        }
    }
}

/// The words of `text` in lines that fit a page.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 110;
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 {
            let fits = width + 1 + length <= WIDTH;
            lines.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_digits() {
        for (value, want) in [
            (0.4567, "0.46"),
            (45.67, "45.7"),
            (456.7, "457"),
            (4567.0, "4,567"),
            (6_580_000.0, "6,580,000"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(figure(value), want);
        }
    }

    #[test]
    fn the_median_of_an_odd_number_of_runs_is_one_of_them() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, least: 1.0, most: 3.0 });
    }

    #[test]
    fn a_second_run_replaces_only_its_own_table() {
        let mut table = Table {
            name: "memory",
            title: "Bytes".to_owned(),
            command: "run".to_owned(),
            columns: vec!["who".to_owned()],
            rows: vec![vec!["first".to_owned()]],
            notes: Vec::new(),
        };
        let page = table.placed_in("# Page\n") + "\nwords\n";
        table.rows = vec![vec!["second".to_owned()]];
        let page = table.placed_in(&page);
        assert!(page.starts_with("# Page\n") && page.ends_with("\nwords\n"), "{page}");
        assert!(page.contains("| second |") && !page.contains("| first |"), "{page}");
    }
}
