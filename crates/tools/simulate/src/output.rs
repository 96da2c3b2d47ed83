//! Where results go: text with charts of characters, JSON, SVG files, one HTML page.

use std::io::{self, Write};
use std::path::PathBuf;

use tollgate_charts::{Chart, Language, Page, Table, svg_file, text};

use crate::texts::Texts;

/// Columns of a chart in a terminal, and its rows for each series.
const WIDTH: usize = 72;
const HEIGHT: usize = 4;

/// Where to write.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Output {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write the charts and tables as one HTML file too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each chart as an SVG file into this folder too.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// Language of charts and of the page.
    #[arg(long, value_name = "LANG", default_value = "en")]
    pub(crate) lang: Language,
}

/// Result of one simulation.
#[derive(Clone)]
pub(crate) struct SimulationResult {
    pub(crate) title: String,
    pub(crate) about: String,
    /// Each with the name of its file, without an ending.
    pub(crate) charts: Vec<(String, Chart)>,
    pub(crate) table: Table,
    pub(crate) json: serde_json::Value,
}

impl Output {
    /// Writes everything that is wanted; the error says which file could not be written.
    pub(crate) fn write(
        &self,
        found: &[SimulationResult],
        out: &mut dyn Write,
    ) -> io::Result<Result<(), String>> {
        if let Some(path) = &self.html
            && let Err(error) = std::fs::write(path, page(found, self.lang))
        {
            return Ok(Err(format!("cannot write {}: {error}", path.display())));
        }
        if let Some(folder) = &self.svg {
            for (name, chart) in found.iter().flat_map(|found| &found.charts) {
                let path = folder.join(format!("{name}.svg"));
                let written =
                    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, svg_file(chart)));
                if let Err(error) = written {
                    return Ok(Err(format!("cannot write {}: {error}", path.display())));
                }
            }
        }
        if self.json {
            let all: Vec<_> = found.iter().map(|found| &found.json).collect();
            serde_json::to_writer_pretty(&mut *out, &all)?;
            writeln!(out)?;
            return Ok(Ok(()));
        }
        for (nth, found) in found.iter().enumerate() {
            if nth > 0 {
                writeln!(out)?;
            }
            writeln!(out, "{}\n{}\n", found.title, found.about)?;
            write_table(&found.table, out)?;
            for (_, chart) in &found.charts {
                writeln!(out, "\n{}", text(chart, WIDTH, HEIGHT).trim_end())?;
            }
        }
        Ok(Ok(()))
    }
}

fn page(found: &[SimulationResult], lang: Language) -> String {
    let texts = Texts::of(lang);
    let title = found.first().map_or("", |found| found.title.as_str());
    let title = if found.len() == 1 { title } else { "tollgate simulate" };
    let mut page = Page::new(lang.tag(), title);
    for found in found {
        page.heading(2, &found.title);
        page.text(&found.about);
        for (_, chart) in &found.charts {
            page.chart(chart, texts.numbers, &Table::default());
        }
        page.table(&found.table);
    }
    page.finish()
}

/// Columns side by side; names to the left, numbers to the right.
fn write_table(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let width = |column: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        let cells = cells.chain(table.columns.get(column));
        cells.map(|cell| columns_of(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    for row in std::iter::once(&table.columns).chain(&table.rows) {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = " ".repeat(width - columns_of(cell));
            line.push_str(&if at == 0 { format!("{cell}{gap}") } else { format!("  {gap}{cell}") });
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Columns that a terminal needs; Chinese characters take two.
fn columns_of(text: &str) -> usize {
    text.chars().map(|character| if character >= '\u{2e80}' { 2 } else { 1 }).sum()
}
