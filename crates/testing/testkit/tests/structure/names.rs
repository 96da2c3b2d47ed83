//! Names of types, and the places where they are defined.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

/// Each name of a type below `folders`, tests and benches included, with its places as `file:line`.
pub(crate) fn of_types(root: &Path, folders: &[&str]) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    for folder in folders {
        read(&root.join(folder), root, &mut names);
    }
    names.values_mut().for_each(|places| places.sort());
    names
}

fn read(folder: &Path, root: &Path, names: &mut BTreeMap<String, Vec<String>>) {
    for path in fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read(&path, root, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let file = path.strip_prefix(root).expect("a file below the root").display();
            for (line, name) in defined(&text) {
                names.entry(name.to_owned()).or_default().push(format!("{file}:{line}"));
            }
        }
    }
}

static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\s*)(?:pub(?:\([^)]*\))? )?(?:unsafe )?(struct|enum|trait|union|type) ([A-Za-z_]\w*)")
        .expect("a regular expression")
});

/// The types that a file defines, each with its line. Aliases with an indent are left out: nearly all of them
/// are associated types, whose names the trait chooses.
fn defined(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(parts) = DEFINITION.captures(line) else { continue };
        let (_, [indent, keyword, name]) = parts.extract();
        if keyword != "type" || indent.is_empty() {
            found.push((index + 1, name));
        }
    }
    found
}

#[test]
fn associated_types_and_other_items_are_not_counted() {
    let text = "pub struct A;\npub(crate) enum B {}\nunsafe trait C {\n    type D;\n}\ntype E<T> = Vec<T>;\n\
                fn f() {\n    struct G;\n}\npub(in crate::h) union I {}\n// struct J;\nconst K: u8 = 0;\n";
    assert_eq!(defined(text), [(1, "A"), (2, "B"), (3, "C"), (6, "E"), (8, "G"), (10, "I")]);
}
