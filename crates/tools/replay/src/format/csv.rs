//! Columns, separated by commas, tabs or semicolons. A record is one line: a quoted field with a line break
//! in it is a broken line, so that one missing quote never swallows the rest of a log.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::row::{Names, Row};

/// The columns of a file, by the places that want them.
pub(crate) struct Columns {
    places: Vec<Vec<(usize, u8)>>,
    separator: u8,
    parser: Parser,
}

struct Parser {
    reader: Reader,
    line: Vec<u8>,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Columns {
    /// Columns with these names; `first` is the first line, heading or not. A name that is not wanted in its
    /// own case may be wanted in lower case.
    pub(crate) fn new(header: &[String], first: &str, names: &Names) -> Self {
        let places = header.iter().map(|name| match names.places(name) {
            [] => names.places(&name.to_lowercase()).to_vec(),
            places => places.to_vec(),
        });
        let separator = separator(first);
        Self { places: places.collect(), separator, parser: Parser::new(separator) }
    }

    /// The names in the first line of a file.
    pub(crate) fn header(line: &str) -> Result<Vec<String>, &'static str> {
        let mut parser = Parser::new(separator(line));
        let count = parser.split(line)?;
        (0..count).map(|column| parser.field(column).map(|name| name.trim().to_owned())).collect()
    }

    pub(crate) fn read(&mut self, line: &str, row: &mut Row) -> Result<(), &'static str> {
        if memchr::memchr(b'"', line.as_bytes()).is_none() {
            return self.read_plain(line, row);
        }
        let count = self.parser.split(line)?;
        if count < self.places.len() {
            return Err("fewer fields than columns");
        }
        if count > self.places.len() {
            return Err("more fields than columns");
        }
        for (column, places) in self.places.iter().enumerate() {
            if !places.is_empty() {
                row.set(places, self.parser.field(column)?);
            }
        }
        Ok(())
    }

    /// The usual line, without quotes: the same fields as by the parser. Only the wanted ones are copied.
    fn read_plain(&self, line: &str, row: &mut Row) -> Result<(), &'static str> {
        let mut columns = self.places.iter();
        let mut begin = 0;
        loop {
            let places = columns.next().ok_or("more fields than columns")?;
            // Fields are short: looking at one byte after another is faster than searching.
            let length = line.as_bytes()[begin..].iter().position(|&byte| byte == self.separator);
            let end = length.map_or(line.len(), |length| begin + length);
            if !places.is_empty() {
                row.set(places, &line[begin..end]);
            }
            if length.is_none() {
                break;
            }
            begin = end + 1;
        }
        if columns.next().is_some() { Err("fewer fields than columns") } else { Ok(()) }
    }
}

/// The separator of fields in this line, which is the first of a file.
fn separator(line: &str) -> u8 {
    [b',', b'\t', b';']
        .into_iter()
        .find(|byte| memchr::memchr(*byte, line.as_bytes()).is_some())
        .unwrap_or(b',')
}

impl Parser {
    fn new(separator: u8) -> Self {
        let reader = ReaderBuilder::new().delimiter(separator).build();
        Self { reader, line: Vec::new(), text: Vec::new(), ends: Vec::new() }
    }

    /// Splits a line; returns the number of its fields.
    fn split(&mut self, line: &str) -> Result<usize, &'static str> {
        self.reader.reset(); // an open quote of a line before is of that line
        // The end of the line ends the record, or shows that a quote is open.
        self.line.clear();
        self.line.extend_from_slice(line.as_bytes());
        self.line.push(b'\n');
        self.text.resize(self.line.len(), 0);
        self.ends.resize(self.line.len() + 1, 0);
        let (result, _, _, count) = self.reader.read_record(&self.line, &mut self.text, &mut self.ends);
        match result {
            ReadRecordResult::Record => Ok(count),
            _ => Err("a quote is not closed on its line"),
        }
    }

    fn field(&self, column: usize) -> Result<&str, &'static str> {
        let begin = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        std::str::from_utf8(&self.text[begin..self.ends[column]]).map_err(|_| "not UTF-8")
    }
}
