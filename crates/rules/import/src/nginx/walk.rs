//! The directives of a configuration one after another, with the settings that each place inherits.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tollgate_human_text::with_causes;

use super::conn::{ConnLimit, ConnUse};
use super::directives::{Block, Directive, Unreadable, directives};
use super::files::Files;
use super::place::{LeftOut, Place, Places};
use super::tables::{Made, Table, TableKind, TableLine};
use super::zone::{Use, Zone, ZoneUse};

/// Greatest depth of nested `include`s.
const DEEPEST: usize = 16;
/// Most readings of files in all.
const MOST_FILES: usize = 2_000;

/// Blocks whose lines are no directives.
const TABLES: &[&str] = &["map", "geo", "types", "split_clients", "charset_map"];

/// The bytes of the client's address.
const BINARY_ADDRESS: &str = "binary_remote_addr";

/// Everything found in a configuration.
pub(super) struct Walk {
    files: Files,
    pub(super) places: Places,
    pub(super) zones: Vec<Zone>,
    /// Uses of zones, in the order of the places.
    pub(super) uses: Vec<Use>,
    /// Places with uses of zones, so far.
    levels: usize,
    pub(super) conn_zones: Vec<Zone>,
    pub(super) conn_uses: Vec<ConnUse>,
    /// Variables that the configuration itself makes, by their names.
    pub(super) variables: BTreeMap<String, Made>,
    /// The directives and the reasons, in the order in which they were found; each once.
    left_out: Vec<(Place, String)>,
    is_left_out: BTreeSet<(Place, String)>,
}

/// The settings of a place: its own, and those inherited from the places around it.
#[derive(Clone, Default)]
struct BlockSettings {
    /// As people call it: `location /`.
    name: String,
    limits: Vec<ZoneUse>,
    status: Option<u16>,
    is_dry_run: bool,
    conns: Vec<ConnLimit>,
    is_conn_dry_run: bool,
    /// Directives that decide about a request before Tollgate is asked, or instead of it.
    access: Vec<Access>,
}

/// Limits of a block's own, and where it changes those of the places around it.
#[derive(Default)]
struct Own {
    limits: Vec<ZoneUse>,
    limits_changed: Option<Place>,
    conns: Vec<ConnLimit>,
    conns_changed: Option<Place>,
}

/// A directive that decides about access beside limits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access {
    place: Place,
    /// Text of the directive, as it is written.
    what: String,
    kind: AccessKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessKind {
    /// `auth_basic`, `auth_jwt`: rejects a wrong password first.
    Password,
    /// `auth_request`: a place has one.
    Request,
    /// `satisfy any`: a client that passes one check needs no other.
    Any,
}

/// A directive and the file that it is in.
struct Placed {
    file: usize,
    /// Number of `include`s around this file.
    depth: usize,
    directive: Directive,
}

impl Placed {
    fn place(&self) -> Place {
        Places::of(self.file, self.directive.line)
    }
}

impl BlockSettings {
    /// Replaces an inherited directive about access by one of this place.
    fn access(&mut self, kind: AccessKind, it: &Placed, is_on: bool) {
        self.access.retain(|it| it.kind != kind);
        if is_on {
            self.access.push(Access { place: it.place(), what: said(&it.directive), kind });
        }
    }
}

impl AccessKind {
    /// The reason why a limit has another effect with such a directive.
    fn why(self) -> &'static str {
        match self {
            Self::Password => {
                "nginx rejects a wrong password before it asks Tollgate, so guesses are not limited here; keep \
                 limit_req here too"
            }
            Self::Request => {
                "a place has one auth_request; keep limit_req here, or let the service that is asked already ask \
                 Tollgate"
            }
            Self::Any => {
                "satisfy any admits who passes one check: a request that Tollgate admits would need no other, and \
                 one that another admits is not limited; keep limit_req here"
            }
        }
    }
}

impl Walk {
    pub(super) fn new(files: Files) -> Self {
        Self {
            files,
            places: Places::default(),
            zones: Vec::new(),
            uses: Vec::new(),
            levels: 0,
            conn_zones: Vec::new(),
            conn_uses: Vec::new(),
            variables: BTreeMap::new(),
            left_out: Vec::new(),
            is_left_out: BTreeSet::new(),
        }
    }

    /// Reads the first file, and all that it includes.
    ///
    /// # Errors
    /// If nginx would not read it. Included files that cannot be read are left out.
    pub(super) fn read(&mut self, name: &str, text: &str) -> Result<(), Unreadable> {
        let all = directives(text)?;
        let file = self.places.add(name);
        self.block(
            file,
            all,
            &BlockSettings { name: "the top level".to_owned(), ..BlockSettings::default() },
            0,
        );
        Ok(())
    }

    pub(super) fn leave_out(&mut self, place: Place, why: impl Into<String>) {
        let left_out = (place, why.into());
        // A file that is included in several places has the same faults in each.
        if self.is_left_out.insert(left_out.clone()) {
            self.left_out.push(left_out);
        }
    }

