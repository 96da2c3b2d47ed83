//! Arguments between the parentheses of the attribute.

use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitInt, LitStr, Path, Token};
use tollgate_human_text::{did_you_mean, one_of};

use crate::rate;

const NAMES: [&str; 8] = ["app", "name", "need_permits", "desc", "quota", "key", "template", "fallback"];

/// Placeholders of templates.
const PLACEHOLDERS: [&str; 11] = [
    "retry_after",
    "retry_after_ms",
    "limit",
    "remaining",
    "reset_after",
    "reset_after_ms",
    "window",
    "policy",
    "rule",
    "domain",
    "detail",
];

/// The arguments, checked.
pub(crate) struct Arguments {
    pub(crate) app: LitStr,
    pub(crate) name: LitStr,
    pub(crate) need_permits: u64,
    pub(crate) desc: String,
    pub(crate) quota: Option<LitStr>,
    pub(crate) key: Option<KeyArgument>,
    pub(crate) template: Option<LitStr>,
    pub(crate) fallback: Option<Path>,
}

/// An argument of the function, or a field of one: `id`, `user.id`.
pub(crate) struct KeyArgument {
    pub(crate) text: LitStr,
    pub(crate) value: Expr,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut app = None;
        let mut name = None;
        let mut need_permits = None;
        let mut desc = None;
        let mut quota = None;
        let mut key = None;
        let mut template = None;
        let mut fallback = None;
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            let argument = input.call(Ident::parse_any)?;
            let called = argument.to_string();
            if !NAMES.contains(&called.as_str()) {
                return Err(syn::Error::new(argument.span(), unknown(&called)));
            }
            if seen.contains(&called) {
                return Err(syn::Error::new(argument.span(), format!("{called} is given twice")));
            }
            input.parse::<Token![=]>()?;
            match called.as_str() {
                "app" => app = Some(text(input, "HOTEL_SIP")?),
                "name" => name = Some(text(input, "TEST")?),
                "need_permits" => need_permits = Some(permits(input)?),
                "desc" => desc = Some(input.parse::<LitStr>()?.value()),
                "quota" => {
                    let text = input.parse::<LitStr>()?;
                    if let Some(fault) = rate::fault(&text.value()) {
                        return Err(syn::Error::new(text.span(), fault));
                    }
                    quota = Some(text);
                }
                "key" => key = Some(KeyArgument::of(input.parse()?)?),
                "template" => {
                    let text = input.parse::<LitStr>()?;
                    if let Some(fault) = template_fault(&text.value()) {
                        return Err(syn::Error::new(text.span(), fault));
                    }
                    template = Some(text);
                }
                _ => fallback = Some(input.parse::<Path>()?),
            }
            seen.push(called);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if let (Some(template), Some(_)) = (&template, &fallback) {
            return Err(syn::Error::new(
                template.span(),
                "a fallback makes the reply itself: leave out one of both",
            ));
        }
        let missing = |argument: &str| {
            let message =
                format!("missing {argument}: write #[rate_limit(app = \"HOTEL_SIP\", name = \"TEST\")]");
            syn::Error::new(Span::call_site(), message)
        };
        Ok(Self {
            app: app.ok_or_else(|| missing("app"))?,
            name: name.ok_or_else(|| missing("name"))?,
            need_permits: need_permits.unwrap_or(1),
            desc: desc.unwrap_or_default(),
            quota,
            key,
            template,
            fallback,
        })
    }
}

impl KeyArgument {
    fn of(text: LitStr) -> syn::Result<Self> {
        let invalid = || {
            let message =
                format!("invalid key {:?}: name an argument, such as \"id\" or \"user.id\"", text.value());
            syn::Error::new(text.span(), message)
        };
        let value = text.parse::<Expr>().map_err(|_| invalid())?;
        let key = Self { text: text.clone(), value };
        key.root().is_some().then_some(key).ok_or_else(invalid)
    }

    /// The argument that it begins with.
    pub(crate) fn root(&self) -> Option<&Ident> {
        let mut value = &self.value;
        loop {
            match value {
                Expr::Field(field) => value = &field.base,
                Expr::MethodCall(call) => value = &call.receiver,
                Expr::Path(path) => return path.path.get_ident(),
                _ => return None,
            }
        }
    }
}

fn unknown(called: &str) -> String {
    match did_you_mean(called, &NAMES) {
        Some(meant) => format!("unknown argument {called}: {meant}"),
        None => format!("unknown argument {called}: expected {}", one_of(&NAMES)),
    }
}

/// A name that is not empty.
fn text(input: ParseStream<'_>, example: &str) -> syn::Result<LitStr> {
    let text = input.parse::<LitStr>()?;
    if text.value().trim().is_empty() {
        return Err(syn::Error::new(text.span(), format!("empty name: write something like \"{example}\"")));
    }
    Ok(text)
}

fn permits(input: ParseStream<'_>) -> syn::Result<u64> {
    let number = input.parse::<LitInt>()?;
    match number.base10_parse::<u64>() {
        Ok(permits @ 1..) => Ok(permits),
        _ => Err(syn::Error::new(number.span(), "invalid number of permits: the smallest is 1")),
    }
}

fn template_fault(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else {
            return Some("invalid template: {{ without }}".to_owned());
        };
        if !PLACEHOLDERS.contains(&name.trim()) {
            let expected = one_of(&PLACEHOLDERS);
            return Some(format!("invalid template: unknown {{{{{name}}}}}: expected {expected}"));
        }
        rest = after;
    }
    None
}
