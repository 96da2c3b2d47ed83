//! The commands there are, and `COMMAND`, by which clients ask for them.

use crate::reply::Reply;
use crate::session::Words;

/// What clients want to know of a command.
#[derive(Debug)]
pub(crate) struct Command {
    /// In small letters.
    pub(crate) name: &'static str,
    /// Words it takes, its name included; below zero: at least so many.
    arity: i64,
    /// It is answered before a password is said.
    pub(crate) is_for_strangers: bool,
    /// Its first word is a key.
    has_key: bool,
    group: &'static str,
    summary: &'static str,
    words: &'static [Word],
}

/// One word of a command, for hints.
#[derive(Debug)]
struct Word {
    name: &'static str,
    kind: &'static str,
    /// In front of it.
    token: Option<&'static str>,
    is_optional: bool,
    is_multiple: bool,
}

impl Command {
    /// Whether it takes so many words.
    pub(crate) fn takes(&self, words: usize) -> bool {
        let words = i64::try_from(words).unwrap_or(i64::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }

    const fn new(name: &'static str, arity: i64, group: &'static str, summary: &'static str) -> Self {
        Self { name, arity, is_for_strangers: false, has_key: false, group, summary, words: &[] }
    }

    const fn for_strangers(self) -> Self {
        Self { is_for_strangers: true, ..self }
    }

    const fn with(self, words: &'static [Word]) -> Self {
        Self { words, ..self }
    }

    const fn keyed(self) -> Self {
        Self { has_key: true, ..self }
    }
}

impl Word {
    const fn text(name: &'static str) -> Self {
        Self { name, kind: "string", token: None, is_optional: false, is_multiple: false }
    }

    const fn number(name: &'static str) -> Self {
        Self { kind: "integer", ..Self::text(name) }
    }

    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    const fn multiple(self) -> Self {
        Self { is_multiple: true, ..self }
    }

    const fn after(self, token: &'static str) -> Self {
        Self { token: Some(token), ..self }
    }
}

const MARK: Word = Word { kind: "pure-token", ..Word::text("withdegraded") }.after("WITHDEGRADED").optional();
const RATE: &[Word] = &[
    Word { kind: "key", ..Word::text("key") },
    Word::number("max_burst"),
    Word::number("count"),
    Word::number("period"),
    Word::number("quantity").optional(),
    MARK,
];
const CHECK: &[Word] = &[
    Word::text("domain"),
    Word::text("key value").multiple(),
    Word::number("n").after("COST").optional(),
    MARK,
];
const MESSAGE: &[Word] = &[Word::text("message").optional()];
const USER: &[Word] = &[Word::text("username").optional(), Word::text("password")];
const VERSION: &[Word] = &[Word::number("protover").optional()];

/// All of them.
static COMMANDS: [Command; 15] = [
    Command::new("auth", -2, "connection", "Says the password").for_strangers().with(USER),
    Command::new(
        "cl.throttle",
        -5,
        "rate-limiting",
        "Takes permits at a rate given in seconds; answers as redis-cell",
    )
    .keyed()
    .with(RATE),
    Command::new("client", -2, "connection", "Says or asks what is known of this client"),
    Command::new("command", -1, "server", "Lists the commands"),
    Command::new("config", -2, "server", "CONFIG GET says that nothing is saved"),
    Command::new("echo", 2, "connection", "Says it again").with(&[Word::text("message")]),
    Command::new("hello", -1, "connection", "Chooses the version of the protocol")
        .for_strangers()
        .with(VERSION),
    Command::new("info", -1, "server", "Tells what runs here")
        .with(&[Word::text("section").optional().multiple()]),
    Command::new("ping", -1, "connection", "Answers").with(MESSAGE),
    Command::new("quit", -1, "connection", "Ends the connection").for_strangers(),
    Command::new("reset", 1, "connection", "Makes this client a new one").for_strangers(),
    Command::new("select", 2, "connection", "There is one database, 0").with(&[Word::number("index")]),
    Command::new(
        "throttle",
        -5,
        "rate-limiting",
        "Takes permits at a rate given in seconds; answers as throttlecrab",
    )
    .keyed()
    .with(RATE),
    Command::new("tollgate.check", -4, "rate-limiting", "Asks the rules of a domain about a descriptor")
        .with(CHECK),
    Command::new("tollgate.throttle", -5, "rate-limiting", "As CL.THROTTLE, with all times in milliseconds")
        .keyed()
        .with(RATE),
];

/// The command of that name, in any letters.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
}

/// `COMMAND`, and its subcommands `COUNT`, `DOCS`, `INFO` and `LIST`.
pub(crate) fn command(words: Words<'_>, reply: &mut Reply<'_>) {
    let Some(sub) = words.get(1) else {
        reply.array(COMMANDS.len());
        return COMMANDS.iter().for_each(|command| info(command, reply));
    };
    let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
    if is("count") {
        reply.integer(COMMANDS.len() as i64);
    } else if is("list") {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| reply.bulk(command.name.as_bytes()));
    } else if is("info") && words.len() > 2 {
        reply.array(words.len() - 2);
        for name in words.from(2) {
            match find(name) {
                Some(command) => info(command, reply),
                None => reply.null_array(),
            }
        }
    } else if is("info") {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| info(command, reply));
    } else if is("docs") {
        let named: Vec<&Command> = match words.len() {
            2 => COMMANDS.iter().collect(),
            _ => words.from(2).filter_map(find).collect(),
        };
        reply.map(named.len());
        named.into_iter().for_each(|command| docs(command, reply));
    } else {
        crate::session::unknown_subcommand("COMMAND", sub, reply);
    }
}

/// The ten things that `COMMAND` tells of each.
fn info(command: &Command, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity);
    let flags: &[&str] = match (command.has_key, command.is_for_strangers) {
        (true, _) => &["write", "fast"],
        (_, true) => &["fast", "no_auth"],
        _ => &["fast"],
    };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let key = i64::from(command.has_key);
    [key, key, key].into_iter().for_each(|place| reply.integer(place)); // first key, last key, step
    for _ in ["ACL categories", "tips", "key specifications", "subcommands"] {
        reply.array(0);
    }
}

/// What `COMMAND DOCS` tells of each.
fn docs(command: &Command, reply: &mut Reply<'_>) {
    reply.bulk(command.name.as_bytes());
    reply.map(if command.words.is_empty() { 3 } else { 4 });
    for (key, text) in [("summary", command.summary), ("since", "0.1.0"), ("group", command.group)] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !command.words.is_empty() {
        reply.bulk(b"arguments");
        reply.array(command.words.len());
        command.words.iter().for_each(|word| word.docs(reply));
    }
}

impl Word {
    fn docs(&self, reply: &mut Reply<'_>) {
        let flags: Vec<&str> = [(self.is_optional, "optional"), (self.is_multiple, "multiple")]
            .into_iter()
            .filter_map(|(is, flag)| is.then_some(flag))
            .collect();
        reply.map(2 + usize::from(self.token.is_some()) + usize::from(!flags.is_empty()));
        for (key, text) in [("name", Some(self.name)), ("type", Some(self.kind)), ("token", self.token)] {
            if let Some(text) = text {
                reply.bulk(key.as_bytes());
                reply.bulk(text.as_bytes());
            }
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(flags.len());
            flags.into_iter().for_each(|flag| reply.simple(flag));
        }
    }
}
