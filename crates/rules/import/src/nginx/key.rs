//! The key of a zone: its variables, the origin of their values, and the way in which nginx sends each of
//! them.

/// Variables that have a value in every request.
const NEVER_EMPTY: &[&str] = &[
    "binary_remote_addr",
    "connection",
    "document_root",
    "document_uri",
    "host",
    "hostname",
    "nginx_version",
    "pid",
    "remote_addr",
    "remote_port",
    "request",
    "request_id",
    "request_method",
    "request_uri",
    "scheme",
    "server_addr",
    "server_port",
    "server_protocol",
    "uri",
];

/// Variables whose characters no client chooses.
const CHOSEN_BY_NGINX: &[&str] = &[
    "connection",
    "connection_requests",
    "hostname",
    "https",
    "nginx_version",
    "pid",
    "proxy_protocol_addr",
    "proxy_protocol_port",
    "realip_remote_addr",
    "realip_remote_port",
    "remote_addr",
    "remote_port",
    "request_id",
    "scheme",
    "server_addr",
    "server_name",
    "server_port",
    "server_protocol",
];

/// Variables that a client sets and that have the same value in a subrequest, without a line break.
const SAME_IN_A_SUBREQUEST: &[&str] =
    &["content_length", "content_type", "host", "request_method", "request_uri"];

/// Variables that a client sets and that have another value in a subrequest, without a line break.
const RAW: &[&str] = &["args", "is_args", "query_string", "request"];

/// Way in which the value of a variable gets from nginx to Tollgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In the URL of the subrequest.
    Url,
    /// In a header field.
    Field,
    /// In a header field, from a variable that the limited place sets: a subrequest has another value.
    Set,
    /// As [`Way::Set`], without control characters: a line break in it would begin a field of its own.
    Checked,
}

/// A variable of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyVariable {
    /// Name without the dollar sign; the client's address is `remote_addr`.
    pub(super) variable: String,
    /// Key of the entry that has its value.
    pub(super) entry: String,
}

impl KeyVariable {
    /// A variable. The client's address has the name that rule files use.
    fn of(name: &str) -> Self {
        match name {
            "binary_remote_addr" | "remote_addr" => Self::client(),
            name => Self { variable: name.to_owned(), entry: name.to_owned() },
        }
    }

    /// The client's address.
    pub(super) fn client() -> Self {
        Self { variable: "remote_addr".to_owned(), entry: "remote_address".to_owned() }
    }

    /// Whether its value is an address that nginx has read or checked.
    pub(super) fn is_address(&self) -> bool {
        matches!(self.variable.as_str(), "remote_addr" | "realip_remote_addr" | "proxy_protocol_addr")
    }

    /// Whether some requests have no value.
    pub(super) fn may_be_empty(&self) -> bool {
        !NEVER_EMPTY.contains(&self.variable.as_str())
    }

    /// Way in which nginx sends the value.
    pub(super) fn way(&self) -> Way {
        let name = self.variable.as_str();
        let is_any = |names: &[&str], prefixes: &[&str]| {
            names.contains(&name) || prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        if is_any(CHOSEN_BY_NGINX, &[]) {
            Way::Url
        } else if is_any(SAME_IN_A_SUBREQUEST, &["http_", "cookie_"]) {
            Way::Field
        } else if is_any(RAW, &["arg_"]) {
            Way::Set
        } else {
            // The values are decoded, such as `$uri` and `$remote_user`, or contain any characters.
            Way::Checked
        }
    }

    /// The field that has its value, unless the URL has it.
    pub(super) fn field(&self) -> String {
        let mut field = "X-Limit".to_owned();
        for word in self.entry.split('_').filter(|word| !word.is_empty()) {
            let (first, rest) = word.split_at(1);
            field.push('-');
            field.push_str(&first.to_ascii_uppercase());
            field.push_str(rest);
        }
        field
    }

    /// The variable that the field is set from.
    pub(super) fn sent(&self) -> String {
        match self.way() {
            Way::Url | Way::Field => self.variable.clone(),
            Way::Set | Way::Checked => format!("tollgate_{}", self.variable),
        }
    }
}

/// A piece of a text with variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// The variable's name, without the dollar sign.
    Variable(&'a str),
}

/// The pieces of a text, in order; none of them is empty.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let named =
            |text: &'_ str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => {
                let (name, behind) = braced.split_at(named(braced));
                (name, behind.strip_prefix('}').unwrap_or(behind))
            }
            None => after.split_at(named(after)),
        };
        pieces.extend([Piece::Text(before), Piece::Variable(name)]);
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| !matches!(piece, Piece::Text("") | Piece::Variable("")));
    pieces
}

/// The variables of a key, each once.
pub(super) fn keys(text: &str) -> Vec<KeyVariable> {
    let mut keys: Vec<KeyVariable> = Vec::new();
    for piece in pieces(text) {
        if let Piece::Variable(name) = piece {
            let key = KeyVariable::of(name);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys
}

/// Whether a key has text besides its variables.
pub(super) fn has_literals(text: &str) -> bool {
    pieces(text).iter().any(|piece| matches!(piece, Piece::Text(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_can_write_never_travels_in_the_url() {
        for (variable, way, field, sent) in [
            ("remote_addr", Way::Url, "X-Limit-Remote-Address", "remote_addr"),
            ("binary_remote_addr", Way::Url, "X-Limit-Remote-Address", "remote_addr"),
            ("server_name", Way::Url, "X-Limit-Server-Name", "server_name"),
            ("request_uri", Way::Field, "X-Limit-Request-Uri", "request_uri"),
            ("http_x_api_key", Way::Field, "X-Limit-Http-X-Api-Key", "http_x_api_key"),
            ("cookie_id", Way::Field, "X-Limit-Cookie-Id", "cookie_id"),
            ("host", Way::Field, "X-Limit-Host", "host"),
            // A subrequest has another URI and other arguments.
            ("args", Way::Set, "X-Limit-Args", "tollgate_args"),
            ("arg_user", Way::Set, "X-Limit-Arg-User", "tollgate_arg_user"),
            // The value is decoded and may have a line break.
            ("uri", Way::Checked, "X-Limit-Uri", "tollgate_uri"),
            ("remote_user", Way::Checked, "X-Limit-Remote-User", "tollgate_remote_user"),
            ("limit_key", Way::Checked, "X-Limit-Limit-Key", "tollgate_limit_key"),
            ("1", Way::Checked, "X-Limit-1", "tollgate_1"),
        ] {
            let key = KeyVariable::of(variable);
            let came = (key.way(), key.field(), key.sent());
            assert_eq!(came, (way, field.to_owned(), sent.to_owned()), "{variable}");
        }
    }

    #[test]
    fn a_text_is_cut_into_its_variables_and_the_rest() {
        use Piece::{Text, Variable};
        for (text, want) in [
            ("", &[][..]),
            ("all", &[Text("all")]),
            ("$a", &[Variable("a")]),
            ("${a}b$c.d", &[Variable("a"), Text("b"), Variable("c"), Text(".d")]),
            ("$", &[]),
            ("${a", &[Variable("a")]),
            ("${é}", &[Text("é}")]),
            ("$a$a", &[Variable("a"), Variable("a")]),
        ] {
            assert_eq!(pieces(text), want, "{text}");
        }
        assert_eq!(keys("$a$remote_addr$a$binary_remote_addr").len(), 2);
    }
}
