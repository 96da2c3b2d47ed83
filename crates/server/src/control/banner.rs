//! Output of a start, each line a word and its value.

use std::path::Path;

use crate::shell::quote;

/// Facts that people need after a start.
#[derive(Clone, Debug)]
pub(crate) struct ControlBanner {
    /// URL of the console for browsers, without a slash at the end.
    pub(crate) url: String,
    /// URL for nodes.
    pub(crate) node_url: String,
    /// The folder of the database.
    pub(crate) data_dir: String,
    /// The code of the first administrator, while there is none.
    pub(crate) setup_code: Option<String>,
}

impl ControlBanner {
    /// Words and their values, in the order in which they are printed.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("console", self.url.clone())];
        if let Some(code) = &self.setup_code {
            lines.push(("setup", format!("{}/setup?code={code}", self.url)));
        }
        lines.push(("data", self.data_dir.clone()));
        lines
    }

    /// The command that joins a node.
    pub(crate) fn join(&self) -> String {
        join(&self.node_url, Path::new(&self.data_dir))
    }
}

/// The command that joins a node to the control plane at this URL, whose data are in this folder.
pub(crate) fn join(node_url: &str, data_dir: &Path) -> String {
    let token = quote(&data_dir.join(super::node_token::FILE).display().to_string());
    format!("tollgate serve --control {node_url} --control-token-file {token}")
}
