//! nginx's grammar, as far as its directives need it: words, quotes, comments, blocks.
//!
//! Blocks are read through: a directive counts wherever it is. Not here: what a directive means.

use std::iter::Peekable;
use std::str::Chars;

/// One directive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    /// Its name and its arguments.
    pub(super) words: Vec<String>,
}

/// A text that nginx would not read either.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// A quote without an end.
    #[error("line {0}: the quote that begins here does not end")]
    OpenQuote(usize),
    /// A block of another language without an end.
    #[error("line {0}: the block that begins here does not end")]
    OpenBlock(usize),
}

/// All directives of `text`, in their order.
pub(super) fn directives(text: &str) -> Result<Vec<Directive>, Unreadable> {
    let mut reader = Reader { chars: text.chars().peekable(), line: 1 };
    let (mut directives, mut words, mut line) = (Vec::new(), Vec::new(), 1);
    while let Some(c) = reader.chars.peek().copied() {
        match c {
            _ if c.is_ascii_whitespace() => {
                reader.next();
            }
            '#' => reader.skip_line(),
            ';' | '{' | '}' => {
                let begins_at = reader.line;
                reader.next();
                // Lua has its own quotes and braces.
                let is_foreign = words.first().is_some_and(|word: &String| word.ends_with("_by_lua_block"));
                if !words.is_empty() {
                    directives.push(Directive { line, words: std::mem::take(&mut words) });
                }
                if c == '{' && is_foreign {
                    reader.skip_block(begins_at)?;
                }
            }
            _ => {
                if words.is_empty() {
                    line = reader.line;
                }
                words.push(reader.word()?);
            }
        }
    }
    if !words.is_empty() {
        directives.push(Directive { line, words });
    }
    Ok(directives)
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.chars.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    fn skip_block(&mut self, line: usize) -> Result<(), Unreadable> {
        let mut depth = 1;
        while depth > 0 {
            match self.next().ok_or(Unreadable::OpenBlock(line))? {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// A word, which may be quoted. A brace in it belongs to a variable such as `${name}`.
    fn word(&mut self) -> Result<String, Unreadable> {
        let mut word = String::new();
        if let Some(quote @ ('"' | '\'')) = self.chars.peek().copied() {
            let line = self.line;
            self.next();
            loop {
                match self.next().ok_or(Unreadable::OpenQuote(line))? {
                    c if c == quote => return Ok(word),
                    '\\' => word.push(self.next().ok_or(Unreadable::OpenQuote(line))?),
                    c => word.push(c),
                }
            }
        }
        let mut is_in_braces = false;
        while let Some(c) = self.chars.peek().copied() {
            match c {
                '{' if word.ends_with('$') => is_in_braces = true,
                '}' if is_in_braces => is_in_braces = false,
                ';' | '{' | '}' => break,
                _ if c.is_ascii_whitespace() => break,
                _ => {}
            }
            self.next();
            if c == '\\' {
                // An escaped character ends no word.
                word.extend(self.next());
            } else {
                word.push(c);
            }
        }
        Ok(word)
    }
}
