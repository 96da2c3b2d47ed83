//! Why paths make no policy.

use std::path::PathBuf;

use crate::fault::Faults;

/// Why paths make no policy. The previous policy stays in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A path cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file or folder, as given or as found in a folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The files can be read, but not used.
    #[error(transparent)]
    Faulty(#[from] Faults),
    /// A watched folder has no rule file, or not any more.
    #[error(
        "no rule file found; only *.yaml, *.yml and *.json are read, and an empty folder does not remove limits"
    )]
    NoFiles,
}
