//! Differences between two rules: field by field, and line by line. Pure.

use crate::content::Content;
use crate::table_rule_yaml;

/// Most steps of the search for equal lines; beyond, everything counts as replaced.
const MAX_STEPS: usize = 4_000_000;

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDiff {
    pub field: String,
    /// The value before; `None` if there was no rule.
    pub before: Option<String>,
    /// The value after; `None` if there is no rule any more.
    pub after: Option<String>,
}

/// A line, and on which side it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// Its number before, from 1; `None` if it was added.
    pub before: Option<usize>,
    /// Its number after; `None` if it was removed.
    pub after: Option<usize>,
    pub text: String,
}

/// The fields of a rule as texts: those of a row, or text, description and state of a file.
fn fields(content: &Content) -> Vec<(String, String)> {
    match content {
        Content::TableRule(row) => table_rule_yaml::fields(&row.to_input()),
        Content::File(file) => [
            ("domain", &file.domain),
            ("state", &file.state),
            ("description", &file.description),
            ("text", &file.text),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .collect(),
    }
}

/// The fields that differ. A new or a removed rule lists every field that has a value.
#[must_use]
pub fn by_field(before: Option<&Content>, after: Option<&Content>) -> Vec<FieldDiff> {
    let side = |content: Option<&Content>| content.map(fields);
    let old = side(before);
    let new = side(after);
    let names = new.as_ref().or(old.as_ref()).into_iter().flatten().map(|(name, _)| name.clone());
    let value = |side: &Option<Vec<(String, String)>>, name: &str| {
        let fields = side.as_ref()?;
        fields.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    };
    names
        .filter_map(|field| {
            let before = value(&old, &field);
            let after = value(&new, &field);
            let is_empty =
                before.as_deref().unwrap_or("").is_empty() && after.as_deref().unwrap_or("").is_empty();
            (before != after && !is_empty).then_some(FieldDiff { field, before, after })
        })
        .collect()
}

/// The lines of both texts in one order: equal ones once, removed ones before those in their place.
///
/// # Example
/// ```
/// # use tollgate_model::diff::by_line;
/// let lines = by_line("a\nb\nc\n", "a\nx\nc\n");
/// let sides: Vec<_> = lines.iter().map(|it| (it.before, it.after, &*it.text)).collect();
/// let want = [(Some(1), Some(1), "a"), (Some(2), None, "b"), (None, Some(2), "x"), (Some(3), Some(3), "c")];
/// assert_eq!(sides, want);
/// ```
#[must_use]
pub fn by_line(before: &str, after: &str) -> Vec<DiffLine> {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let first = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - first;
    let last = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let old_mid = &old[first..old.len() - last];
    let new_mid = &new[first..new.len() - last];
    let mut lines = Vec::with_capacity(old.len().max(new.len()));
    let mut at_old = 0;
    let mut at_new = 0;
    let mut push = |is_old: bool, is_new: bool| {
        let text = if is_old { old[at_old] } else { new[at_new] };
        let line = DiffLine {
            before: is_old.then_some(at_old + 1),
            after: is_new.then_some(at_new + 1),
            text: text.to_owned(),
        };
        at_old += usize::from(is_old);
        at_new += usize::from(is_new);
        lines.push(line);
    };
    for _ in 0..first {
        push(true, true);
    }
    for (is_old, is_new) in middle(old_mid, new_mid) {
        push(is_old, is_new);
    }
    for _ in 0..last {
        push(true, true);
    }
    lines
}

/// The steps through both by their longest common subsequence.
fn middle(old: &[&str], new: &[&str]) -> Vec<(bool, bool)> {
    let mut steps = Vec::with_capacity(old.len() + new.len());
    let mut i = 0;
    let mut j = 0;
    if old.len().saturating_mul(new.len()) <= MAX_STEPS {
        let width = new.len() + 1;
        let mut longest = vec![0_u32; (old.len() + 1) * width];
        for i in (0..old.len()).rev() {
            for j in (0..new.len()).rev() {
                longest[i * width + j] = if old[i] == new[j] {
                    longest[(i + 1) * width + j + 1] + 1
                } else {
                    longest[(i + 1) * width + j].max(longest[i * width + j + 1])
                };
            }
        }
        while i < old.len() && j < new.len() {
            if old[i] == new[j] {
                steps.push((true, true));
                (i, j) = (i + 1, j + 1);
            } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
                steps.push((true, false));
                i += 1;
            } else {
                steps.push((false, true));
                j += 1;
            }
        }
    }
    steps.extend((i..old.len()).map(|_| (true, false)));
    steps.extend((j..new.len()).map(|_| (false, true)));
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(lines: &[DiffLine], pick: impl Fn(&DiffLine) -> Option<usize>) -> String {
        let chosen: Vec<_> = lines.iter().filter_map(|line| Some((pick(line)?, &*line.text))).collect();
        assert!(chosen.iter().enumerate().all(|(index, (number, _))| *number == index + 1));
        chosen.iter().map(|(_, text)| format!("{text}\n")).collect()
    }

    proptest! {
        #[test]
        fn both_texts_can_be_read_from_their_difference(a in "([ab]\n){0,12}", b in "([abc]\n){0,12}") {
            let lines = by_line(&a, &b);
            prop_assert_eq!(side(&lines, |it| it.before), &*a);
            prop_assert_eq!(side(&lines, |it| it.after), &*b);
            if a == b {
                prop_assert!(lines.iter().all(|it| it.before.is_some() && it.after.is_some()));
            }
        }
    }
}
