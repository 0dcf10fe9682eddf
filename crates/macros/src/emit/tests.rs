//! The emitted code is Rust, and is complete even where the user's code has errors.

use super::*;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::ItemImpl;

const COUNTER: &str = "
    /// Counts.
    pub(crate) trait Counter {
        /// Adds.
        async fn add(&self, n: u64) -> u64;
        async fn describe(&self, r#type: S) -> Result<Vec<Description>, Fault>;
        #[oneway]
        async fn reset(&self);
    }";

fn emitted(options: &str, code: &str) -> syn::File {
    let tokens = service(options.parse().unwrap(), code.parse().unwrap());
    syn::parse2(tokens).expect("what is emitted is Rust")
}

/// Returns code without blanks, which do not matter.
fn text(code: impl ToTokens) -> String {
    code.to_token_stream().to_string().replace(' ', "")
}

fn types(file: &syn::File) -> BTreeSet<String> {
    let names = file.items.iter().filter_map(|item| match item {
        Item::Struct(item) => Some(item.ident.to_string()),
        Item::Trait(item) => Some(item.ident.to_string()),
        Item::Enum(item) => Some(item.ident.to_string()),
        _ => None,
    });
    names.collect()
}

fn names(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(ToString::to_string).collect()
}

const COUNTER_TYPES: &[&str] = &[
    "Counter",
    "CounterServer",
    "CounterClient",
    "CounterHandle",
    "CounterBlocking",
    "CounterFilling",
    "CounterCaller",
    "CounterLocal",
    "CounterWithOptions",
];

/// The head and body of a method of the type with that name.
fn method(file: &syn::File, of: &str, name: &str) -> String {
    let impls = file.items.iter().filter_map(|item| match item {
        Item::Impl(ItemImpl { self_ty, items, .. }) if text(self_ty).starts_with(of) => Some(items),
        _ => None,
    });
    let found = impls.flatten().find_map(|item| match item {
        syn::ImplItem::Fn(function) if function.sig.ident == name => {
            Some(format!("{}{}{}", text(&function.vis), text(&function.sig), text(&function.block)))
        }
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{of} has no {name}"))
}

#[test]
fn the_trait_returns_futures() {
    let file = emitted("", COUNTER);
    assert_eq!(types(&file), names(COUNTER_TYPES));
    let Item::Trait(written) = &file.items[0] else { panic!("the trait comes first") };
    let text = text(written);
    assert!(text.contains("fnadd(&self,n:u64)->impl::core::future::Future<Output=u64>;"), "{text}");
    assert!(text.contains("fnreset(&self)->impl::core::future::Future<Output=()>;"), "{text}");
    assert!(!text.contains("oneway") && text.contains("#[doc=\"Adds.\"]"), "{text}");
}

#[test]
fn the_stubs_say_the_place_and_the_name_of_the_method() {
    let file = emitted("", COUNTER);
    for (of, name, expected) in [
        (
            "CounterClient",
            "add",
            "pub(crate)fnadd(&self,n:u64)->::upbeat::call::Call<'_,(u64,),u64>\
             {self.bound.call(0,\"add\",(n,))}",
        ),
        (
            "CounterClient",
            "describe",
            "pub(crate)fndescribe(&self,r#type:S)\
             ->::upbeat::call::TryCall<'_,(S,),Vec<Description>,Fault>\
             whereS:::upbeat::wire::Wire,Description:::upbeat::wire::Wire,\
             Fault:::upbeat::wire::Wire\
             {self.bound.try_call(1,\"describe\",(r#type,))}",
        ),
        (
            "CounterHandle",
            "reset",
            "pub(crate)fnreset(&self)->::upbeat::handle::HandleSend<'_,()>\
             {self.handle.send(2,\"reset\",())}",
        ),
        (
            "CounterBlocking",
            "add",
            "pub(crate)fnadd(&self,n:u64)->::core::result::Result<u64,::upbeat::CallError>\
             {self.blocking.call(0,\"add\",(n,))}",
        ),
        (
            "CounterFilling",
            "describe",
            "pub(crate)fndescribe(self,r#type:S)\
             ->::core::result::Result<<Vec<Description>as::upbeat::wire::Fills<B>>::Filled,\
             ::upbeat::CallError<Fault>>\
             whereS:::upbeat::wire::Wire,Description:::upbeat::wire::Wire,\
             Fault:::upbeat::wire::Wire,\
             Vec<Description>:::upbeat::wire::Fills<B>\
             {self.filling.try_call::<_,Vec<Description>,Fault>(1,\"describe\",(r#type,))}",
        ),
    ] {
        assert_eq!(method(&file, of, name), expected);
    }
}

#[test]
fn arguments_by_reference_are_passed_as_they_are() {
    let code = "trait Store {
        async fn put(&self, key: &str, n: u64) -> u64;
        #[method(nack)] async fn place(&self, order: &Order) -> u8;
    }";
    let file = emitted("", code);
    for (of, name, expected) in [
        (
            "StoreClient",
            "put",
            "fnput<'call>(&'callself,key:&'callstr,n:u64)\
             ->::upbeat::call::Call<'call,::upbeat::wire::Passed<(::upbeat::wire::ByRef<'call,str>,u64,)>,\
             u64>{self.bound.call(0,\"put\",::upbeat::wire::Passed((::upbeat::wire::ByRef(key),n,)))}",
        ),
        (
            "StoreBlocking",
            "place",
            "fnplace(&self,order:&Order)->::core::result::Result<u8,::upbeat::CallError>\
             whereOrder:::upbeat::wire::Wire{self.blocking.call(1,\"place\",\
             ::upbeat::wire::Passed((::upbeat::wire::ByRef(order),)))}",
        ),
    ] {
        assert_eq!(method(&file, of, name), expected);
    }
    let methods = method(&file, "StoreServer<S>", "methods");
    assert!(
        methods.contains("<SasStore>::put(&*service,&*argument0,argument1).await"),
        "{methods}"
    );
    let signatures = method(&file, "StoreClient", "signatures");
    assert!(signatures.contains("::<(::std::string::String,u64,),u64>(\"Store\""), "{signatures}");
}

#[test]
fn long_arrays_stay_in_memory_that_their_method_keeps() {
    let code = "trait Pages {
        async fn write(&self, at: u64, page: [u8; 4096]);
        async fn small(&self, key: [u8; 16]);
    }";
    let file = emitted("", code);
    let client = method(&file, "PagesClient", "write");
    assert!(client.contains("self.bound.call(0,\"write\",(at,page,))"), "{client}");
    let methods = method(&file, "PagesServer<S>", "methods");
    assert!(methods.contains("Passed<(u64,::upbeat::wire::Received<[u8;4096]>,)>"), "{methods}");
    assert!(methods.contains("<SasPages>::write(&*service,argument0,*argument1)"), "{methods}");
    assert!(methods.contains("<([u8;16],),(),_>(\"small\""), "{methods}");
}

/// The implementation of the trait of callers for a type.
fn caller(file: &syn::File, of: &str) -> String {
    let found = file.items.iter().find(|item| match item {
        Item::Impl(item) => {
            let of_callers = |path: &syn::Path| text(path).ends_with("Caller");
            let is_of_callers = item.trait_.as_ref().is_some_and(|(_, path, _)| of_callers(path));
            is_of_callers && text(&item.self_ty).starts_with(of)
        }
        _ => false,
    });
    text(found.unwrap_or_else(|| panic!("{of} is no caller")))
}

#[test]
fn one_trait_is_common_to_all_who_call() {
    let file = emitted("", COUNTER);
    let is_it = |item: &&Item| matches!(item, Item::Trait(item) if item.ident == "CounterCaller");
    let written = text(file.items.iter().find(is_it));
    for expected in [
        "pub(crate)traitCounterCaller{",
        "#[doc=\"Adds.\"]fnadd(&self,n:u64)->impl::core::future::Future<\
         Output=::core::result::Result<u64,::upbeat::CallError>>;",
        "Output=::core::result::Result<Vec<Description>,::upbeat::CallError<Fault>>>;",
        "fnreset(&self)->impl::core::future::Future<Output=::core::result::Result<(),::upbeat::CallError>>;",
        "fndeadline(&self,after:::core::time::Duration)->CounterWithOptions<'_,Self>{",
        "{self.add(n)}",
    ] {
        assert!(written.contains(expected), "{expected} in {written}");
    }
    for (of, expected) in [
        ("CounterClient", "{CounterClient::add(self,n)}"),
        ("CounterClient", "{CounterClient::add(self,n).options(__options)}"),
        (
            "CounterWithOptions",
            "{<ServiceasCounterCaller>::__with_options_add(self.caller,&self.options,n)}",
        ),
        ("CounterHandle", "{CounterHandle::reset(self)}"),
        (
            "CounterLocal",
            "{::core::result::Result::Ok(<ServiceasCounter>::reset(&self.service).await)}",
        ),
        ("CounterLocal", "describe(&self.service,r#type).await),::upbeat::CallError::Method)}"),
    ] {
        let caller = caller(&file, of);
        assert!(caller.contains(expected), "{expected} in {caller}");
    }
    let file = emitted("", "trait Store { async fn put(&self, key: &str, n: u64) -> u64; }");
    let client = caller(&file, "StoreClient");
    let put = "asyncfnput(&self,key:&str,n:u64)->::core::result::Result<u64,::upbeat::CallError>";
    assert!(
        client.contains(put) && client.contains("StoreClient::put(self,key,n).await"),
        "{client}"
    );
}

#[test]
fn a_message_whose_last_argument_is_read_in_place_can_be_built_in_place() {
    let code = "trait Store {
        async fn put(&self, key: u64, page: InPlace<u8>) -> u64;
        async fn swap(&self, page: upbeat::InPlace<[u8; 16]>) -> Result<u64, Fault>;
        #[oneway] async fn note(&self, text: InPlace<u8>);
        async fn first(&self, page: InPlace<u8>, key: u64);
        #[method(nack)] async fn again(&self, page: InPlace<u8>);
        async fn taken(&self, page: InPlace<u8>);
        async fn loan_taken(&self);
    }";
    let file = emitted("", code);
    for (name, expected) in [
        (
            "loan_put",
            "fnloan_put(&self,key:u64,page_items:usize)->::upbeat::call::Loaning<'_,(u64,),u8,\
             ::upbeat::call::Whole<u64>>whereInPlace<u8>:::upbeat::wire::Wire\
             {self.bound.loan(0,\"put\",(key,),page_items)}",
        ),
        (
            "loan_swap",
            "fnloan_swap(&self,page_items:usize)->::upbeat::call::Loaning<'_,(),[u8;16],\
             ::upbeat::call::Split<u64,Fault>>\
             whereupbeat::InPlace<[u8;16]>:::upbeat::wire::Wire,Fault:::upbeat::wire::Wire\
             {self.bound.loan(1,\"swap\",(),page_items)}",
        ),
        (
            "loan_note",
            "fnloan_note(&self,text_items:usize)->::upbeat::call::Loaning<'_,(),u8,()>whereInPlace<u8>:::upbeat::wire::Wire\
             {self.bound.loan(2,\"note\",(),text_items)}",
        ),
    ] {
        assert_eq!(method(&file, "StoreClient", name), expected);
    }
    let text = text(&file);
    assert!(!text.contains("fnloan_first") && !text.contains("fnloan_again"));
    assert_eq!(text.matches("fnloan_taken(&self,page").count(), 0);
}

