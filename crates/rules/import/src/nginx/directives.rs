//! nginx's grammar: words, quotes, comments, blocks, and Lua in blocks of its own.
//!
//! Not here: what a directive means, and files that are included (`files`).

/// Most blocks within each other; nginx itself knows a handful.
const DEEPEST: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    /// Its name and its arguments; at least the name.
    pub(super) words: Vec<String>,
    /// The end of the directive: a semicolon or a block.
    pub(super) block: Block,
}

/// End of a directive: a semicolon, or a block in braces.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Nothing: a semicolon ends the directive.
    None,
    /// Directives, such as those of `http`.
    Directives(Vec<Directive>),
    /// Lua, as it is.
    Lua(String),
}

/// A text that nginx would not read either.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {what}")]
pub struct Unreadable {
    /// Line in the file, from 1.
    line: usize,
    what: &'static str,
}

/// All directives of `text`, in their order.
pub(super) fn directives(text: &str) -> Result<Vec<Directive>, Unreadable> {
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    // The directives of the text, and those of each open block with the directive that it belongs to.
    let mut done = Vec::new();
    let mut open = Vec::<(Directive, Vec<Directive>)>::new();
    let mut words = Vec::<String>::new();
    let mut line = 1;
    while let Some(c) = reader.peek() {
        let at = |what| Unreadable { line: reader.line, what };
        match c {
            _ if c.is_ascii_whitespace() => {
                reader.next();
            }
            '#' => reader.skip_line(),
            ';' if words.is_empty() => return Err(at("unexpected \";\"")),
            '{' if words.is_empty() => return Err(at("unexpected \"{\"")),
            '}' if !words.is_empty() => return Err(at("unexpected \"}\": a directive ends with \";\"")),
            '{' if open.len() == DEEPEST => return Err(at("too many blocks within each other")),
            ';' => {
                reader.next();
                done.push(Directive { line, words: std::mem::take(&mut words), block: Block::None });
            }
            '{' => {
                let is_lua = words.first().is_some_and(|word| word.ends_with("_by_lua_block"));
                let block = if is_lua { Block::Lua(reader.lua()?) } else { Block::None };
                let directive = Directive { line, words: std::mem::take(&mut words), block };
                if is_lua {
                    done.push(directive);
                } else {
                    reader.next();
                    open.push((directive, std::mem::take(&mut done)));
                }
            }
            '}' => {
                let Some((mut directive, before)) = open.pop() else { return Err(at("unexpected \"}\"")) };
                reader.next();
                directive.block = Block::Directives(std::mem::replace(&mut done, before));
                done.push(directive);
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
        return Err(Unreadable {
            line,
            what: "the directive that begins here ends neither with \";\" nor with a block",
        });
    }
    match open.pop() {
        Some((directive, _)) => Err(Unreadable { line: directive.line, what: OPEN_BLOCK }),
        None => Ok(done),
    }
}

const OPEN_BLOCK: &str = "the block that begins here does not end";
const OPEN_QUOTE: &str = "the quote that begins here does not end";

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    /// Skips `text` if it follows.
    fn skip(&mut self, text: &str) -> bool {
        let is_next = self.rest.starts_with(text);
        for _ in 0..if is_next { text.chars().count() } else { 0 } {
            self.next();
        }
        is_next
    }

    /// A word, which may be quoted. A brace in it belongs to a variable such as `${name}`, or closes nothing.
    fn word(&mut self) -> Result<String, Unreadable> {
        let mut word = String::new();
        if let Some(quote @ ('"' | '\'')) = self.peek() {
            let open = Unreadable { line: self.line, what: OPEN_QUOTE };
            self.next();
            loop {
                match self.next() {
                    None => return Err(open),
                    Some(c) if c == quote => return Ok(word),
                    Some('\\') => self.escaped(&mut word),
                    Some(c) => word.push(c),
                }
            }
        }
        while let Some(c) = self.peek() {
            if c.is_ascii_whitespace() || c == ';' || c == '{' && !word.ends_with('$') {
                break;
            }
            self.next();
            if c == '\\' { self.escaped(&mut word) } else { word.push(c) }
        }
        Ok(word)
    }

    /// Reads the character after a backslash as nginx does. Regular expressions keep their backslashes.
    fn escaped(&mut self, word: &mut String) {
        match self.next() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            other => {
                word.push('\\');
                word.extend(other);
            }
        }
    }

    /// Skips a block of Lua with its own quotes, comments and braces, and returns its text.
    fn lua(&mut self) -> Result<String, Unreadable> {
        let open = Unreadable { line: self.line, what: OPEN_BLOCK };
        let text = self.rest;
        let mut depth = 0_usize;
        while let Some(c) = self.next() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => return Ok(text[1..text.len() - self.rest.len() - 1].to_owned()),
                '}' => depth -= 1,
                '"' | '\'' => self.skip_lua_text(c),
                '-' if self.skip("-") && !self.skip_long_bracket() => self.skip_line(),
                '[' => {
                    self.skip_long_text();
                }
                _ => {}
            }
        }
        Err(open)
    }

    /// Skips a text that ends with `quote`, or with its line.
    fn skip_lua_text(&mut self, quote: char) {
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                _ if c == quote || c == '\n' => return,
                _ => {}
            }
        }
    }

    /// Skips `[[ … ]]` or `[=[ … ]=]`, if one follows.
    fn skip_long_bracket(&mut self) -> bool {
        let mut ahead = Reader { rest: self.rest, line: self.line };
        let is_next = ahead.skip("[") && ahead.skip_long_text();
        if is_next {
            *self = ahead;
        }
        is_next
    }

    /// As [`Self::skip_long_bracket`], behind its first bracket.
    fn skip_long_text(&mut self) -> bool {
        let level = self.rest.len() - self.rest.trim_start_matches('=').len();
        if !self.rest[level..].starts_with('[') {
            return false;
        }
        let end = format!("]{}]", "=".repeat(level));
        while !self.rest.is_empty() && !self.skip(&end) {
            self.next();
        }
        true
    }
}