    /// The directives that were left out, in the order of their places.
    pub(super) fn left_out(mut self) -> Vec<LeftOut> {
        self.left_out.sort_by_key(|(place, _)| *place);
        let places = self.places;
        self.left_out.into_iter().map(|(at, why)| LeftOut { place: places.whole(at), why }).collect()
    }

    /// Reads one block, which is `depth` levels of `include` deep.
    fn block(&mut self, file: usize, all: Vec<Directive>, around: &BlockSettings, depth: usize) {
        let mut flat = Vec::new();
        self.with_included(file, all, depth, &mut flat);
        let mut level = around.clone();
        let mut own = Own::default();
        for it in &flat {
            self.read_directive(it, &mut level, &mut own);
        }
        self.note_uses(&mut level, own.limits, own.limits_changed);
        self.note_conn_uses(&mut level, own.conns, own.conns_changed);
        for it in flat {
            self.take(it, &level);
        }
    }

    /// Reads a directive that says something about its block.
    fn read_directive(&mut self, it: &Placed, level: &mut BlockSettings, own: &mut Own) {
        let place = it.place();
        match &it.directive.words[..] {
            [name, arguments @ ..] if name == "limit_req" => match ZoneUse::of(place, arguments) {
                Ok(limit) => own.limits.push(limit),
                Err(why) => self.leave_out(place, format!("{}: {why}", said(&it.directive))),
            },
            [name, arguments @ ..] if name == "limit_req_status" => {
                match arguments.first().and_then(|text| text.parse().ok()) {
                    Some(status @ 400..=599) => {
                        level.status = Some(status);
                        own.limits_changed = Some(place);
                    }
                    _ => {
                        let why = format!("{}: expected a status from 400 to 599", said(&it.directive));
                        self.leave_out(place, why);
                    }
                }
            }
            [name, on] if name == "limit_req_dry_run" => {
                level.is_dry_run = on == "on";
                own.limits_changed = Some(place);
            }
            [name, arguments @ ..] if name == "limit_conn" => match ConnLimit::of(place, arguments) {
                Ok(limit) => own.conns.push(limit),
                Err(why) => self.leave_out(place, format!("{}: {why}", said(&it.directive))),
            },
            [name, on] if name == "limit_conn_dry_run" => {
                level.is_conn_dry_run = on == "on";
                own.conns_changed = Some(place);
            }
            [name, value, ..] if name == "auth_basic" || name == "auth_jwt" => {
                level.access(AccessKind::Password, it, value != "off");
            }
            [name, value] if name == "auth_request" => {
                level.access(AccessKind::Request, it, value != "off");
            }
            [name, value] if name == "satisfy" => {
                level.access(AccessKind::Any, it, value == "any");
            }
            [name, value, ..] if name == "server_name" => {
                level.name = format!("server {}", tollgate_human_text::clip(value));
            }
            _ => {}
        }
    }

    /// Notes the uses of zones for requests. Limits of its `own` replace those of the places around it.
    fn note_uses(&mut self, level: &mut BlockSettings, own: Vec<ZoneUse>, changed: Option<Place>) {
        let has_own = !own.is_empty();
        if has_own {
            level.limits = own;
        }
        if !level.limits.is_empty() {
            for access in level.access.clone() {
                let Access { place, what, kind } = access;
                self.leave_out(place, format!("{what}: {}", kind.why()));
            }
        }
        if !has_own && changed.is_none() {
            return;
        }
        self.levels += 1;
        for limit in &level.limits {
            self.uses.push(Use {
                group: self.levels,
                zone: limit.zone.clone(),
                pace: limit.pace,
                place: if has_own { limit.place } else { changed.unwrap_or(limit.place) },
                level: level.name.clone(),
                status: level.status,
                is_dry_run: level.is_dry_run,
            });
        }
    }

    /// The same, for connections.
    fn note_conn_uses(&mut self, level: &mut BlockSettings, own: Vec<ConnLimit>, changed: Option<Place>) {
        let has_own = !own.is_empty();
        if has_own {
            level.conns = own;
        }
        if has_own || changed.is_some() {
            for limit in &level.conns {
                let place = changed.filter(|_| !has_own).unwrap_or(limit.place);
                self.conn_uses.push(limit.used(place, &level.name, level.is_conn_dry_run));
            }
        }
    }

    /// Appends `all` to `flat`, with the directives of included files in the place of each `include`.
    fn with_included(&mut self, file: usize, all: Vec<Directive>, depth: usize, flat: &mut Vec<Placed>) {
        for directive in all {
            let argument = match &directive.words[..] {
                [name, argument] if name == "include" => argument,
                _ => {
                    flat.push(Placed { file, depth, directive });
                    continue;
                }
            };
            let place = Places::of(file, directive.line);
            let what = said(&directive);
            if depth == DEEPEST || self.places.read() >= MOST_FILES {
                self.leave_out(place, format!("{what}: too many files, which may include each other"));
                continue;
            }
            match self.files.included(argument) {
                Ok(texts) => {
                    for (name, text) in texts {
                        match directives(&text) {
                            Ok(all) => {
                                let file = self.places.add(&name);
                                self.with_included(file, all, depth + 1, flat);
                            }
                            Err(error) => self.leave_out(place, format!("{what}: {name}:{error}")),
                        }
                    }
                }
                Err(error) => self.leave_out(place, format!("{what}: {}", with_causes(&error))),
            }
        }
    }

