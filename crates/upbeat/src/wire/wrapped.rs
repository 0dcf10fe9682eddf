//! Wrappers that carry types of other crates.

#[cfg(feature = "json")]
use super::Look;
use super::{Describe, Input, Output, Wire, WireError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::any::type_name;
use std::ops::{Deref, DerefMut};

/// Carries a value of another crate that implements serde's traits but not [`Wire`]: as an argument, a
/// result or a field.
///
/// The value travels in the form that serde gives its type, as postcard. The schema has the name of the type
/// without its modules, and not how its crate encodes it: give both sides the
/// same version of that crate. A type that describes itself, such as `serde_json::Value`, is not
/// readable from postcard and needs `upbeat::wire::Json` (feature `json`) instead.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use upbeat::wire::Serde;
///
/// # mod geo {
/// #     #[derive(serde::Serialize, serde::Deserialize, Debug)]
/// #     pub struct Point { pub x: f64, pub y: f64 }
/// # }
/// #[upbeat::service]
/// trait Map {
///     async fn name_of(&self, place: Serde<geo::Point>) -> String;
/// }
///
/// #[derive(Serialize, Deserialize, upbeat::Wire)]
/// struct Path {
///     points: Vec<Serde<geo::Point>>,
/// }
///
/// let place = Serde(geo::Point { x: 1.0, y: 2.0 });
/// assert_eq!(place.x, 1.0);
/// assert_eq!(place.into_inner().y, 2.0);
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Serde<T>(pub T);

impl<T: Serialize + DeserializeOwned + 'static> Wire for Serde<T> {
    fn describe(out: &mut Describe) {
        out.text("Serde<");
        out.text(&name_of::<T>());
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        out.serde(&self.0)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        input.serde().map(Serde)
    }
}

/// Carries a value as JSON text: as an argument, a result or a field. Needs the feature `json`.
///
/// Types that describe themselves, such as `serde_json::Value`, travel only in such a form.
///
/// ```
/// use serde_json::{Value, json};
/// use upbeat::wire::Json;
///
/// #[upbeat::service]
/// trait Store {
///     async fn put(&self, key: String, document: Json<Value>) -> Option<Json<Value>>;
/// }
///
/// let document = Json(json!({"colour": "green"}));
/// assert_eq!(document["colour"], "green");
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

#[cfg(feature = "json")]
macro_rules! self_describing {
    ($($name:literal: $ty:ty;)*) => {$(
        impl Look<Serde<$ty>> {
            /// Fails to compile.
            pub const HAS_FIXED_FORM: () = panic!(concat!(
                "`", $name, "` describes itself, and a message does not carry names and types: write \
                 `upbeat::wire::Json<", $name, ">` instead of `Serde<", $name, ">`"
            ));
        }
    )*};
}

#[cfg(feature = "json")]
self_describing! {
    "Value": serde_json::Value;
    "Map<String, Value>": serde_json::Map<String, serde_json::Value>;
    "Number": serde_json::Number;
}

macro_rules! wrapper {
    ($name:ident) => {
        impl<T> $name<T> {
            /// Returns the value.
            ///
            /// ```
            #[doc = concat!("use upbeat::wire::", stringify!($name), ";")]
            ///
            #[doc = concat!("assert_eq!(", stringify!($name), "(7).into_inner(), 7);")]
            /// ```
            pub fn into_inner(self) -> T {
                self.0
            }
        }

        impl<T> From<T> for $name<T> {
            fn from(value: T) -> Self {
                $name(value)
            }
        }

        impl<T> Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T> DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.0
            }
        }
    };
}

wrapper!(Serde);
#[cfg(feature = "json")]
wrapper!(Json);

/// Returns the name of a type without the modules of the type and of its arguments.
fn name_of<T>() -> String {
    let mut short = String::new();
    let mut rest = type_name::<T>();
    while !rest.is_empty() {
        let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let (path, behind) = rest.split_at(end);
        short.push_str(path.rsplit("::").next().unwrap_or(path));
        let next = behind.find(is_path).unwrap_or(behind.len());
        short.push_str(&behind[..next]);
        rest = &behind[next..];
    }
    short
}

#[cfg(feature = "json")]
mod json {
    use super::{Json, name_of};
    use crate::wire::metered::{Meter, Metered};
    use crate::wire::{ByReference, Describe, Input, Output, Wire, WireError};
    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    impl<T: Serialize + DeserializeOwned + 'static> Wire for Json<T> {
        fn describe(out: &mut Describe) {
            out.text("Json<");
            out.text(&name_of::<T>());
            out.text(">");
        }

        fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
            let text = serde_json::to_string(&self.0).map_err(refused)?;
            ByReference::write(text.as_str(), out)
        }

        fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
            input.sequence(|input| {
                let text = String::take(input)?;
                let meter = input.meter().expect("a sequence has a meter");
                read(&text, meter).map(Json)
            })
        }
    }

    fn read<T: DeserializeOwned>(text: &str, meter: &Meter) -> Result<T, WireError> {
        let mut input = serde_json::Deserializer::from_str(text);
        let value = T::deserialize(Metered::new(&mut input, meter, size_of::<T>()));
        let value = value.and_then(|value| input.end().map(|()| value));
        value.map_err(|error| meter.reason(|| refused(error)))
    }

    fn refused(error: serde_json::Error) -> WireError {
        WireError::Serde { text: error.to_string() }
    }

    impl<T: Serialize> Serialize for Json<T> {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            let text = serde_json::to_string(&self.0).map_err(S::Error::custom)?;
            to.serialize_str(&text)
        }
    }

    impl<'de, T: DeserializeOwned> Deserialize<'de> for Json<T> {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = String::deserialize(from)?;
            Meter::inside(text.len(), |meter| read(&text, meter))
                .map(Json)
                .map_err(D::Error::custom)
        }
    }
}
