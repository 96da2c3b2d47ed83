//! The commands that there are, and their table: names, arity, and what `COMMAND` reports of each.
//!
//! A name is compared here and nowhere else: from then on a command is a [`Command`].

use crate::throttle::Form;

/// A command, by the way it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Asks for a decision, which is made together with others.
    Decide(Decision),
    /// Is answered at once.
    Standard(Standard),
}

/// A command that asks for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Brings its own rate.
    Throttle(Form),
    /// `TOLLGATE.CHECK`: asks the rules.
    Check,
    /// `TOLLGATE.ACQUIRE` or `TOLLGATE.RELEASE`.
    Slot(SlotAction),
}

/// Operation on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotAction {
    /// Take or renew it.
    Acquire,
    /// Give it back.
    Release,
}

/// A command that every Redis client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standard {
    Auth,
    Client,
    Command,
    Config,
    Echo,
    Hello,
    Info,
    Ping,
    Quit,
    Reset,
    Select,
}

impl Command {
    /// The command called `name`, in upper or lower case.
    #[inline]
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        // As nearly all clients write them.
        match name {
            b"CL.THROTTLE" => Some(throttle(Form::Cell)),
            b"THROTTLE" => Some(throttle(Form::Crab)),
            b"TOLLGATE.THROTTLE" => Some(throttle(Form::Millis)),
            b"TOLLGATE.CHECK" => Some(Self::Decide(Decision::Check)),
            _ => find(name).map(|spec| spec.command),
        }
    }

    /// Its row of the table.
    pub(crate) fn spec(self) -> &'static Spec {
        let row = SPECS.iter().find(|spec| spec.command == self);
        row.unwrap_or_else(|| unreachable!("every command has a row: {self:?}"))
    }
}

const fn throttle(form: Form) -> Command {
    Command::Decide(Decision::Throttle(form))
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Spec {
    command: Command,
    /// In lower case.
    pub(crate) name: &'static str,
    /// Number of arguments, its name included; if negative, the least number.
    pub(crate) arity: i64,
    /// Allowed before authentication.
    pub(crate) allows_anonymous: bool,
    /// Its first argument is a key.
    pub(crate) has_key: bool,
    pub(crate) group: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) parameters: &'static [Parameter],
}

/// One parameter of a command, for hints.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    /// The word in front of it.
    pub(crate) token: Option<&'static str>,
    pub(crate) is_optional: bool,
    pub(crate) is_multiple: bool,
}

impl Spec {
    /// Whether the command takes that many arguments, its name included.
    pub(crate) fn takes(&self, arguments: usize) -> bool {
        let arguments = i64::try_from(arguments).unwrap_or(i64::MAX);
        if self.arity < 0 { arguments >= -self.arity } else { arguments == self.arity }
    }

    /// A command that asks for a decision.
    const fn decision(command: Command, name: &'static str, arity: i64, summary: &'static str) -> Self {
        Self::new(command, name, arity, "rate-limiting", summary)
    }

    const fn connection(command: Standard, name: &'static str, arity: i64, summary: &'static str) -> Self {
        Self::new(Command::Standard(command), name, arity, "connection", summary)
    }

    const fn server(command: Standard, name: &'static str, arity: i64, summary: &'static str) -> Self {
        Self::new(Command::Standard(command), name, arity, "server", summary)
    }

    const fn new(
        command: Command,
        name: &'static str,
        arity: i64,
        group: &'static str,
        summary: &'static str,
    ) -> Self {
        let allows_anonymous = false;
        let has_key = false;
        let parameters = &[];
        Self { command, name, arity, allows_anonymous, has_key, group, summary, parameters }
    }

    const fn allow_anonymous(self) -> Self {
        Self { allows_anonymous: true, ..self }
    }

    const fn with(self, parameters: &'static [Parameter]) -> Self {
        Self { parameters, ..self }
    }

    const fn keyed(self) -> Self {
        Self { has_key: true, ..self }
    }
}

