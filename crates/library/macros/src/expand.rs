//! The function with a check in front of its body.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, ReturnType, Stmt};

use crate::arguments::Arguments;

/// The limited function, or the function as it is and the error.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match limited(arguments, item.clone()) {
        Ok(function) => function,
        Err(error) => {
            // The function stays, so that its uses are not reported as further errors.
            let error = error.to_compile_error();
            quote!(#error #item)
        }
    }
}

fn limited(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let arguments: Arguments = syn::parse2(arguments)?;
    let mut function: ItemFn = syn::parse2(item.clone()).map_err(|error| {
        let message = format!("#[rate_limit] limits functions: {error}");
        syn::Error::new(item.span(), message)
    })?;
    if let Some(constness) = &function.sig.constness {
        return Err(syn::Error::new(
            constness.span(),
            "a const fn cannot be limited: it has nowhere to count",
        ));
    }
    let Arguments { app, name, need_permits, desc, .. } = &arguments;
    let key = key(&arguments, &function)?;
    let denied = on_denied(&arguments, &function)?;
    let quota = option(arguments.quota.as_ref());
    let template = option(arguments.template.as_ref());
    let check: Stmt = syn::parse2(quote! {
        {
            static RULE: ::tollgate::registry::Site =
                ::tollgate::registry::Site::new(#app, #name, #need_permits, #desc, #quota, #template);
            if let ::core::result::Result::Err(denied) = RULE.check(#key) {
                return #denied;
            }
        }
    })?;
    function.block.stmts.insert(0, check);
    Ok(function.into_token_stream())
}

fn option(value: Option<&impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

/// The expression of the key; an empty text if all calls share permits.
fn key(arguments: &Arguments, function: &ItemFn) -> syn::Result<TokenStream> {
    let Some(key) = &arguments.key else { return Ok(quote!("")) };
    let is_argument = key.root().is_some_and(|root| {
        function.sig.inputs.iter().any(|input| match input {
            FnArg::Receiver(_) => root == "self",
            FnArg::Typed(typed) => has(typed.pat.to_token_stream(), &root.to_string()),
        })
    });
    if !is_argument {
        let message = format!("{:?} is not an argument of {}", key.text.value(), function.sig.ident);
        return Err(syn::Error::new(key.text.span(), message));
    }
    let value = &key.value;
    let reference = quote_spanned!(key.text.span()=> &(#value));
    Ok(reference)
}

fn has(tokens: TokenStream, name: &str) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => has(group.stream(), name),
        _ => false,
    })
}

/// The value that a denied call returns.
fn on_denied(arguments: &Arguments, function: &ItemFn) -> syn::Result<TokenStream> {
    if let Some(fallback) = &arguments.fallback {
        return Ok(quote!(#fallback(denied)));
    }
    match &function.sig.output {
        ReturnType::Default => Err(syn::Error::new(
            function.sig.ident.span(),
            "a denied call has nothing to return: let the function return a Result, or write fallback = path",
        )),
        // Span of the return type, so that an error about it shows the place.
        ReturnType::Type(_, output) => {
            Ok(quote_spanned!(output.span()=> ::tollgate::registry::FromDenied::from_denied(denied)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &str, function: &str) -> Result<String, syn::Error> {
        let [arguments, function] = [arguments, function].map(|text| text.parse().expect("tokens"));
        limited(arguments, function).map(|tokens| tokens.to_string())
    }

    const F: &str = "fn f(id: u64) -> Result<(), E> { body() }";

    #[test]
    fn a_check_comes_before_the_body_and_all_else_stays() {
        for function in [
            F,
            "pub(crate) async fn f(&self, Path(id): Path<u64>) -> Result<(), E> { body().await }",
            "#[inline] pub unsafe fn f<T>(id: T) -> Result<T, E> where T: Clone { body() }",
        ] {
            let arguments = r#"app = "HOTEL_SIP", name = "TEST", need_permits = 2, desc = "d", key = "id""#;
            let got = expanded(arguments, function).expect("a function");
            let head = function.split('{').next().expect("a head").parse::<TokenStream>().expect("tokens");
            assert!(got.starts_with(&head.to_string()), "{got}");
            let check = got.find("RULE . check (& (id))");
            let body = got.find("body ()");
            assert!(check.is_some() && check < body, "{got}");
            assert!(got.contains(r#"Site :: new ("HOTEL_SIP" , "TEST" , 2u64 , "d" ,"#), "{got}");
        }
    }

    #[test]
    fn every_mistake_is_an_error_at_its_place_that_says_what_to_write() {
        for (arguments, function, place, want) in [
            ("", F, "", "missing app: write #[rate_limit(app = \"HOTEL_SIP\", name = \"TEST\")]"),
            (r#"app = "A""#, F, "", "missing name"),
            (r#"app = "A", nane = "B""#, F, "nane", "unknown argument nane"),
            (r#"app = "A", colour = "B""#, F, "colour", "expected app, name, need_permits, desc, quota"),
            (r#"app = "A", app = "B""#, F, "app", "app is given twice"),
            (r#"app = " ", name = "B""#, F, r#"" ""#, "empty name"),
            (r#"app = 1, name = "B""#, F, "1", "expected string literal"),
            (r#"app = "A" name = "B""#, F, "name", "expected `,`"),
            (r#"app = "A", name = "B", need_permits = 0"#, F, "0", "the smallest is 1"),
            (r#"app = "A", name = "B", need_permits = "1""#, F, r#""1""#, "expected integer literal"),
            (
                r#"app = "A", name = "B", quota = "10r/s""#,
                F,
                r#""10r/s""#,
                "invalid quota \"10r/s\": write 10/s",
            ),
            (r#"app = "A", name = "B", quota = "0/s""#, F, r#""0/s""#, "the smallest number is 1"),
            (r#"app = "A", name = "B", key = "user""#, F, r#""user""#, "\"user\" is not an argument of f"),
            (
                r#"app = "A", name = "B", key = "self.id""#,
                F,
                r#""self.id""#,
                "\"self.id\" is not an argument of f",
            ),
            (
                r#"app = "A", name = "B", key = "1 + 1""#,
                F,
                r#""1 + 1""#,
                "invalid key \"1 + 1\": name an argument",
            ),
            (r#"app = "A", name = "B", template = "{{waits}}""#, F, r#""{{waits}}""#, "unknown {{waits}}"),
            (r#"app = "A", name = "B", template = "{{limit""#, F, r#""{{limit""#, "{{ without }}"),
            (r#"app = "A", name = "B", template = "x", fallback = g"#, F, r#""x""#, "leave out one of both"),
            (r#"app = "A", name = "B""#, "fn f() { }", "f", "a denied call has nothing to return"),
            (
                r#"app = "A", name = "B""#,
                "const fn f() -> Option<u8> { }",
                "const",
                "a const fn cannot be limited",
            ),
            (r#"app = "A", name = "B""#, "struct S;", "struct S;", "#[rate_limit] limits functions"),
        ] {
            let error = expanded(arguments, function).expect_err(arguments);
            assert!(error.to_string().contains(want), "{arguments} {function}: {error}");
            // The compiler underlines the wrong argument, or the attribute if an argument is missing.
            let underlined = error.span().source_text().unwrap_or_default();
            assert_eq!(underlined, place, "{arguments} {function}: {error}");
        }
        // With a fallback, a function may return anything.
        for function in ["fn f() { }", "fn f() -> impl T { }"] {
            let got =
                expanded(r#"app = "A", name = "B", fallback = other::g"#, function).expect("a function");
            assert!(got.contains("return other :: g (denied)"), "{got}");
        }
    }
}
