//! The token that admits nodes: made at the first start, and kept in a file of the data folder that only its
//! owner can read. The database has its digest, like that of every token that administrators make.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tollgate_control::tokens::TokenInput;
use tollgate_control::{Claim, Control, ControlError, NodeTokens};
use tollgate_core::Clock;
use tollgate_fleet_hub::Tokens;

/// Name of the file.
pub(crate) const FILE: &str = "node-token";

/// The tokens of the database.
pub(crate) struct IssuedTokens {
    pub(crate) tokens: watch::Receiver<Arc<NodeTokens>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl IssuedTokens {
    fn now_ms(&self) -> i64 {
        i64::try_from(self.clock.now().as_nanos() / 1_000_000).unwrap_or(i64::MAX)
    }
}

impl Tokens for IssuedTokens {
    fn admits(&self, token: Option<&str>) -> bool {
        self.tokens.borrow().admits(token, self.now_ms())
    }

    fn admits_known(&self, token: Option<&str>) -> bool {
        self.tokens.borrow().admits_known(token, self.now_ms())
    }
}

/// The token to write to the file in `folder`, if the database has none yet or the file is missing.
pub(crate) async fn needed(control: &Control, folder: &Path) -> Result<Option<String>, ControlError> {
    let first = control.first_node_token().await?;
    if first.is_some() || folder.join(FILE).exists() {
        return Ok(first);
    }
    let name = format!("file {}", &tollgate_control::secret()?[..8]);
    let input = TokenInput { kind: "node".to_owned(), name, ..TokenInput::default() };
    Ok(Some(control.create_token(&Claim::program("tollgate"), input).await?.1))
}

/// Writes a token to a file that is there whole or not at all.
pub(crate) fn write(folder: &Path, token: &str) -> io::Result<()> {
    let new = folder.join("node-token.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    std::fs::rename(&new, folder.join(FILE))?;
    File::open(folder)?.sync_all()
}
