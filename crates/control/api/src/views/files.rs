//! Rule files, and their effect on a request.

use serde::Serialize;
use tollgate_control::file_rules::StoredFile;
use utoipa::ToSchema;

use crate::words;

/// A rule file.
#[derive(Debug, Serialize, ToSchema)]
pub struct File {
    pub app: String,
    pub domain: String,
    /// The YAML, byte for byte.
    pub text: String,
    pub description: String,
    #[schema(schema_with = words::file_state)]
    pub state: String,
    /// The version of the app that wrote it.
    pub version: i64,
    pub updated_at: i64,
    pub updated_by: String,
}

impl From<StoredFile> for File {
    fn from(it: StoredFile) -> Self {
        Self {
            app: it.app,
            domain: it.file.domain,
            text: it.file.text,
            description: it.file.description,
            state: it.file.state,
            version: it.version,
            updated_at: it.updated_at,
            updated_by: it.updated_by,
        }
    }
}

/// The rule files of an app.
#[derive(Debug, Serialize, ToSchema)]
pub struct Files {
    pub files: Vec<File>,
}

/// Which rule in force applies to a request, and why.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explanation {
    /// The explanation as text, for people.
    pub explanation: String,
    /// The app is disabled, so that none of its rules is in force.
    pub app_disabled: bool,
}
