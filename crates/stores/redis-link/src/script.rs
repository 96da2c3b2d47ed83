//! A Lua script, and the SHA-1 by which a server knows it.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// One script, as a server is given it.
#[derive(Debug)]
pub struct Script {
    source: String,
    sha: String,
}

impl Script {
    /// A script of these pieces, one after another.
    #[must_use]
    pub fn of(pieces: &[&str]) -> Self {
        let source = pieces.concat();
        let sha = digest(&SHA1_FOR_LEGACY_USE_ONLY, source.as_bytes());
        Self { source, sha: sha.as_ref().iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// The source, for `SCRIPT LOAD` and `EVAL`.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The SHA-1, for `EVALSHA`: 40 hexadecimal digits.
    #[must_use]
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_known_by_the_sha_1_of_its_source() {
        assert_eq!(Script::of(&["return ", "1"]).sha(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
