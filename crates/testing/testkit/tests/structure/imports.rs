//! Which file of a crate uses what another one defines.
//!
//! A name that a module passes on (`pub use child::Item`) counts as the file's that defines it, so that a
//! table of contents like `lib.rs` is no part of a circle. Code that a macro writes, and methods, are not
//! seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::Graph;
use crate::source::{Module, Modules};

/// From each file to the files whose items it names.
pub(crate) fn between(modules: &Modules) -> Graph {
    let read: BTreeMap<&str, FileNames> =
        modules.iter().map(|(path, module)| (path.as_str(), FileNames::new(path, module, modules))).collect();
    let mut graph = Graph::new();
    for (path, from) in &read {
        let targets = graph.entry(modules[*path].file.clone()).or_default();
        for used in &from.used {
            let target = home(used, &read, 0);
            if target != *path {
                targets.insert(modules[target].file.clone());
            }
        }
    }
    graph
}

/// A path from the root of the crate: segments, the last may be `*`.
type FullPath = Vec<String>;

/// Names that one file uses, passes on and defines.
struct FileNames {
    /// Paths that its code needs.
    used: BTreeSet<FullPath>,
    /// Names that others may import through it, with the path each comes from; `*` for all names of a module.
    passed_on: Vec<(String, FullPath)>,
    /// Names that it defines.
    defined: BTreeSet<String>,
}

impl FileNames {
    fn new(path: &str, module: &Module, modules: &Modules) -> Self {
        let tokens = &module.tokens;
        let mut used = BTreeSet::new();
        let mut imports = Vec::new();
        let mut passed_on = Vec::new();
        let mut body = Vec::new();
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                let end =
                    at + tokens[at..].iter().position(|token| token == ";").unwrap_or(tokens.len() - at);
                let is_public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
                for (leaf, name) in leaves(&tokens[at + 1..end]) {
                    let Some(full) = resolve(&leaf, path, modules) else { continue };
                    imports.push((full.clone(), name.clone(), is_public));
                    passed_on.push((name, full));
                }
                at = end;
            } else {
                body.push(tokens[at].as_str());
                at += 1;
            }
        }
        for (full, name, is_public) in imports {
            // A name that is only passed on is not used here.
            if !is_public || body.contains(&name.as_str()) {
                used.insert(full);
            }
        }
        used.extend(paths_in(&body).iter().filter_map(|leaf| resolve(leaf, path, modules)));
        Self { used, passed_on, defined: defined(&body) }
    }
}

/// The leaves of a `use` tree, each with the name that it gets here.
fn leaves(tokens: &[String]) -> Vec<(Vec<String>, String)> {
    let mut out = Vec::new();
    let mut prefix: Vec<String> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "::" => {}
            "{" => {
                let end = closing(&tokens[at..]) + at;
                for part in split(&tokens[at + 1..end]) {
                    for (tail, name) in leaves(part) {
                        let mut whole = prefix.clone();
                        whole.extend(tail.into_iter().filter(|segment| segment != "self"));
                        let name =
                            if name == "self" { prefix.last().cloned().unwrap_or_default() } else { name };
                        out.push((whole, name));
                    }
                }
                return out;
            }
            "as" => {
                let name = tokens.get(at + 1).cloned().unwrap_or_default();
                return vec![(prefix, name)];
            }
            segment => prefix.push(segment.to_owned()),
        }
        at += 1;
    }
    let name = prefix.last().cloned().unwrap_or_default();
    vec![(prefix, name)]
}

