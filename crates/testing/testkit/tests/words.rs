//! Style of the project's text: comment lines fit the screen, and phrases that a reader has to translate are
//! not used.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The widest comment and line of prose, in columns.
const WIDTH: usize = 110;

/// Each phrase as a regular expression, and what to write in its place.
const BANNED: &[(&str, &str)] = &[
    (r"\b(is|are|was|were|be|been|being|gets?) told\b", "report, return, print, log, warn"),
    (r"\btold (apart|with|of|by|in|at|that|when|what|how|so)\b", "report, return, print, log, warn"),
    (
        r"\b(it|that|which|and|answer|log|line|metric|field|error|fields) tells?\b",
        "say, show, report, return",
    ),
    (
        r"\btells? (it|that|what|how|whether|when|which|why|who|them|people|apart|so)\b",
        "say, show, report, return",
    ),
    (r"\bso many\b", "name the number"),
    (r"\b(is|are) none\b", "there is no X; is not a valid X"),
    (r"\b(goes|went|going) on (with|as|without|and|until|while|by|from)\b", "continue"),
    (r"\bgoes on[.,;:)]", "continue"),
    (r"\bstops? to\b", "stop doing"),
    (r"\bunder way\b", "in flight, in progress"),
    (r"\bbut for\b", "except"),
    (r"\brefus(e|es|ed|ing|al|als)\b", "deny (a limit), reject (bad input), fail (a store)"),
    (r"\bnobody (else )?(is|has|asks|reads|keeps|waits|hears|told|knows|needs)\b", "name the thing"),
    (r"\b(hears|heard) (of|from|it|0|that|nothing|how|what)\b", "receive, get"),
    (
        r"\b[Ww]ho (is|has|was|asks|waits|reads|does|wants|can|comes|needs|holds) ",
        "name it: a client, a caller, a node",
    ),
    (
        r#"\bis no (such |valid |good )?"?(address|number|span|unit|duration|time|rule|URL|port|option|setting|header|name|file|key|domain|setting's|share|size)\b"#,
        "invalid X; unknown X",
    ),
];

/// Uses of those words that are the field's own, and the value of a metric's label.
const ALLOWED: &str = r"(?i)(connection|connections|connect|login)( was| is| were)? refused|refused (the )?connection|ECONNREFUSED|ConnectionRefused|REFUSED_STREAM|(a|the|those|caller|client|clients|callers|node|nodes|person|people|user|users|anyone|everyone|operator|operators|someone|one|thread|process),? who |there (is|are) (no|none)\b|so many(_|::)|[\x60\x22]refused[\x60\x22]";

/// Faults that are left by crate or page: too wide lines, and banned phrases. These numbers only fall.
const LEFT: &[(&str, usize, usize)] = &[];

#[test]
fn comments_and_prose_fit_the_width() {
    let left = LEFT.iter().map(|(area, wide, _)| (*area, *wide));
    assert_no_more_than(
        left,
        &faults(|line| line.is_text && line.text.chars().count() > WIDTH, |_| String::new()),
    );
}

#[test]
fn no_banned_phrase_is_used() {
    let banned: Vec<(Regex, &str)> =
        BANNED.iter().map(|(phrase, instead)| (Regex::new(phrase).expect("a phrase"), *instead)).collect();
    let allowed = Regex::new(ALLOWED).expect("the exceptions");
    let found = |line: &SourceLine| {
        let text = allowed.replace_all(line.text, "");
        banned
            .iter()
            .find_map(|(phrase, instead)| phrase.find(&text).map(|m| format!("{:?}: {instead}", m.as_str())))
    };
    let left = LEFT.iter().map(|(area, _, phrases)| (*area, *phrases));
    assert_no_more_than(left, &faults(|line| found(line).is_some(), |line| found(line).unwrap_or_default()));
}

