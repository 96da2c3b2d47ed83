//! Single values: text, flags, whole numbers, names out of a few.

use tollgate_human_text::{clip, did_you_mean, one_of, whole_number};

use super::path::Path;
use super::reader::{Fields, Reader};
use crate::yaml_tree::{Kind, Scalar, YamlNode};

impl Reader<'_> {
    pub(super) fn scalar<'a>(
        &mut self,
        node: &'a YamlNode,
        path: &Path<'_>,
        wanted: &str,
    ) -> Option<&'a Scalar> {
        if let Kind::Scalar(scalar) = &node.kind {
            return Some(scalar);
        }
        self.wrong_kind(node, path, wanted);
        None
    }

    /// Text. Whole numbers and booleans are the text that they are written as; floats must be quoted.
    pub(super) fn text(&mut self, node: &YamlNode, path: &Path<'_>) -> Option<String> {
        let scalar = self.scalar(node, path, "one text")?;
        if !scalar.quoted && looks_like_float(&scalar.text) {
            let text = clip(&scalar.text);
            let message =
                format!("{text} is a number that may be read differently; put it in quotes: \"{text}\"");
            self.notes.fault(node.pos, path, message);
            return None;
        }
        Some(scalar.text.clone())
    }

    /// False if the key is missing or faulty.
    pub(super) fn flag(&mut self, fields: &Fields<'_>, path: &Path<'_>, name: &str) -> bool {
        let Some(node) = fields.get(name) else { return false };
        let path = path.key(name);
        let Some(scalar) = self.scalar(node, &path, "true or false") else { return false };
        match (scalar.quoted, scalar.text.to_ascii_lowercase().as_str()) {
            (false, "true" | "yes" | "on" | "y") => true,
            (false, "false" | "no" | "off" | "n") => false,
            _ => {
                let message =
                    format!("invalid flag {}: expected true or false, without quotes", shown(scalar));
                self.notes.fault(node.pos, path, message);
                false
            }
        }
    }

    /// A whole number from `least` to `most`.
    pub(super) fn number(&mut self, node: &YamlNode, path: &Path<'_>, least: u64, most: u64) -> Option<u64> {
        let wanted = format!("a whole number from {least} to {most}");
        let scalar = self.scalar(node, path, &wanted)?;
        let plain = (!scalar.quoted).then(|| whole_number(&scalar.text)).flatten();
        let what = match plain {
            Some(number) if (least..=most).contains(&number) => return Some(number),
            Some(_) => "is out of range",
            None => "is not a whole number",
        };
        self.notes.fault(node.pos, path, format!("{} {what}; write {wanted}", shown(scalar)));
        None
    }

    /// One of several names.
    pub(super) fn choice<T: Copy>(
        &mut self,
        node: &YamlNode,
        path: &Path<'_>,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let wanted = one_of(&names);
        let scalar = self.scalar(node, path, &wanted)?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == scalar.text) {
            return Some(*choice);
        }
        let hint = did_you_mean(&scalar.text, &names).unwrap_or_else(|| format!("write {wanted}"));
        self.notes.fault(node.pos, path, format!("unknown value {}; {hint}", quoted(scalar)));
        None
    }
}

/// A scalar as a message shows it: quoted if the file quotes it, and never longer than a line.
pub(super) fn shown(scalar: &Scalar) -> String {
    let text = clip(&scalar.text);
    if scalar.quoted || text.is_empty() { format!("\"{text}\"") } else { text }
}

/// A scalar in quotes, as messages show unknown or invalid text.
pub(super) fn quoted(scalar: &Scalar) -> String {
    format!("\"{}\"", clip(&scalar.text))
}

/// Whether a YAML reader may turn it into a floating point number, and so not return it as written.
fn looks_like_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let is_number_text =
        unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_number_text || unsigned.starts_with(['e', 'E', '+', '-']) {
        return false;
    }
    let is_whole = unsigned.bytes().all(|b| b.is_ascii_digit());
    if is_whole {
        !unsigned.is_empty() && unsigned.parse::<u64>().is_err()
    } else {
        unsigned.parse::<f64>().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_and_huge_numbers_must_be_quoted_and_nothing_else() {
        for (text, want) in [
            ("1.5", true),
            (".5", true),
            ("1e5", true),
            ("-1.0", true),
            (".inf", true),
            ("1.", true),
            ("99999999999999999999", true),
            ("", false),
            ("50", false),
            ("-1", false),
            ("1.2.3", false),
            ("10.0.0.1", false),
            ("e5", false),
            ("true", false),
            ("1_000", false),
            ("2026-11-21", false),
            (".", false),
            ("-", false),
        ] {
            assert_eq!(looks_like_float(text), want, "{text:?}");
        }
    }
}
