//! Tokens and passwords, which are never printed. Not here: where they are compared.

use std::path::Path;

/// A shorter secret can be guessed in time, however few guesses an address has.
const SHORT: usize = 16;

/// A secret. Only [`reveal`](Self::reveal) returns it; `Debug` and `Display` do not show it.
///
/// # Example
/// ```
/// # use tollgate_server::settings::Secret;
/// let secret: Secret = "correct-horse-battery".parse().expect("usable");
/// assert_eq!(format!("{secret:?} {secret}"), "(secret) (secret)");
/// assert_eq!(secret.reveal(), "correct-horse-battery");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for comparison with a client's secret.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Note for the operator on the setting `name` if this secret is short.
    pub(crate) fn note_if_short(&self, name: &str) -> Option<String> {
        let length = self.0.len();
        (length < SHORT).then(|| {
            format!(
                "{name}: {length} characters can be guessed: expected at least {SHORT}, such as from `openssl rand -hex 32`"
            )
        })
    }

    /// The first line of the file at `path`, as container platforms mount secrets.
    ///
    /// # Errors
    /// The error; never the contents of the file.
    pub fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        text.trim_end_matches(['\r', '\n']).parse().map_err(|what| format!("{}: {what}", path.display()))
    }
}

impl std::str::FromStr for Secret {
    type Err = &'static str;

    /// # Errors
    /// It must be 1 to 256 visible ASCII characters, which every protocol can carry. The error does not
    /// repeat it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_visible = text.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
        match is_visible && (1..=256).contains(&text.len()) {
            true => Ok(Self(text.to_owned())),
            false => Err(
                "invalid secret: expected 1 to 256 letters, digits and signs, such as from `openssl rand -hex 32`",
            ),
        }
    }
}

/// A secret as the value of a setting.
pub(crate) fn secret(text: &str) -> Result<Secret, String> {
    text.parse::<Secret>().map_err(str::to_owned)
}

/// A secret in a file.
pub(crate) fn secret_file(path: &str) -> Result<Secret, String> {
    Secret::from_file(Path::new(path))
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_without_its_line_end_and_no_error_repeats_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        for (text, want) in
            [("s3cret\n", Some("s3cret")), ("s3cret", Some("s3cret")), ("\n", None), ("one\ntwo\n", None)]
        {
            std::fs::write(&path, text).expect("written");
            let read = Secret::from_file(&path);
            assert_eq!(read.as_ref().ok().map(Secret::reveal), want, "{text:?}");
            assert!(read.is_ok() || !format!("{read:?}").contains("two"), "{read:?}");
        }
        assert!(Secret::from_file(&folder.path().join("nothing")).is_err());
    }
}
