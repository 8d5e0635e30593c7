//! The attribute of `stokehold-sdk`. Use it through that crate; what it expands to is private.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Error, Expr, ExprLit, FnArg, ItemFn, Lit, Meta, ReturnType};

/// Makes a function the handler of this module.
///
/// The function takes one `Job<T>` and returns a `Result`; it stays an ordinary function that
/// tests can call. One handler a module: a module is one kind of work.
///
/// ```ignore
/// #[stokehold_sdk::handler]
/// fn greet(job: Job<Greeting>) -> Result<String, Failure> {
///     Ok(format!("Hello, {}", job.payload.name))
/// }
/// ```
///
/// `#[handler(log = "debug")]` chooses how much of the `log` and `tracing` output is sent to the
/// host: `off`, `error`, `warn`, `info` (the default), `debug` or `trace`.
#[proc_macro_attribute]
pub fn handler(options: TokenStream, item: TokenStream) -> TokenStream {
    match expand(options.into(), item.into()) {
        Ok(tokens) => tokens.into(),
        Err(error) => error.into_compile_error().into(),
    }
}

fn expand(options: Tokens, item: Tokens) -> syn::Result<Tokens> {
    let level = log_level(options)?;
    let function: ItemFn = syn::parse2(item)?;
    check_signature(&function)?;
    let name = &function.sig.ident;
    Ok(quote! {
        #function

        const _: () = {
            struct Handler;
            impl ::stokehold_sdk::__private::Guest for Handler {
                fn handle(
                    job: ::stokehold_sdk::__private::Job,
                ) -> ::core::result::Result<
                    ::core::option::Option<::stokehold_sdk::__private::Blob>,
                    ::stokehold_sdk::__private::Verdict,
                > {
                    ::stokehold_sdk::__private::run(job, #level, #name)
                }
            }
            ::stokehold_sdk::__private::export!(
                Handler with_types_in ::stokehold_sdk::__private::bindings
            );
        };
    })
}

fn log_level(options: Tokens) -> syn::Result<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    if options.is_empty() {
        return Ok("info".into());
    }
    let wanted = "the only option is log = \"off|error|warn|info|debug|trace\"";
    let option: Meta = syn::parse2(options)?;
    let Meta::NameValue(pair) = &option else {
        return Err(Error::new_spanned(option, wanted));
    };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. })
            if pair.path.is_ident("log") && LEVELS.contains(&text.value().as_str()) =>
        {
            Ok(text.value())
        }
        _ => Err(Error::new_spanned(option, wanted)),
    }
}

fn check_signature(function: &ItemFn) -> syn::Result<()> {
    let signature = &function.sig;
    if let Some(word) = &signature.asyncness {
        return Err(Error::new_spanned(
            word,
            "a handler is an ordinary function, not an async one",
        ));
    }
    if !signature.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &signature.generics,
            "a handler names the type of its payload: it cannot be generic",
        ));
    }
    let one_argument =
        signature.inputs.len() == 1 && matches!(signature.inputs.first(), Some(FnArg::Typed(_)));
    if !one_argument {
        return Err(Error::new_spanned(
            signature,
            "a handler takes one argument: `job: Job<T>`, T being the type of its payload",
        ));
    }
    if matches!(signature.output, ReturnType::Default) {
        return Err(Error::new_spanned(
            signature,
            "a handler returns a Result: `Result<T, Failure>`, T being what it gives back",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(options: Tokens, item: Tokens) -> String {
        expand(options, item).expect_err("must be refused").to_string()
    }

    #[test]
    fn a_function_of_one_job_becomes_the_export() {
        let item = quote!(
            fn greet(job: Job<Name>) -> Result<String, Failure> {
                Ok(job.payload)
            }
        );
        let text = expand(Tokens::new(), item).expect("expands").to_string();
        assert!(text.contains("fn greet"));
        assert!(text.contains("run (job , \"info\" , greet)"));
    }

    #[test]
    fn the_log_level_can_be_chosen_and_a_wrong_one_is_refused() {
        assert_eq!(log_level(quote!(log = "debug")).expect("level"), "debug");
        assert!(
            refusal(
                quote!(log = "loud"),
                quote!(
                    fn f() {}
                )
            )
            .contains("the only option")
        );
        assert!(
            refusal(
                quote!(level = "info"),
                quote!(
                    fn f() {}
                )
            )
            .contains("the only option")
        );
    }

    #[test]
    fn signatures_that_cannot_work_are_refused_with_the_right_one() {
        let none = Tokens::new;
        assert!(
            refusal(
                none(),
                quote!(
                    async fn f(job: Job<u8>) -> R {}
                )
            )
            .contains("async")
        );
        assert!(
            refusal(
                none(),
                quote!(
                    fn f<T>(job: Job<T>) -> R {}
                )
            )
            .contains("generic")
        );
        assert!(
            refusal(
                none(),
                quote!(
                    fn f() -> R {}
                )
            )
            .contains("one argument")
        );
        assert!(
            refusal(
                none(),
                quote!(
                    fn f(job: Job<u8>) {}
                )
            )
            .contains("returns a Result")
        );
    }
}
