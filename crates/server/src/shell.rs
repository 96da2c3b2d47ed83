//! Words of a POSIX shell.

/// `text` as one word.
pub(crate) fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for (text, want) in [
            ("plain/path-1.yaml", "plain/path-1.yaml"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(reboot)", "'$(reboot)'"),
        ] {
            assert_eq!(quote(text), want);
        }
    }
}
