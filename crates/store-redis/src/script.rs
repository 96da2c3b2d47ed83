//! Lua scripts, put together from small files, and their SHA-1 by which a server knows them.

/// One script, as a server is given it.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
    sha: String,
}

impl Script {
    /// A script of these pieces, one after another.
    pub(crate) fn of(pieces: &[&str]) -> Self {
        let source = pieces.concat();
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha }
    }

    /// For `SCRIPT LOAD` and `EVAL`.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// For `EVALSHA`: 40 hexadecimal digits.
    pub(crate) fn sha(&self) -> &str {
        &self.sha
    }
}