impl Parameter {
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

const DEGRADED: Parameter =
    Parameter { kind: "pure-token", ..Parameter::text("withdegraded") }.after("WITHDEGRADED").optional();
const RATE: &[Parameter] = &[
    Parameter { kind: "key", ..Parameter::text("key") },
    Parameter::number("max_burst"),
    Parameter::number("count"),
    Parameter::number("period"),
    Parameter::number("quantity").optional(),
    DEGRADED,
];
const CHECK: &[Parameter] = &[
    Parameter::text("domain"),
    Parameter::text("key value").multiple(),
    Parameter::number("n").after("COST").optional(),
    Parameter::number("n").after("CONSUMED").optional(),
    DEGRADED,
];
const ACQUIRE: &[Parameter] = &[
    Parameter::text("domain"),
    Parameter::text("key value").multiple(),
    Parameter::text("id").after("ID").optional(),
    DEGRADED,
];
const RELEASE: &[Parameter] =
    &[Parameter::text("domain"), Parameter::text("key value").multiple(), Parameter::text("id").after("ID")];
const MESSAGE: &[Parameter] = &[Parameter::text("message").optional()];
const USER: &[Parameter] = &[Parameter::text("username").optional(), Parameter::text("password")];
const VERSION: &[Parameter] = &[Parameter::number("protover").optional()];

/// Every command, by name.
pub(crate) static SPECS: [Spec; 17] = [
    Spec::connection(Standard::Auth, "auth", -2, "Authenticates the connection").allow_anonymous().with(USER),
    Spec::decision(
        throttle(Form::Cell),
        "cl.throttle",
        -5,
        "Takes permits at the given rate, in seconds; replies as redis-cell",
    )
    .keyed()
    .with(RATE),
    Spec::connection(Standard::Client, "client", -2, "Reads or sets properties of this connection"),
    Spec::server(Standard::Command, "command", -1, "Lists the commands"),
    Spec::server(Standard::Config, "config", -2, "CONFIG GET reports that nothing is persisted"),
    Spec::connection(Standard::Echo, "echo", 2, "Returns its argument").with(&[Parameter::text("message")]),
    Spec::connection(Standard::Hello, "hello", -1, "Selects the protocol version")
        .allow_anonymous()
        .with(VERSION),
    Spec::server(Standard::Info, "info", -1, "Reports versions, counters and state")
        .with(&[Parameter::text("section").optional().multiple()]),
    Spec::connection(Standard::Ping, "ping", -1, "Returns PONG or its argument").with(MESSAGE),
    Spec::connection(Standard::Quit, "quit", -1, "Closes the connection").allow_anonymous(),
    Spec::connection(Standard::Reset, "reset", 1, "Resets the connection to its initial state")
        .allow_anonymous(),
    Spec::connection(Standard::Select, "select", 2, "Accepts database 0, the only one")
        .with(&[Parameter::number("index")]),
    Spec::decision(
        throttle(Form::Crab),
        "throttle",
        -5,
        "Takes permits at the given rate, in seconds; replies as throttlecrab",
    )
    .keyed()
    .with(RATE),
    Spec::decision(
        Command::Decide(Decision::Slot(SlotAction::Acquire)),
        "tollgate.acquire",
        -4,
        "Takes or renews a slot of a limit on what runs at the same time",
    )
    .with(ACQUIRE),
    Spec::decision(
        Command::Decide(Decision::Check),
        "tollgate.check",
        -4,
        "Checks a descriptor against the rules of a domain",
    )
    .with(CHECK),
    Spec::decision(
        Command::Decide(Decision::Slot(SlotAction::Release)),
        "tollgate.release",
        -6,
        "Gives a slot back; returns whether it was held",
    )
    .with(RELEASE),
    Spec::decision(
        throttle(Form::Millis),
        "tollgate.throttle",
        -5,
        "Takes permits at the given rate, in milliseconds; replies as CL.THROTTLE",
    )
    .keyed()
    .with(RATE),
];

/// The row of the command called `name`, in upper or lower case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| name.eq_ignore_ascii_case(spec.name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_one_row_and_is_found_by_its_name() {
        for spec in &SPECS {
            for name in [spec.name.to_owned(), spec.name.to_uppercase()] {
                assert_eq!(Command::named(name.as_bytes()), Some(spec.command), "{name}");
            }
            assert_eq!(spec.command.spec().name, spec.name);
        }
        for form in [Form::Cell, Form::Crab, Form::Millis] {
            assert_eq!(throttle(form).spec().name, form.name());
        }
        assert_eq!(Command::named(b"GET"), None);
    }
}
