//! Names out of a list: the name that a misspelt word was probably meant to be, and the list as part of a
//! sentence.

/// `did you mean NAME?` for the nearest of `names`, if one is near.
///
/// # Example
/// ```
/// # use tollgate_human_text::did_you_mean;
/// assert_eq!(did_you_mean("minuet", &["hour", "minute"]).as_deref(), Some("did you mean minute?"));
/// assert_eq!(did_you_mean("fortnight", &["hour", "minute"]), None);
/// ```
#[must_use]
pub fn did_you_mean(word: &str, names: &[&str]) -> Option<String> {
    let nearest = nearest(word, names).filter(|nearest| nearest.is_near)?;
    Some(format!("did you mean {}?", nearest.name))
}

/// The name of a list that is nearest to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest<'a> {
    /// The known name that is nearest to the word.
    pub name: &'a str,
    /// True if the word is probably a misspelling of it.
    pub is_near: bool,
}

/// The nearest of `names`, which may still be far; `None` if there are no names.
///
/// # Example
/// ```
/// # use tollgate_human_text::nearest;
/// let found = |word| nearest(word, &["hour", "minute"]).map(|nearest| (nearest.name, nearest.is_near));
/// assert_eq!(found("minuet"), Some(("minute", true)));
/// assert_eq!(found("our watch"), Some(("hour", false)));
/// ```
#[must_use]
pub fn nearest<'a>(word: &str, names: &[&'a str]) -> Option<Nearest<'a>> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).take(40).collect()
    };
    let word = plain(word);
    let (distance, name) =
        names.iter().map(|name| (distance(&word, &plain(name)), *name)).min_by_key(|near| near.0)?;
    Some(Nearest { name, is_near: distance <= 1.max(word.len() / 3) && distance < word.len() })
}

/// `a, b or c`.
#[must_use]
pub fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

/// Insertions, deletions, replacements and swaps of neighbours from one word to the other.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}
