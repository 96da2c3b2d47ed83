//! Errors whose message repeats the error that they return from `source()`.
//!
//! Reads what `thiserror` derives, and `impl Error` by hand if its `source` returns a field of `self`. A
//! message that names its source in any way is a fault, also where it shows only a part of it.

use std::fs;
use std::path::Path;

use crate::source::tokens_and_strings;

/// The result of reading files.
#[derive(Default)]
pub(crate) struct Found {
    /// Messages of errors.
    pub(crate) messages: usize,
    /// Those that have a source beside them, and errors written by hand that return one.
    pub(crate) sources: usize,
    /// Each with its file.
    pub(crate) faults: Vec<String>,
}

/// Reads every Rust file below `folder`.
pub(crate) fn read(folder: &Path, found: &mut Found) {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.is_dir() {
            if !path.ends_with("target") {
                read(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let tokens = tokens_and_strings(&text);
            let before = found.faults.len();
            derived(&tokens, found);
            by_hand(&tokens, found);
            for fault in &mut found.faults[before..] {
                *fault = format!("{}: {fault}", path.display());
            }
        }
    }
}

/// Errors with `#[error(…)]`.
fn derived(tokens: &[String], found: &mut Found) {
    for at in 0..tokens.len() {
        if !begins(&tokens[at..], &["#", "[", "error", "("]) {
            continue;
        }
        let (message, after) = in_brackets(&tokens[at + 3..]);
        found.messages += 1;
        let after = &after[1..]; // without the `]` of the attribute
        let (name, fields) = item(after);
        if name == "enum" {
            found.faults.push("give each variant a message of its own".to_owned());
        }
        let sources: Vec<&Field> = fields.iter().filter(|field| field.is_source).collect();
        found.sources += usize::from(!sources.is_empty());
        if message == ["transparent"] {
            continue;
        }
        for field in sources {
            if mentions(message, &field.name) {
                found.faults.push(format!("{name} has its source `{}` in {}", field.name, message.join(" ")));
            }
        }
    }
}

/// A field of a struct or a variant.
struct Field {
    /// Its name, or its number.
    name: String,
    /// Whether `thiserror` returns it from `source()`.
    is_source: bool,
}

/// The name and the fields of the struct or variant that begins here, behind some of its attributes.
fn item(mut tokens: &[String]) -> (String, Vec<Field>) {
    loop {
        tokens = match tokens {
            [hash, rest @ ..] if hash == "#" => in_brackets(rest).1,
            [word, rest @ ..] if word == "pub" || word == "struct" => rest,
            [bracket, ..] if bracket == "(" => in_brackets(tokens).1, // of `pub(crate)`
            _ => break,
        };
    }
    let [name, rest @ ..] = tokens else { return (String::new(), Vec::new()) };
    let generics = usize::from(rest.first().is_some_and(|it| it == "<"));
    let begin = if generics == 0 { Some(0) } else { rest.iter().position(|it| it == "{" || it == "(") };
    let rest = &rest[begin.unwrap_or(rest.len())..];
    match rest.first().map(String::as_str) {
        Some("{" | "(") => (name.clone(), fields(in_brackets(rest).0, rest[0] == "{")),
        _ => (name.clone(), Vec::new()),
    }
}

fn fields(tokens: &[String], are_named: bool) -> Vec<Field> {
    let mut out = Vec::new();
    for (number, mut field) in at_commas(tokens).into_iter().enumerate() {
        let mut is_source = false;
        while let [hash, rest @ ..] = field
            && hash == "#"
        {
            let (attribute, after) = in_brackets(rest);
            is_source |= attribute.first().is_some_and(|it| it == "source" || it == "from");
            field = after;
        }
        let colon = field.iter().position(|token| token == ":");
        let name = match colon.filter(|_| are_named) {
            Some(colon) => field[colon - 1].clone(),
            None => number.to_string(),
        };
        is_source |= name == "source";
        out.push(Field { name, is_source });
    }
    out
}

/// The parts between commas that stand in no bracket.
fn at_commas(tokens: &[String]) -> Vec<&[String]> {
    let mut depth = 0_usize;
    let mut follows_minus = false;
    let parts = tokens.split(|token| {
        match token.as_str() {
            "(" | "[" | "{" | "<" => depth += 1,
            ">" if follows_minus => {} // of `->`
            ")" | "]" | "}" | ">" => depth = depth.saturating_sub(1),
            _ => {}
        }
        follows_minus = token == "-";
        depth == 0 && token == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Whether a message, as `#[error(…)]` has it, shows the field: `{field}` in its text, or `.field` behind it.
/// A function that writes the message may show any field.
fn mentions(message: &[String], field: &str) -> bool {
    let is_field = |at: usize| {
        let is_own = at == 0 || !is_value(&message[at - 1]);
        is_own && message[at] == "." && message.get(at + 1).is_some_and(|it| it == field)
    };
    let is_function = begins(message, &["fmt", "="]);
    is_function || (0..message.len()).any(|at| shows(&message[at], field) || is_field(at))
}

/// Whether a `.` behind the token takes a part of a value.
fn is_value(token: &str) -> bool {
    token.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '"'))
}

/// Whether the token is a string with `{field}` or `{field:…}` in it.
fn shows(token: &str, field: &str) -> bool {
    let Some(text) = token.strip_prefix('"') else { return false };
    let text = text.replace("{{", "");
    let mut shown = text.split('{').skip(1);
    shown.any(|part| part.split(['}', ':']).next().is_some_and(|name| name.trim() == field))
}

/// Errors with `impl Error`.
fn by_hand(tokens: &[String], found: &mut Found) {
    for at in 0..tokens.len() {
        let Some((name, body)) = implementation(tokens, at, "Error") else { continue };
        let Some(source) = function(body, "source") else { continue };
        if source == ["None"] {
            continue;
        }
        found.sources += 1;
        let returned = source.windows(3).filter(|it| begins(it, &["self", "."])).map(|it| &it[2]);
        let returned: Vec<&String> = returned.collect();
        let shown = (0..tokens.len()).find_map(|at| {
            implementation(tokens, at, "Display").filter(|(of, _)| *of == name).map(|(_, body)| body)
        });
        match shown {
            Some(shown) if !returned.is_empty() => {
                for field in returned {
                    if shown.iter().any(|token| token == field || shows(token, field)) {
                        found.faults.push(format!("{name} has its source `{field}` in its message"));
                    }
                }
            }
            _ => found.faults.push(format!(
                "{name}: derive thiserror::Error, or return a field as `self.field` and write Display in this file"
            )),
        }
    }
}

/// The type and the body of the `impl` that has `of for` at `at`.
fn implementation<'t>(tokens: &'t [String], at: usize, of: &str) -> Option<(&'t str, &'t [String])> {
    let [trait_name, keyword, name, ..] = &tokens[at..] else { return None };
    if trait_name != of || keyword != "for" {
        return None;
    }
    let begin = at + tokens[at..].iter().position(|token| token == "{")?;
    Some((name, in_brackets(&tokens[begin..]).0))
}

/// The body of a function.
fn function<'t>(tokens: &'t [String], name: &str) -> Option<&'t [String]> {
    let at = tokens.windows(2).position(|it| begins(it, &["fn", name]))?;
    let begin = at + tokens[at..].iter().position(|token| token == "{")?;
    Some(in_brackets(&tokens[begin..]).0)
}