/// Where the brace that the tokens begin with is closed.
fn closing(tokens: &[String]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The parts between commas that stand outside of braces.
fn split(tokens: &[String]) -> Vec<&[String]> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut depth = 0_i32;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(&tokens[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tokens[begin..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Paths with at least two segments in code.
fn paths_in(body: &[&str]) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at + 2 < body.len() {
        let begins = body[at + 1] == "::" && is_name(body[at]) && (at == 0 || body[at - 1] != "::");
        if !begins {
            at += 1;
            continue;
        }
        let mut path = vec![body[at].to_owned()];
        while at + 2 < body.len() && body[at + 1] == "::" && is_name(body[at + 2]) {
            path.push(body[at + 2].to_owned());
            at += 2;
        }
        if path.len() > 1 {
            out.push(path);
        }
        at += 1;
    }
    out
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// A path as it is written in a module, from the root of the crate; `None` for a path outside of this crate.
fn resolve(written: &[String], module: &str, modules: &Modules) -> Option<FullPath> {
    let here: Vec<String> =
        module.split("::").filter(|segment| !segment.is_empty()).map(ToOwned::to_owned).collect();
    let first = written.first()?;
    let (mut full, rest) = match first.as_str() {
        "crate" => (Vec::new(), &written[1..]),
        "self" => (here, &written[1..]),
        "super" => {
            let ups = written.iter().take_while(|segment| *segment == "super").count();
            (here[..here.len().saturating_sub(ups)].to_vec(), &written[ups..])
        }
        child => {
            let mut path = here.clone();
            path.push(child.to_owned());
            if !modules.contains_key(&path.join("::")) {
                return None;
            }
            (here, written)
        }
    };
    full.extend(rest.iter().cloned());
    Some(full)
}

fn defined(body: &[&str]) -> BTreeSet<String> {
    const ITEMS: [&str; 9] = ["struct", "enum", "trait", "fn", "type", "const", "static", "union", "mod"];
    body.windows(2).filter(|pair| ITEMS.contains(&pair[0])).map(|pair| pair[1].to_owned()).collect()
}

/// The module that defines what the path names.
fn home<'m>(path: &[String], read: &BTreeMap<&'m str, FileNames>, depth: usize) -> &'m str {
    // As much of the path as is modules.
    let known = (0..=path.len())
        .rev()
        .find(|length| read.contains_key(path[..*length].join("::").as_str()))
        .unwrap_or(0);
    let (&module, file) =
        read.get_key_value(path[..known].join("::").as_str()).expect("the root is a module");
    let Some(item) = path.get(known) else { return module };
    if depth > 16 || item == "*" || file.defined.contains(item) {
        return module;
    }
    let through = |target: &FullPath, tail: &[String]| {
        let mut next = target.clone();
        next.extend(tail.iter().cloned());
        home(&next, read, depth + 1)
    };
    for (name, target) in &file.passed_on {
        if name == item {
            return through(target, &path[known + 1..]);
        }
    }
    for (name, target) in &file.passed_on {
        if name == "*" {
            let of = &target[..target.len() - 1];
            let module = home(of, read, depth + 1);
            if read[module].defined.contains(item) {
                return module;
            }
        }
    }
    module
}

#[test]
fn an_import_leads_to_the_file_that_defines_the_item() {
    let module = |file: &str, text: &str| {
        let mut spaced = text.replace("::", " :: ");
        for mark in [";", "{", "}", ",", "(", ")", "*"] {
            spaced = spaced.replace(mark, &format!(" {mark} "));
        }
        Module { file: file.to_owned(), tokens: spaced.split_whitespace().map(ToOwned::to_owned).collect() }
    };
    let of = |files: &[(&str, &str, &str)]| {
        let modules =
            files.iter().map(|(path, file, text)| ((*path).to_owned(), module(file, text))).collect();
        let graph = between(&modules);
        let edges = graph.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from}>{to}")));
        edges.collect::<Vec<_>>().join(" ")
    };
    let lib = ("", "lib.rs", "mod a; mod b; pub use a::{A, deep::*}; pub use b::B as Bee;");
    let cases = [
        ("use crate::A;", "b.rs>a.rs"),
        ("use crate::{Deep, a::{self, A}};", "b.rs>a.rs b.rs>a/deep.rs"),
        ("use super::a::deep; fn f() { deep::go() }", "b.rs>a/deep.rs"),
        ("fn f() { crate::a::deep::go() }", "b.rs>a/deep.rs"),
        ("use std::a::A; fn f() { a::deep::go() }", ""),
        ("use super::Bee;", ""),
        ("pub use crate::A;", ""),
        ("pub use crate::A; fn f(_: A) {}", "b.rs>a.rs"),
    ];
    for (text, want) in cases {
        let text = format!("{text} struct B;");
        let a = ("a", "a.rs", "mod deep; pub use deep::Deep; struct A;");
        let deep = ("a::deep", "a/deep.rs", "struct Deep; fn go() {}");
        assert_eq!(of(&[lib, a, deep, ("b", "b.rs", &text)]), want, "{text}");
    }
}
