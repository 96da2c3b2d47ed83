//! `tollgate explain`: which rule a descriptor matches, why, and what would be charged.

use std::io::Write;
use std::path::PathBuf;

use tollgate_answers::preview;
use tollgate_headers::Style;
use tollgate_human_text::{counted, with_causes};
use tollgate_limiter::explain::{Verdict, explain};
use tollgate_policy::Entry;

use crate::ending::Ending;
use crate::settings::Settings;
use crate::start;

/// Show which rule a descriptor matches, why, and what would be charged.
///
/// Counts nothing and contacts no server: it reads the rule files as `serve` would. Exit 0: a rule matches.
/// 1: none matches, so nothing limits the request, or `unmatched: deny` denies it. 2: the rules cannot be
/// read or are invalid.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate explain --rules examples/rules --domain messaging message_type=marketing
  tollgate explain --rules examples/rules --domain shop --preview api_key=alice plan=gold")]
pub(crate) struct Explain {
    /// Folder or file of rules; may be given more than once.
    #[arg(long, required = true, value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Allow several files to contain rules of one domain [env: TOLLGATE_MERGE_DOMAINS, MERGE_DOMAIN_CONFIG]
    #[arg(long)]
    merge_domains: bool,
    /// Decision for a request that no rule matches, as in `serve --unmatched`: admit or deny [default: admit]
    /// [env: TOLLGATE_UNMATCHED]
    #[arg(long, value_name = "ANSWER")]
    unmatched: Option<String>,
    /// Also show the HTTP response of a client whose limit is used up, or that is denied without a limit.
    #[arg(long)]
    preview: bool,
    /// Header fields of the preview: off, legacy, draft-03, draft-07, draft-11, or both as legacy,draft-11.
    #[arg(long, value_name = "STYLE", default_value_t)]
    headers: Style,
    /// Domain of the request.
    #[arg(long)]
    domain: String,
    /// Entries of one descriptor, in order.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = entry)]
    entries: Vec<(String, String)>,
}

fn entry(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("invalid entry {text:?}: expected key=value, such as api_key=alice")),
    }
}

impl Explain {
    /// Writes the explanation to `out`, errors in rule files to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub(crate) fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let options = Settings::rule_options(self.merge_domains, std::env::vars_os());
        let unmatched = Settings::unmatched(self.unmatched, std::env::vars_os());
        let (options, unmatched) = match (options, unmatched) {
            (Ok(options), Ok(unmatched)) => (options, unmatched),
            (options, unmatched) => {
                let mut faults = [options.err(), unmatched.err()].into_iter().flatten().flatten();
                faults.try_for_each(|fault| writeln!(talk, "{fault}"))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let policy = match start::load(&self.rules, &options) {
            Ok(rules) => rules.policy,
            Err(error) => {
                writeln!(talk, "{}", with_causes(&error))?;
                writeln!(talk, "{}; nothing can be explained", counted(error.count(), "error"))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let entries: Vec<Entry<'_>> =
            self.entries.iter().map(|(key, value)| Entry::new(key, value)).collect();
        let explanation = explain(&policy, &self.domain, &entries, unmatched);
        write!(out, "{explanation}")?;
        if self.preview {
            let denial = preview(&policy, &self.domain, &entries, unmatched, &self.headers);
            let denial = denial
                .map_or_else(|| "nothing: no rule would deny it\n".to_owned(), |denial| denial.to_string());
            let client = match explanation.verdict {
                Verdict::Rule(ref rule) if !rule.denies => "an HTTP client over its limit",
                _ => "an HTTP client",
            };
            write!(out, "\n{client} receives:\n{denial}")?;
        }
        Ok(if matches!(explanation.verdict, Verdict::Rule(_)) { Ending::Yes } else { Ending::No })
    }
}
