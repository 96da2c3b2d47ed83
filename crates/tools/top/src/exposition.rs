//! Reads samples by name and labels from Prometheus text. Lines that cannot be parsed are skipped.

/// The samples of one scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Exposition {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Exposition {
    pub(crate) fn parse(text: &str) -> Self {
        Self { samples: text.lines().filter_map(sample).collect() }
    }

    /// The sum of all samples called `name` that have all of `labels`.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.named(name)
            .filter(|sample| labels.iter().all(|&(label, value)| sample.label(label) == Some(value)))
            .fold(0.0, |sum, it| sum + it.value)
    }

    /// The values of `label` among the samples called `name`, each with its value, in order.
    pub(crate) fn by<'a>(&'a self, name: &'a str, label: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.named(name).filter_map(move |sample| Some((sample.label(label)?, sample.value)))
    }

    /// The sample of `name` with the largest value above 0, with the values of two of its labels.
    pub(crate) fn largest<'a>(&'a self, name: &'a str, labels: [&str; 2]) -> Option<([&'a str; 2], f64)> {
        let largest = self.named(name).max_by(|a, b| a.value.total_cmp(&b.value))?;
        (largest.value > 0.0).then(|| (labels.map(|it| largest.label(it).unwrap_or_default()), largest.value))
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| sample.name == name)
    }
}

impl Sample {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// `name{label="value",…} number …`
fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            rest = rest.trim_start_matches(',');
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after;
        }
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Up to the closing quote, without escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_name_and_labels_and_the_rest_is_passed_over() {
        let text = "\
# HELP a_total Help
a_total{x=\"1\",y=\"say \\\"hi\\\", {you}\"} 2
a_total{x=\"2\",y=\"\"} 3.5 1700000000
plain 7
broken{x=\"1
nonsense
b{} NaN
# EOF";
        let read = Exposition::parse(text);
        assert_eq!(read.sum("a_total", &[]), 5.5);
        assert_eq!(read.sum("a_total", &[("y", "say \"hi\", {you}")]), 2.0);
        assert_eq!(read.sum("a_total", &[("z", "")]), 0.0);
        assert_eq!(read.sum("plain", &[]), 7.0);
        assert_eq!(read.by("a_total", "x").collect::<Vec<_>>(), [("1", 2.0), ("2", 3.5)]);
    }
}
