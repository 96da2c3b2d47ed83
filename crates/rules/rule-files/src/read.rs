//! From a YAML tree to the specs of rules: every key checked, every fault collected.
//!
//! A reader never stops at a fault: it notes it and continues with the next key, so that one run reports
//! everything. Not here: the bounds of values. The specs check those themselves (`policy`); their errors get
//! a place here.

mod addresses;
mod descriptor;
mod guesses;
mod known_keys;
mod limit;
mod lists;
mod notes;
mod order;
mod path;
mod queue;
mod reader;
mod response;
mod scalar;
mod warnings;

use tollgate_human_text::clip;
use tollgate_policy::{Charge, Countable, DomainSpec, Unmatched};

pub(crate) use lists::Lists;
pub(crate) use notes::Notes;
pub(crate) use warnings::Warnings;

use crate::manifest;
use crate::yaml_tree::{self, Kind, Pos, YamlNode};
use known_keys::Section;
use path::Path;
use reader::Reader;
use warnings::Warned;

/// Message for a key without a value that would lift a limit if the key were ignored.
const EMPTY: &str = "has no value; write one, or remove the key";

/// Whether a limit may have this key.
#[cfg(test)]
pub(crate) fn knows_key_of_limit(name: &str) -> bool {
    Section::LimitsEntry.allows(name)
}

/// Reads one text, whose rules may refer to `lists`. `None` if it names no domain. Faults go to `notes`.
pub(crate) fn file(
    text: &str,
    countable: Countable,
    lists: &Lists<'_>,
    notes: &mut Notes,
) -> Option<DomainSpec> {
    let tree = yaml_tree::parse(text);
    for (pos, message) in tree.faults {
        notes.fault(pos, "", message);
    }
    for (pos, message) in tree.warnings {
        notes.warn(Warned::Yaml, pos, "", message);
    }
    let Some(root) = tree.root else {
        if notes.faults.is_empty() {
            let message = "is missing, the file is empty; write the domain of your requests";
            notes.fault(Pos::START, "domain", message);
        }
        return None;
    };
    Reader { notes, countable, lists, denies_unmatched: false }.root(&root)
}

impl Reader<'_> {
    fn root(&mut self, root: &YamlNode) -> Option<DomainSpec> {
        let path = Path::ROOT;
        if let Kind::Map(map) = &root.kind
            && let Some(kind) = manifest::kind_of(map)
        {
            let message = match kind {
                "ConfigMap" => {
                    "this is a ConfigMap without rules; they are read from the files under data, whose names end in \
                     .yaml, .yml or .json"
                        .to_owned()
                }
                kind => format!("this is a manifest of Kubernetes, of a {}, and not rules", clip(kind)),
            };
            self.notes.fault(root.pos, "", message);
            return None;
        }
        let fields = self.fields(root, &path, Section::Root)?;
        let name = match fields.get("domain") {
            Some(node) => self.text(node, &path.key("domain")),
            None => {
                self.notes.fault(fields.pos, "domain", "is missing; write the domain of your requests");
                None
            }
        };
        let charge = fields.get("charge").and_then(|node| {
            self.choice(node, &path.key("charge"), &Charge::ALL.map(|charge| (charge.name(), charge)))
        });
        let unmatched = fields.get("unmatched").and_then(|node| {
            let choices = [("admit", Unmatched::Admit), ("deny", Unmatched::Deny)];
            self.choice(node, &path.key("unmatched"), &choices)
        });
        if unmatched.is_none() && fields.has_empty("unmatched") {
            self.notes.fault(fields.pos_of("unmatched"), path.key("unmatched"), EMPTY);
        }
        self.denies_unmatched = unmatched == Some(Unmatched::Deny);
        let response = fields.get("response").and_then(|node| self.response(node, &path.key("response")));
        let descriptors = self.descriptors(&fields, &path);
        // A file without a domain is read to its end too, for the other faults.
        let place = self.notes.place(fields.pos_of_value("domain"));
        let mut domain = DomainSpec::new(name?).written_at(place);
        if let Some(charge) = charge {
            domain = domain.charge(charge);
        }
        if let Some(unmatched) = unmatched {
            domain = domain.unmatched(unmatched);
        }
        if let Some(response) = response {
            domain = domain.response(response);
        }
        Some(descriptors.into_iter().fold(domain, DomainSpec::descriptor))
    }
}
