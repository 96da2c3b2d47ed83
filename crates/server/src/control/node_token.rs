//! The token that admits nodes: made at the first start, and kept in a file of the data folder that only its
//! owner can read.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use parking_lot::RwLock;
use tollgate_fleet_hub::{TokenDigests, Tokens};

/// Name of the file.
pub(crate) const FILE: &str = "node-token";
/// Most bytes that are read of it.
const MAX: u64 = 4096;

/// Which tokens admit nodes: that of the file, and those that administrators made.
#[derive(Debug, Default)]
pub(crate) struct NodeTokens {
    of_file: TokenDigests,
    issued: RwLock<TokenDigests>,
}

impl NodeTokens {
    /// Reads the file in `folder`, or makes it.
    ///
    /// # Errors
    /// It cannot be read or written, or holds no token.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let token = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(folder, &path)?,
            token => token?,
        };
        Ok(Self { of_file: TokenDigests::of([token.trim()]), issued: RwLock::default() })
    }

    /// Admits these tokens from now on, beside that of the file.
    #[expect(dead_code, reason = "tokens that administrators make come with their table")]
    pub(crate) fn set_issued(&self, digests: Vec<[u8; 32]>) {
        *self.issued.write() = TokenDigests::new(digests);
    }
}

impl Tokens for NodeTokens {
    fn admits(&self, token: Option<&str>) -> bool {
        let (of_file, issued) = (self.of_file.admits(token), self.issued.read().admits(token));
        of_file | issued
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut token = String::new();
    File::open(path)?.take(MAX).read_to_string(&mut token)?;
    match token.trim().len() {
        16.. => Ok(token),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it holds no token of at least 16 characters; delete it, and the next start makes a new one",
        )),
    }
}

/// A new token in a file that is there whole or not at all.
fn create(folder: &Path, path: &Path) -> io::Result<String> {
    let secret = tollgate_control::secret().map_err(io::Error::other)?;
    let token = format!("tgn_{secret}\n");
    let new = folder.join("node-token.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(token.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(folder)?.sync_all()?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_token_is_made_once_read_by_its_owner_only_and_compared_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = NodeTokens::open(folder.path()).expect("made");
        let path = folder.path().join(FILE);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let token = std::fs::read_to_string(&path).expect("read");
        let token = token.trim();
        let again = NodeTokens::open(folder.path()).expect("read");
        for tokens in [&first, &again] {
            assert!(tokens.admits(Some(token)));
            assert!(!tokens.admits(Some(&token[..token.len() - 1])) && !tokens.admits(Some("")));
            assert!(!tokens.admits(None));
        }
        std::fs::write(&path, "\n").expect("written");
        assert!(
            NodeTokens::open(folder.path()).is_err(),
            "an empty token would admit everybody who sends none"
        );
    }
}