#[test]
fn the_server_does_not_take_the_names_of_others() {
    let file = emitted("", COUNTER);
    let methods = method(&file, "CounterServer<Service>", "methods");
    assert!(methods.contains("<ServiceasCounter>::add(&*service,argument0).await"), "{methods}");
    assert!(methods.contains("methods.oneway::<(),_>(\"reset\","), "{methods}");
    let plain = emitted("", "trait Empty { async fn f(&self); }");
    method(&plain, "EmptyServer<S>", "methods");
}

#[test]
fn the_runtime_may_have_another_name() {
    let file = emitted("crate = my::beat", COUNTER);
    assert!(!text(&file).contains("::upbeat::"));
    assert!(text(&file).contains("my::beat::call::Bound"));
}

#[test]
fn methods_under_a_condition_have_their_places_counted_by_the_compiler() {
    let file = emitted("", "trait C { #[cfg(unix)] async fn a(&self); async fn b(&self); }");
    assert!(types(&file).contains("CMethodIndex"));
    assert!(method(&file, "CClient", "b").contains("CMethodIndex::basusize"));
    let entries = text(&file).matches("#[cfg(unix)]").count();
    // The method is in the trait, twice, in the index, the server, the signatures, the three stubs, the trait of
    // callers, and in that trait for the client, the handle and the plain implementation; then in the callers with
    // options, which call each of these.
    assert_eq!(entries, 17);
}