fn begins(tokens: &[String], with: &[&str]) -> bool {
    tokens.len() >= with.len() && tokens.iter().zip(with).all(|(token, with)| token == with)
}

/// The tokens within the bracket that begins here, and those behind it.
fn in_brackets(tokens: &[String]) -> (&[String], &[String]) {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return (&tokens[1..at], &tokens[at + 1..]),
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    (&[], &[])
}

#[test]
fn a_message_with_its_source_is_found_however_it_is_written() {
    let derived = |item: &str| format!("#[derive(Debug, thiserror::Error)] {item}");
    for (is_fault, text) in [
        (true, derived(r#"enum E { #[error("x: {source}")] A { source: io::Error } }"#)),
        (true, derived(r#"enum E { #[error("x: {source:?}")] A { name: String, source: io::Error } }"#)),
        (true, derived(r#"enum E { #[error("{0}")] A(#[from] io::Error) }"#)),
        (true, derived(r#"enum E { #[error("x: {1}")] A(HashMap<u8, u8>, #[source] io::Error), B }"#)),
        (
            true,
            derived(r#"enum E { #[error("{}: {}", .name, .cause)] A { name: String, #[source] cause: F } }"#),
        ),
        (true, derived(r#"enum E { #[error("{}", clip(&.0.to_string()))] A(#[from] F) }"#)),
        (true, derived(r#"enum E { #[error(fmt = written)] A(#[from] F) }"#)),
        (true, derived(r#"#[error("x: {cause}")] pub(crate) struct E { #[source] pub cause: F }"#)),
        (true, derived(r#"#[error("x: {0}")] #[non_exhaustive] pub struct E<T>(#[from] pub F<T>);"#)),
        (true, derived(r##"#[error(r#"x "{source}""#)] struct E { source: F }"##)),
        (true, derived(r#"#[error("{name}")] enum E { A { name: String } }"#)),
        (false, derived(r#"enum E { #[error("x {name}")] A { name: String, source: io::Error } }"#)),
        (false, derived(r#"enum E { #[error("x {{source}}")] A { source: io::Error } }"#)),
        (
            false,
            derived(r#"enum E { #[error(transparent)] A(#[from] io::Error), #[error("x {0}")] B(String) }"#),
        ),
        (false, derived(r#"enum E { #[error("x: {cause}; do y")] A { cause: io::Error } }"#)),
        (false, derived(r#"enum E { #[error("{}", .name.source)] A { name: Names, source: F } }"#)),
        (false, derived(r#"enum E { #[error("x")] A, #[error("y {0}")] B(fn(u8) -> u8, #[source] F) }"#)),
        (false, r#"// #[error("x: {source}")] A { source: io::Error }"#.to_owned()),
    ] {
        assert_eq!(faults(&text).len(), usize::from(is_fault), "{text}");
    }
}

#[test]
fn an_error_by_hand_is_read_too() {
    let written = |source: &str, display: &str| {
        format!(
            "impl std::error::Error for E {{ fn source(&self) -> Option<&(dyn Error + 'static)> {{ {source} }} }}
             impl fmt::Display for E {{ fn fmt(&self, f: &mut Formatter<'_>) -> Result {{ {display} }} }}"
        )
    };
    for (is_fault, source, display) in [
        (true, "Some(&self.cause)", r#"write!(f, "x: {}", self.cause)"#),
        (true, "Some(&self.cause)", r#"let Self { cause, .. } = self; write!(f, "x: {cause}")"#),
        (true, "match self { Self::A(cause) => Some(cause) }", r#"f.write_str("x")"#),
        (false, "Some(&self.cause)", r#"write!(f, "x {}", self.name)"#),
        (false, "None", r#"write!(f, "x: {}", self.cause)"#),
    ] {
        let text = written(source, display);
        assert_eq!(faults(&text).len(), usize::from(is_fault), "{text}");
    }
}

#[cfg(test)]
fn faults(text: &str) -> Vec<String> {
    let mut found = Found::default();
    let tokens = tokens_and_strings(text);
    derived(&tokens, &mut found);
    by_hand(&tokens, &mut found);
    found.faults
}
