//! `tollgate explain`: which rule a descriptor falls under, why, and what would be charged.

use std::io::Write;
use std::path::PathBuf;

use tollgate_limiter::explain::{Other, explain};
use tollgate_policy::{Charge, Domain, Entry, Matched, Options, Policy, Rule};

use super::{count, fault_count};
use crate::cli::Ending;
use crate::words;

/// Tell which rule a descriptor falls under, why, and what would be charged.
///
/// Counts nothing and asks no server: it reads the rule files as `serve` would.
/// Exit 0: a rule matches. 1: none does, so nothing limits the request. 2: the rules cannot be read or are faulty.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tollgate explain --rules examples/rules --domain messaging message_type=marketing
  tollgate explain --rules examples/rules --domain shop api_key=alice plan=gold")]
pub struct Explain {
    /// Folder or file of rules; may be given more than once.
    #[arg(long, required = true, value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Let several files hold rules of one domain.
    #[arg(long)]
    merge_domains: bool,
    /// Domain that the request names.
    #[arg(long)]
    domain: String,
    /// Entries of one descriptor, in order.
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = entry)]
    entries: Vec<(String, String)>,
}

fn entry(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("an entry is key=value, such as api_key=alice".to_owned()),
    }
}

impl Explain {
    /// Writes the explanation to `out`, faults of rule files to `talk`.
    ///
    /// # Errors
    /// When either cannot be written to.
    pub fn run(self, out: &mut dyn Write, talk: &mut dyn Write) -> std::io::Result<Ending> {
        let policy = match Policy::load(&self.rules, &Options { merge_domains: self.merge_domains }) {
            Ok(policy) => policy,
            Err(error) => {
                writeln!(talk, "{error}")?;
                writeln!(talk, "{}; nothing can be explained", count(fault_count(&error), "fault"))?;
                return Ok(Ending::CouldNotTell);
            }
        };
        let entries: Vec<Entry<'_>> = self.entries.iter().map(|(key, value)| Entry { key, value }).collect();
        writeln!(out, "domain   {}", self.domain)?;
        writeln!(out, "asked    {}", spell(&entries))?;
        let Some(domain) = policy.domain(&self.domain) else {
            let known: Vec<&str> = policy.domains().iter().map(Domain::name).collect();
            writeln!(out, "rule     none: there is no such domain, so everything passes")?;
            writeln!(out, "domains  {}", known.join(", "))?;
            return Ok(Ending::No);
        };
        let others = explain(&policy, &self.domain, &entries).others;
        let ending = match domain.find(&entries) {
            Some(rule) => matched(domain, rule, &entries, out).map(|()| Ending::Yes)?,
            None => unmatched(domain, &entries, &others, out).map(|()| Ending::No)?,
        };
        for other in others {
            writeln!(out, "not      {} ({}): {}", other.path, other.place, other.why)?;
        }
        Ok(ending)
    }
}

fn matched(domain: &Domain, rule: &Rule, entries: &[Entry<'_>], out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "rule     {} ({})", rule.path, rule.place)?;
    let steps = domain.trace(entries);
    for ((level, entry), matched) in rule.path.split(words::LEVEL).zip(entries).zip(steps) {
        writeln!(out, "why      {}", why(level, entry, matched))?;
    }
    if rule.unlimited {
        writeln!(out, "limit    none: the rule says unlimited")?;
    }
    for (index, limit) in rule.limits.iter().enumerate() {
        let mut key = Vec::new();
        rule.write_key(index, domain.name(), entries, &mut key);
        writeln!(out, "limit    {}", words::limit(limit))?;
        writeln!(out, "counter  {}", key.escape_ascii())?;
    }
    if !rule.limits.is_empty() {
        let charge = match domain.charge() {
            Charge::Each => "1 permit of each limit, whatever the others say",
            Charge::Together => "1 permit of each limit, or of none when one denies (charge: together)",
        };
        writeln!(out, "charge   {charge}")?;
    }
    if rule.shadow_mode {
        writeln!(out, "mode     shadow: counted, never denied")?;
    }
    if rule.quota_mode {
        writeln!(out, "mode     quota: denies only when every quota of the request is used up")?;
    }
    if !rule.replaces.is_empty() {
        writeln!(out, "replaces {}", rule.replaces.join(", "))?;
    }
    Ok(())
}

/// How an entry of the request came to fall under one level of a rule.
fn why(level: &str, entry: &Entry<'_>, matched: Matched) -> String {
    let asked = format!("{}={}", entry.key, entry.value);
    match matched {
        Matched::Exact => format!("{asked} has a rule of its own"),
        Matched::Network => format!("{asked} falls to {level}, the narrowest network that it lies in"),
        Matched::Pattern => format!("{asked} matches {level}, the first pattern that does"),
        Matched::Default => format!("{asked} has no rule of its own, so that of every {level} applies"),
    }
}

fn unmatched(
    domain: &Domain,
    entries: &[Entry<'_>],
    others: &[Other],
    out: &mut dyn Write,
) -> std::io::Result<()> {
    const MOST: usize = 10;
    writeln!(out, "rule     none: nothing limits it")?;
    let taken = domain.trace(entries).len();
    match entries.get(taken) {
        Some(entry) if taken == 0 => {
            writeln!(out, "why      no rule begins with {}={}", entry.key, entry.value)?
        }
        Some(entry) => {
            let (before, next) = (spell(&entries[..taken]), spell(&[*entry]));
            writeln!(
                out,
                "why      below {before} no rule takes {next}; there is no way back to another branch"
            )?;
        }
        None => writeln!(out, "why      rules go on below {}, and none ends there", spell(entries))?,
    }
    if others.is_empty() {
        let known: Vec<&str> = domain.rules().iter().take(MOST).map(|rule| rule.path.as_str()).collect();
        let more = domain.rules().len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(out, "known    {}{more}", known.join(", "))?;
    }
    Ok(())
}

fn spell(entries: &[Entry<'_>]) -> String {
    let spelt: Vec<String> = entries.iter().map(|entry| format!("{}={}", entry.key, entry.value)).collect();
    spelt.join(words::LEVEL)
}