#[test]
fn something_wrong_leaves_everything_to_be_used() {
    for (options, code) in [
        (
            "",
            "trait Counter { fn add(&self, n: &str, m: &u8) -> &str; async fn good(&self) -> u8; }",
        ),
        ("", "trait Counter<T> { async fn add(&mut self, n: T) -> Vec<T>; }"),
        ("", "trait Counter { type T; async fn add<U: Copy>(n: U) -> Self::T {} }"),
        ("unknown", "trait Counter { async fn add(&self); }"),
    ] {
        let file = emitted(options, code);
        assert_eq!(types(&file), names(COUNTER_TYPES), "{code}");
        assert!(text(&file).contains("compile_error!"), "{code}");
    }
}

#[test]
fn documents_with_links_are_where_the_links_lead_somewhere() {
    let code = "trait Log {
        /// Adds, unlike [`Self::reset`].
        async fn read(&self) -> Vec<u8>;
        #[oneway]
        async fn reset(&self);
    }";
    let file = emitted("", code);
    let copies = |of: &str| {
        let all = file.items.iter().filter(|item| match item {
            Item::Impl(item) => item.trait_.is_none() && text(&item.self_ty).starts_with(of),
            _ => false,
        });
        all.map(|item| text(item).matches("[`Self::reset`]").count()).sum::<usize>()
    };
    assert_eq!((copies("LogClient"), copies("LogBlocking")), (1, 1));
    assert_eq!(copies("LogFilling"), 0);
}

