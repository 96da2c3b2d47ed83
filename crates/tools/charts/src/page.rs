//! One HTML file with everything in it: no script, no font, no picture from elsewhere.

use std::fmt::Write as _;

use crate::bars::{Bars, bars_svg};
use crate::chart::Chart;
use crate::escape::escaped;
use crate::style;
use crate::svg::svg;

/// A table. Columns whose cells are all numbers are aligned to the right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// As many cells as columns.
    pub rows: Vec<Vec<String>>,
}

/// A page that grows from above.
#[derive(Clone, Debug)]
pub struct Page {
    head: String,
    body: String,
}

impl Page {
    /// An empty page in a language such as `en` or `zh-CN`.
    #[must_use]
    pub fn new(lang: &str, title: &str) -> Self {
        let lang = escaped(lang);
        let title = escaped(title);
        // A browser that follows this asks nothing of any network, whatever a report has in it.
        let head = format!(
            "<!doctype html>\n<html lang=\"{lang}\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"referrer\" content=\"no-referrer\">\n<title>{title}</title>\n\
             <style>{}{}</style>\n</head>\n",
            style::CHART,
            style::PAGE
        );
        Self { head, body: format!("<h1>{title}</h1>\n") }
    }

    /// A heading: 2 for a section, 3 for a part of it.
    pub fn heading(&mut self, level: u8, text: &str) {
        let level = level.clamp(2, 6);
        let _ = writeln!(self.body, "<h{level}>{}</h{level}>", escaped(text));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
    }

    /// Adds a paragraph in a softer colour.
    pub fn remark(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"soft\">{}</p>", escaped(text));
    }

    /// Adds a paragraph that stands out.
    pub fn warning(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"note\">{}</p>", escaped(text));
    }

    /// Numbers side by side, each with its name.
    pub fn figures(&mut self, figures: &[(&str, String)]) {
        self.body.push_str("<dl>");
        for (name, value) in figures {
            let _ = write!(self.body, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
        }
        self.body.push_str("</dl>\n");
    }

    /// A chart, and its numbers under `words`, which opens them.
    pub fn chart(&mut self, chart: &Chart, words: &str, numbers: &Table) {
        let drawn = svg(chart);
        self.figure(&chart.title, &drawn, Some((words, numbers)));
    }

    /// Adds a bar chart.
    pub fn bars(&mut self, bars: &Bars) {
        let drawn = bars_svg(bars);
        self.figure(&bars.title, &drawn, None);
    }

    fn figure(&mut self, title: &str, drawn: &str, under: Option<(&str, &Table)>) {
        let _ =
            write!(self.body, "<figure tabindex=\"0\"><figcaption>{}</figcaption>{drawn}", escaped(title));
        if let Some((words, numbers)) = under.filter(|(_, table)| !table.rows.is_empty()) {
            let _ = write!(self.body, "<details><summary>{}</summary>", escaped(words));
            self.table(numbers);
            self.body.push_str("</details>");
        }
        self.body.push_str("</figure>\n");
    }

    pub fn table(&mut self, table: &Table) {
        let is_number = |column: usize| {
            let mut cells = table.rows.iter().filter_map(|row| row.get(column));
            cells.all(|cell| cell.starts_with(|first: char| first.is_ascii_digit() || first == '-'))
        };
        let numbers: Vec<bool> = (0..table.columns.len()).map(is_number).collect();
        let class = |column: usize| match numbers.get(column) {
            Some(true) => " class=\"number\"",
            _ => "",
        };
        self.body.push_str("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
        for (column, name) in table.columns.iter().enumerate() {
            let _ = write!(self.body, "<th scope=\"col\"{}>{}</th>", class(column), escaped(name));
        }
        self.body.push_str("</tr></thead><tbody>");
        for row in &table.rows {
            self.body.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let _ = write!(self.body, "<td{}>{}</td>", class(column), escaped(cell));
            }
            self.body.push_str("</tr>");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Returns the HTML file.
    #[must_use]
    pub fn finish(self) -> String {
        format!("{}<body>\n<main>\n{}</main>\n</body>\n</html>\n", self.head, self.body)
    }
}
