//! Statements number their values in the order in which they appear, so that a list of values reads as its
//! statement does. Rows are read by name: the database has no other way to read them.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, found)?;
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The literals of a source with their lines, as they are written there.
fn literals(source: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut begin = None;
    let mut is_escaped = false;
    for (at, byte) in source.bytes().enumerate() {
        match (byte, begin) {
            (b'"', None) if !is_escaped && !source[..at].ends_with('\'') => begin = Some(at + 1),
            (b'"', Some(from)) if !is_escaped => {
                found.push((source[..from].lines().count(), &source[from..at]));
                begin = None;
            }
            _ => {}
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    found
}

/// The numbers behind `$`, each at its first place.
fn numbers(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for part in text.split('$').skip(1) {
        let digits = part.len() - part.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        if let Ok(number) = part[..digits].parse()
            && !found.contains(&number)
        {
            found.push(number);
        }
    }
    found
}

#[test]
fn statements_number_their_values_in_order() -> Result<(), Box<dyn Error>> {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files)?;
    let mut seen = 0;
    let mut faults = Vec::new();
    for file in files {
        let source = fs::read_to_string(&file)?;
        for (line, text) in literals(&source) {
            let numbers = numbers(text);
            seen += numbers.len();
            if !numbers.is_sorted() {
                faults.push(format!("{}:{line}: {numbers:?}", file.display()));
            }
        }
    }
    assert!(seen > 250, "only {seen} values were found: this test does not read the statements any more");
    assert!(faults.is_empty(), "values out of order:\n{}", faults.join("\n"));
    Ok(())
}

#[test]
fn numbers_are_found_where_they_first_appear() {
    let source = r#"let a = "x = $2 AND \"y\" = $1 OR $2"; let b = '"'; let c = "$10, $11";"#;
    let found: Vec<_> = literals(source).into_iter().map(|(_, text)| numbers(text)).collect();
    assert_eq!(found, [vec![2, 1], vec![10, 11]]);
}