#[test]
fn what_is_no_trait_stays_as_it_is() {
    for code in ["struct Counter { a: u8 }", "fn f() {}", "mod m {}"] {
        let file = emitted("", code);
        assert_eq!(file.items.len(), 2, "{code}");
        assert_eq!(text(&file.items[0]), code.replace(' ', ""));
        assert!(
            text(&file.items[1]).contains("goesonthetrait")
                || text(&file.items[1]).contains("goesonatrait")
        );
    }
}

#[test]
fn an_impl_says_its_rules_and_keeps_its_body() {
    let code = "impl Bank for Vault {
        #[method(needs(self.lock, *n > 1), execution = \"trpc\")]
        async fn take(&self, n: u64, (a, b): (u8, u8)) -> u64 { n }
        #[method(yields)]
        async fn sum(&self) { for n in 0..9 { (|| loop { break })(); loop { break } } }
        async fn plain(&self) { loop {} }
    }";
    let file = emitted("serial", code);
    let [Item::Impl(written)] = &file.items[..] else { panic!("one impl") };
    let text = text(written);
    assert!(!text.contains("#[method"), "{text}");
    assert!(
        text.contains("const__UPBEAT:::upbeat::service::Rules=") && text.contains("serial:true")
    );
    assert!(text.contains("(\"take\",::upbeat::service::Rule{execution:"), "{text}");
    assert!(text.contains("Some(::upbeat::Execution::Trpc)") && text.contains("needs:true"));
    assert!(text.contains("&&__needs.has(&(self.lock))&&__needs.has(&(*n>1))"), "{text}");
    assert!(text.contains("n:&u64,_:&(u8,u8))->bool"), "{text}");
    // Checkpoints are in both loops of the body, but not in the loop of the closure or in a method without `yields`.
    assert_eq!(text.matches("::upbeat::checkpoint().await").count(), 2, "{text}");
    assert!(text.contains("(||loop{break})()") && text.contains("{loop{}}"), "{text}");
}

#[test]
fn an_impl_that_is_wrong_says_so_and_stays() {
    for (options, code) in [
        ("", "impl Bank for Vault { async fn f(&self) {} }"),
        ("serial", "impl Vault { async fn f(&self) {} }"),
        ("parallel", "impl Bank for Vault { async fn f(&self) {} }"),
        ("", "impl Bank for Vault { #[method(nack)] async fn f(&self) {} }"),
        ("", "impl Bank for Vault { #[method(yields)] async fn f(&self) {} }"),
    ] {
        let file = emitted(options, code);
        assert_eq!(text(&file).matches("compile_error!").count(), 1, "{code}");
        assert!(text(&file).contains("asyncfnf(&self){}") && !text(&file).contains("__UPBEAT"));
    }
}
