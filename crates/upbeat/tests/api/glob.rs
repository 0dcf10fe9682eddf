//! `use upbeat::*` shadows no name of the prelude, no primitive type, and no crate that programs have beside Upbeat.
//!
//! The test fails by not compiling: a name that means something else here has another type, or is ambiguous.

use std::any::TypeId;
use upbeat::*;

#[service]
trait Greeter {
    async fn greet(&self, name: String) -> Result<String, String>;
}

struct Polite;

impl Greeter for Polite {
    async fn greet(&self, name: String) -> Result<String, String> {
        if name.is_empty() { Err("who?".to_string()) } else { Ok(format!("hello {name}")) }
    }
}

fn same<A: 'static, B: 'static>() {
    assert_eq!(TypeId::of::<A>(), TypeId::of::<B>());
}

/// Names the traits of the prelude.
fn prelude_traits<T>(value: T) -> T
where
    T: Clone + Send + Sync + Sized + Unpin + Default + PartialEq + Eq + PartialOrd + Ord + ToOwned,
    T: IntoIterator + FromIterator<u8> + Extend<u8> + AsRef<[u8]> + AsMut<[u8]> + Into<Box<[u8]>>,
    T: From<Box<[u8]>> + TryInto<[u8; 1]> + TryFrom<Box<[u8]>>,
{
    fn functions(act: impl Fn(), mut again: impl FnMut(), once: impl FnOnce()) {
        act();
        again();
        once();
    }
    fn iterators(items: impl DoubleEndedIterator<Item = u8> + ExactSizeIterator) -> usize {
        Iterator::count(items)
    }
    fn futures(future: impl IntoFuture<Output = ()> + Future<Output = ()>) {
        drop(future.into_future());
    }
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {}
    }
    drop(Dropped);
    functions(|| (), || (), || ());
    futures(async {});
    assert_eq!(iterators([1, 2].into_iter()), 2);
    assert_eq!(ToString::to_string(&1), "1");
    value
}

#[test]
fn the_prelude_and_the_primitive_types_keep_their_meaning() {
    same::<Result<u8, u16>, std::result::Result<u8, u16>>();
    same::<Option<Box<str>>, std::option::Option<std::boxed::Box<str>>>();
    same::<(String, Vec<u8>), (std::string::String, std::vec::Vec<u8>)>();
    assert_eq!(Some(0).ok_or(None::<u8>), Ok(0));
    assert_eq!(prelude_traits(vec![u8::MAX]), [255]);
    assert_eq!(
        (char::from(65), bool::default(), str::len("a"), f64::MAX > 0.0),
        ('A', false, 1, true)
    );
    assert_eq!((u16::BITS, i32::BITS, usize::MIN, <[u8]>::len(&[])), (16, 32, 0, 0));
}

#[test]
fn crates_beside_upbeat_keep_their_names() {
    same::<tokio::runtime::Runtime, ::tokio::runtime::Runtime>();
    same::<rustix::io::Errno, ::rustix::io::Errno>();
    same::<bytes::Bytes, ::bytes::Bytes>();
    same::<uuid::Uuid, ::uuid::Uuid>();
    same::<chrono::TimeDelta, ::chrono::TimeDelta>();
    same::<serde_json::Value, ::serde_json::Value>();
    same::<serde::de::IgnoredAny, ::serde::de::IgnoredAny>();
    same::<std::io::Error, ::std::io::Error>();
    same::<core::fmt::Error, ::core::fmt::Error>();
    let greeting = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let greeter = GreeterLocal::new(Polite);
        GreeterCaller::greet(&greeter, "you".into()).await
    });
    assert_eq!(greeting.unwrap(), "hello you");
}
