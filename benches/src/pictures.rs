//! Tables as JSON lines and as bars.

use std::fs::{OpenOptions, create_dir_all, write};
use std::io::Write as _;
use std::path::Path;

use tollgate_charts::{Bar, Bars, Color, bars_svg_file};

use crate::machine;
use crate::report::Table;

/// Adds a table to a file, as one object on a line of its own.
pub(crate) fn add_json(table: &Table, file: &Path) -> anyhow::Result<()> {
    let row = |row: &Vec<String>| {
        let cells = table.columns.iter().zip(row);
        let cells = cells
            .map(|(name, cell)| (name.clone(), serde_json::json!({"text": cell, "figures": figures(cell)})));
        serde_json::Value::Object(cells.collect())
    };
    let object = serde_json::json!({
        "name": table.name,
        "title": table.title,
        "command": table.command,
        "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": table.notes,
        "machine": machine::table().rows,
    });
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{object}")?;
    Ok(())
}

/// Draws the first column of figures of a table, if it has one.
pub(crate) fn draw(table: &Table, folder: &Path) -> anyhow::Result<()> {
    let has_figures = |&column: &usize| {
        table.rows.iter().any(|row| row.get(column).is_some_and(|cell| !figures(cell).is_empty()))
    };
    let Some(column) = (1..table.columns.len()).find(has_figures) else { return Ok(()) };
    let bar = |row: &Vec<String>| {
        let value = row.get(column).and_then(|cell| figures(cell).first().copied())?;
        let name = row.first()?;
        let color = if name.contains("**") { Color::Admitted } else { Color::Offered };
        Some(Bar { name: name.replace("**", ""), value, color })
    };
    let bars: Vec<Bar> = table.rows.iter().filter_map(bar).collect();
    let heading = table.columns.get(column).map_or("", String::as_str);
    let title = format!("{}: {heading}", table.title);
    create_dir_all(folder)?;
    let picture = bars_svg_file(&Bars { title, bars, mark: None });
    write(folder.join(format!("{}.svg", table.name)), picture)?;
    Ok(())
}

/// The numbers of a cell, such as the median, the least and the most of `22.1 (21.9–22.7) ×0.71`, where it
/// begins with one.
fn figures(cell: &str) -> Vec<f64> {
    let cell = cell.replace(',', "");
    if !cell.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
        return Vec::new();
    }
    let words = cell.split(|part: char| !(part.is_ascii_digit() || part == '.' || part == '-'));
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            name: "speed",
            title: "Speed".to_owned(),
            command: "run".to_owned(),
            columns: ["who", "how", "ns"].map(str::to_owned).to_vec(),
            rows: vec![
                ["peer", "–", "1,031 (30.6–31.4)"].map(str::to_owned).to_vec(),
                ["**tollgate**", "well", "22.1 (21.9–22.7) ×0.71"].map(str::to_owned).to_vec(),
            ],
            notes: Vec::new(),
        }
    }

    #[test]
    fn cells_are_numbers_where_they_begin_with_one() {
        assert_eq!(figures("1,031 (30.6–31.4) ×0.71"), [1031.0, 30.6, 31.4, 0.71]);
        assert_eq!(figures("-0.05 (-0.05–0.81)"), [-0.05, -0.05, 0.81]);
        for cell in ["–", "", "kept", "x86_64"] {
            assert_eq!(figures(cell), [0.0; 0], "{cell}");
        }
    }

    #[test]
    fn a_table_becomes_a_line_of_json_and_a_picture() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("tables.json");
        add_json(&table(), &file).expect("written");
        add_json(&table(), &file).expect("written");
        let text = std::fs::read_to_string(&file).expect("read");
        assert_eq!(text.lines().count(), 2);
        let first: serde_json::Value =
            serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
        assert_eq!(first["rows"][1]["ns"]["figures"][0], 22.1);
        draw(&table(), folder.path()).expect("drawn");
        let picture = std::fs::read_to_string(folder.path().join("speed.svg")).expect("read");
        assert!(picture.contains("Speed: ns") && picture.contains("1.03 k"), "{picture}");
    }
}