#[test]
fn a_phrase_is_found_where_it_is_meant_and_only_there() {
    for (phrase, _) in BANNED {
        Regex::new(phrase).expect("a phrase");
    }
    let banned = |text: &str| {
        let text = Regex::new(ALLOWED).expect("the exceptions").replace_all(text, "").into_owned();
        BANNED.iter().any(|(phrase, _)| Regex::new(phrase).expect("a phrase").is_match(&text))
    };
    for text in [
        "the caller is told so",
        "one in so many counts",
        "the entry api_key is none",
        "it goes on as before",
        "calls under way finish",
        "none but for denials",
        "the store refused it",
        "Who is denied waits",
        "\"8081\" is no address",
    ] {
        assert!(banned(text), "{text}");
    }
    for text in [
        "connection refused",
        "a client who is denied waits",
        "there is no address",
        "zero where there is none",
        "it is no longer valid",
        "told_and_refused()",
        "stopped",
    ] {
        assert!(!banned(text), "{text}");
    }
}

/// A line of a source file or of a page.
struct SourceLine<'t> {
    text: &'t str,
    /// A comment, or prose of a page; not code, and no table.
    is_text: bool,
}

/// For each crate or page, each place of a fault with a note.
type Faults = BTreeMap<String, Vec<String>>;

fn faults(is_fault: impl Fn(&SourceLine) -> bool, note: impl Fn(&SourceLine) -> String) -> Faults {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut found = Faults::new();
    for path in texts(&root) {
        let text = fs::read_to_string(&path).expect("a text");
        let name = path.strip_prefix(&root).expect("a path of the project").display().to_string();
        let is_code = name.ends_with(".rs");
        let mut is_fenced = false;
        for (number, text) in text.lines().enumerate() {
            let start = text.trim_start();
            is_fenced ^= !is_code && start.starts_with("```");
            let is_text = if is_code {
                start.starts_with("//") || text.contains(" // ")
            } else {
                !is_fenced && !start.starts_with('|') && text.trim_end().contains(' ')
            };
            let line = SourceLine { text, is_text };
            if is_fault(&line) {
                let place = format!("{name}:{}: {}", number + 1, note(&line));
                found.entry(area(&name)).or_default().push(place);
            }
        }
    }
    found
}

/// The crate's folder of a source file; a page's own path.
fn area(name: &str) -> String {
    match name.split_once("/src/") {
        Some((folder, _)) if name.starts_with("crates/") => folder.to_owned(),
        _ => name.to_owned(),
    }
}

fn assert_no_more_than(left: impl Iterator<Item = (&'static str, usize)>, found: &Faults) {
    let left: BTreeMap<&str, usize> = left.collect();
    let mut new = String::new();
    for (area, places) in found {
        let most = left.get(area.as_str()).copied().unwrap_or(0);
        if places.len() > most {
            new += &format!("{area}: {} found, {most} known\n  {}\n", places.len(), places.join("\n  "));
        }
    }
    assert!(new.is_empty(), "{new}");
    for (area, most) in left {
        let now = found.get(area).map_or(0, Vec::len);
        assert!(now == most, "{area}: {now} are left, the list says {most}: write the smaller number");
    }
}

/// All source files of the crates, and all pages in English.
fn texts(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
            .map(|page| root.join(page))
            .into();
    files_below(&root.join("docs"), "md", &mut found);
    files_below(&root.join("changelog.d"), "md", &mut found);
    for floor in fs::read_dir(root.join("crates")).expect("the floors").flatten() {
        found.push(floor.path().join("README.md"));
    }
    let mut sources = Vec::new();
    files_below(&root.join("crates"), "rs", &mut sources);
    found.extend(sources.into_iter().filter(|path| path.iter().any(|folder| folder == "src")));
    found.sort();
    found
}

fn files_below(folder: &Path, extension: &str, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files_below(&path, extension, into);
        } else if path.extension().is_some_and(|found| found == extension) {
            into.push(path);
        }
    }
}