    /// The block of a `geo` or a `map`, with the lines of files that it includes.
    fn table(
        &mut self,
        name: &str,
        arguments: &[String],
        file: usize,
        all: Vec<Directive>,
        depth: usize,
    ) -> Option<Table> {
        let (kind, source) = match (name, arguments) {
            ("geo", [_]) => (TableKind::Geo, "$remote_addr"),
            ("geo", [source, _]) => (TableKind::Geo, source.as_str()),
            ("map", [source, _]) => (TableKind::Map, source.as_str()),
            _ => return None,
        };
        let mut flat = Vec::new();
        self.with_included(file, all, depth, &mut flat);
        let line = |it: Placed| TableLine { place: it.place(), words: it.directive.words };
        Some(Table { kind, source: source.to_owned(), lines: flat.into_iter().map(line).collect() })
    }

    /// Reads a directive of a block, except those that are read for the block as a whole.
    fn take(&mut self, it: Placed, level: &BlockSettings) {
        let place = it.place();
        let what = said(&it.directive);
        let Placed { file, depth, directive: Directive { words, block, .. } } = it;
        let Some((name, arguments)) = words.split_first() else { return };
        match name.as_str() {
            "limit_req_zone" => match Zone::of(place, arguments) {
                Ok(zone) => {
                    if zone.is_synced {
                        let why = "nodes share counters with --store instead";
                        self.leave_out(place, format!("sync of {what}: {why}"));
                    }
                    self.zones.push(zone);
                }
                Err(why) => self.leave_out(place, format!("{what}: {why}")),
            },
            "limit_conn_zone" => match Zone::of(place, arguments) {
                Ok(zone) => self.conn_zones.push(zone),
                Err(why) => self.leave_out(place, format!("{what}: {why}")),
            },
            "limit_conn_status" => {
                let why = "a holder that gets no slot answers its client itself";
                self.leave_out(place, format!("{what}: {why}"));
            }
            "limit_req" | "limit_req_status" | "limit_req_dry_run" | "limit_conn" | "limit_conn_dry_run" => {}
            "limit_req_log_level" | "limit_conn_log_level" => {
                let why = "the level is a setting of Tollgate, --denial-log-level";
                self.leave_out(place, format!("{what}: {why}"));
            }
            "limit_rate" | "limit_rate_after" => {
                self.leave_out(place, format!("{what}: rules cannot limit bandwidth; keep it in nginx"));
            }
            name if name.starts_with("limit_req") || name.starts_with("limit_conn") => {
                self.leave_out(place, format!("{what}: unknown directive"));
            }
            _ => {}
        }
        let made = made(name, arguments).map(str::to_owned);
        let mut is_binary = arguments.iter().any(|word| word.contains(BINARY_ADDRESS));
        let (block, table) = match block {
            Block::Directives(all) if TABLES.contains(&name.as_str()) => {
                let table = self.table(name, arguments, file, all, depth);
                let words = table.iter().flat_map(|it| &it.lines).flat_map(|line| &line.words);
                is_binary |= words.clone().any(|word| word.contains(BINARY_ADDRESS));
                (Block::None, table)
            }
            block => (block, None),
        };
        if let Some(variable) = made {
            let made = Made { place, what: what.clone(), has_binary_address: is_binary, table };
            match self.variables.entry(variable) {
                Entry::Vacant(entry) => {
                    entry.insert(made);
                }
                // If several directives make the variable, the place decides which one applies.
                Entry::Occupied(mut entry) if entry.get().place != place => {
                    let first = entry.get_mut();
                    first.table = None;
                    first.has_binary_address |= made.has_binary_address;
                }
                Entry::Occupied(_) => {}
            }
        }
        match block {
            Block::None => {}
            Block::Lua(text) => {
                if text.contains("resty.limit") {
                    let why = "limits that Lua makes are not read; write rules for them";
                    self.leave_out(place, format!("{what}: {why}"));
                }
            }
            Block::Directives(all) => {
                let name = match name.as_str() {
                    "location" => what,
                    name => name.to_owned(),
                };
                self.block(file, all, &BlockSettings { name, ..level.clone() }, depth);
            }
        }
    }
}

/// The directive as it is written, without its block.
fn said(directive: &Directive) -> String {
    tollgate_human_text::clip_to(&directive.words.join(" "), 120)
}

/// The name of the variable that a directive makes, without its dollar sign.
fn made<'a>(name: &str, arguments: &'a [String]) -> Option<&'a str> {
    let variable = match name {
        "map" | "geo" | "split_clients" => arguments.last(),
        "set" | "auth_request_set" | "set_by_lua_block" | "js_set" | "js_var" | "perl_set" => {
            arguments.first()
        }
        _ => None,
    };
    variable?.strip_prefix('$')
}
