//! Bodies and queries of rule files, of requests to explain, and of whole apps.

use serde::Deserialize;
use tollgate_control::file_rules::FileInput;
use utoipa::{IntoParams, ToSchema};

use crate::query::{Query, Read, flag, text};

/// A rule file, whose text names its domain.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileBody {
    #[serde(default)]
    pub domain: String,
    /// The rule file, as YAML.
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub description: String,
    /// `on` or `off`.
    #[serde(default)]
    pub state: String,
}

impl FileBody {
    /// The file to check, of `domain` if the path names it.
    #[must_use]
    pub fn input(self, domain: Option<String>) -> FileInput {
        let Self { domain: given, text, description, state } = self;
        FileInput { domain: domain.unwrap_or(given), text, description, state }
    }
}

/// A request to explain.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// Name of the app whose rules are explained.
    pub app: String,
    /// The domain of the request.
    pub domain: String,
    /// An entry as key=value; once for each entry, in order.
    pub entry: Vec<String>,
}

impl ExplainQuery {
    pub fn read(query: &impl Query) -> Self {
        let entry = query.parameters("entry");
        Self { app: text(query, "app"), domain: text(query, "domain"), entry }
    }
}

/// The app that is exported.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ExportQuery {
    /// Name of the app to export.
    pub app: String,
}

impl ExportQuery {
    pub fn read(query: &impl Query) -> Self {
        Self { app: text(query, "app") }
    }
}

/// The mode of an import.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ImportQuery {
    /// `true` only shows the difference.
    #[param(required = false)]
    pub dry_run: bool,
}

impl ImportQuery {
    pub fn read(query: &impl Query) -> Read<Self> {
        Ok(Self { dry_run: flag(query, "dry_run")? })
    }
}
