//! The modules of a crate as its files hold them, with comments, strings and unit tests taken out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Each module of a crate by its path, `""` for the root.
pub(crate) type Modules = BTreeMap<String, Module>;

/// One file and its tokens.
pub(crate) struct Module {
    /// Below `src`, for people.
    pub(crate) file: String,
    /// Tokens: identifiers, `::`, and every other character by itself.
    pub(crate) tokens: Vec<String>,
}

/// Reads every file below `src`, except those of unit tests.
pub(crate) fn modules(src: &Path) -> Modules {
    let mut found = Modules::new();
    read(src, src, &mut found);
    let tests: Vec<String> = found.iter().flat_map(|(path, module)| tests_of(path, &module.tokens)).collect();
    found.retain(|path, _| !tests.iter().any(|test| path == test || path.starts_with(&format!("{test}::"))));
    for module in found.values_mut() {
        module.tokens = without_tests(&module.tokens);
    }
    found
}

fn read(folder: &Path, src: &Path, into: &mut Modules) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read(&path, src, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.strip_prefix(src).expect("a file below src").to_string_lossy().into_owned();
            let name = file.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
            let name = if matches!(name.as_str(), "lib" | "main") { String::new() } else { name };
            let text = fs::read_to_string(&path).expect("a source file");
            into.insert(name, Module { file, tokens: tokens(&without_comments_and_strings(&text)) });
        }
    }
}

/// The tokens of a text, with each string as one token that begins with its quote.
pub(crate) fn tokens_and_strings(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some((begin, hashes)) = raw_string(rest) {
            let end = raw_string_end(rest, begin, hashes);
            out.push(format!("\"{}", &rest[begin..end]));
            rest = &rest[end..];
        } else if c == '"' {
            let end = string_end(rest);
            out.push(rest[..end].to_owned());
            rest = &rest[end..];
        } else {
            let skipped = comment_end(rest).max(if c == '\'' { character_end(rest) } else { 0 });
            let length = if skipped > 0 { skipped } else { word_end(rest, c) };
            if skipped == 0 {
                out.extend(tokens(&rest[..length]));
            }
            rest = &rest[length..];
        }
    }
    out
}

/// Comments, strings and characters become spaces.
fn without_comments_and_strings(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") || rest.starts_with("/*") {
            comment_end(rest)
        } else if let Some((begin, hashes)) = raw_string(rest) {
            raw_string_end(rest, begin, hashes)
        } else if c == '"' {
            string_end(rest)
        } else if c == '\'' {
            character_end(rest)
        } else {
            0
        };
        if skipped > 0 {
            out.push(' ');
            rest = &rest[skipped..];
        } else {
            let word = word_end(rest, c);
            out.push_str(&rest[..word]);
            rest = &rest[word..];
        }
    }
    out
}

/// The end of a comment, or 0 where none begins.
fn comment_end(rest: &str) -> usize {
    if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        rest.find("*/").map_or(rest.len(), |end| end + 2)
    } else {
        0
    }
}

/// The end of an identifier as a whole, so that the `r` at its end begins no raw string, or of the character
/// `c`. `::` stays together.
fn word_end(rest: &str, c: char) -> usize {
    if rest.starts_with("::") {
        return 2;
    }
    rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()).max(c.len_utf8())
}

fn raw_string_end(rest: &str, begin: usize, hashes: usize) -> usize {
    let close = format!("\"{}", "#".repeat(hashes));
    rest[begin..].find(&close).map_or(rest.len(), |end| begin + end + close.len())
}

/// Where the text of a raw string begins, and how many `#` surround it.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let after = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some((rest.len() - after.len() + hashes + 1, hashes))
}

fn string_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The end of a character, or 0 where the quote begins a lifetime.
fn character_end(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => rest[3..].find('\'').map_or(0, |end| end + 4),
        Some(_) => chars.next().filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let length = if c.is_alphanumeric() || c == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            c.len_utf8()
        };
        out.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    out
}

/// `#[cfg(test)]` or `#[cfg(all(test, ...))]`: where the item that follows begins.
fn test_item(tokens: &[String]) -> Option<usize> {
    let head: Vec<&str> = tokens.iter().take(4).map(String::as_str).collect();
    if head != ["#", "[", "cfg", "("] {
        return None;
    }
    let end = tokens.iter().position(|token| token == "]")?;
    tokens[..end].iter().any(|token| token == "test").then_some(end + 1)
}

/// The modules that are declared as tests in a file of their own.
fn tests_of(path: &str, tokens: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let Some(item) = test_item(&tokens[at..]) else { continue };
        let declared = &tokens[at + item..];
        let declared = &declared[..item_length(declared)];
        if let [.., keyword, name, end] = declared
            && (keyword.as_str(), end.as_str()) == ("mod", ";")
        {
            found.push(if path.is_empty() { name.clone() } else { format!("{path}::{name}") });
        }
    }
    found
}

/// The tokens without items under `#[cfg(test)]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        match test_item(&tokens[at..]) {
            Some(item) => at += item + item_length(&tokens[at + item..]),
            None => {
                out.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    out
}

/// An item ends with a `;` or with the brace that closes its first one.
fn item_length(tokens: &[String]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" if depth <= 1 => return at + 1,
            "}" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[test]
fn a_string_is_one_token_and_a_comment_is_none() {
    let text = r####"a::b("x // \" y", r#"raw "z""#, 'c', '"') // "none"
        /* "nor here" */ fn f<'a>() {}"####;
    let want = [
        "a",
        "::",
        "b",
        "(",
        r#""x // \" y""#,
        ",",
        r###""raw "z""#"###,
        ",",
        ",",
        ")",
        "fn",
        "f",
        "<",
        "'",
        "a",
        ">",
        "(",
        ")",
        "{",
        "}",
    ];
    assert_eq!(tokens_and_strings(text), want);
}

#[test]
fn only_code_is_left_of_a_file() {
    let text = r####"use crate::a; // use crate::b
        /* use crate::c */ const S: &str = "use \" crate::d"; const R: &str = r#"use crate::"e"#; const C: char = '"';
        fn f<'a>(x: &'a str) { g::h('\'', b"x", br"y") } #[cfg(test)] mod tests { use crate::z; } use crate::i;"####;
    let tokens = without_tests(&tokens(&without_comments_and_strings(text)));
    let joined = tokens.join("");
    for gone in ["b", "c", "d", "e", "z"] {
        assert!(!joined.contains(&format!("crate::{gone}")), "{gone} in {joined}");
    }
    for kept in ["usecrate::a;", "usecrate::i;", "f<'a>(x:&'astr)", "g::h"] {
        assert!(joined.contains(kept), "{kept} not in {joined}");
    }
}
