//! The forms of the standard library's small types: numbers, addresses, times, paths and ranges.
//!
//! Invariant: a value is read from the form of simpler types, and a value of that form that the type
//! does not have is an error.

use super::{ByReference, Describe, Input, Output, Wire, WireError, exact_behind};
use std::ffi::{CString, OsStr, OsString};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;
use std::ops::{Bound, Range, RangeFrom, RangeInclusive, RangeTo};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use upbeat_core::limits::KEPT_ARGUMENT_BYTES_MAX;

/// Carries a type in the form of another. Reading returns `None` for a value that the type does not have.
macro_rules! carried_as {
    ($($type:ty as $via:ty, $name:expr, $to:expr, $from:expr;)*) => {$(
        impl $crate::wire::Wire for $type {
            const EXACT: Option<usize> = <$via as $crate::wire::Wire>::EXACT;
            const BYTES_LIKELY: usize = <$via as $crate::wire::Wire>::BYTES_LIKELY;

            fn describe(out: &mut $crate::wire::Describe) {
                out.text($name);
            }

            fn put(&self, out: &mut $crate::wire::Output<'_>) -> Result<(), $crate::wire::WireError> {
                let to: fn(&$type) -> $via = $to;
                to(self).put(out)
            }

            fn take(input: &mut $crate::wire::Input<'_>) -> Result<Self, $crate::wire::WireError> {
                let from: fn($via) -> Option<$type> = $from;
                let value = <$via as $crate::wire::Wire>::take(input)?;
                from(value).ok_or($crate::wire::WireError::Invalid { what: stringify!($type) })
            }
        }
    )*};
}

#[cfg(any(feature = "chrono", feature = "uuid"))]
pub(super) use carried_as;

carried_as! {
    // A schema names these types as they are carried, so that each side may choose its type.
    usize as u64, "u64", |number| *number as u64, |number| number.try_into().ok();
    isize as i64, "i64", |number| *number as i64, |number| number.try_into().ok();

    Ipv4Addr as [u8; 4], "Ipv4Addr", Ipv4Addr::octets, |octets| Some(octets.into());
    Ipv6Addr as [u8; 16], "Ipv6Addr", Ipv6Addr::octets, |octets| Some(octets.into());
    IpAddr as (u8, [u8; 16]), "IpAddr", address_parts, address_of;
    SocketAddrV4 as (Ipv4Addr, u16), "SocketAddrV4",
        |at| (*at.ip(), at.port()),
        |(address, port)| Some(SocketAddrV4::new(address, port));
    SocketAddrV6 as (Ipv6Addr, u16, u32, u32), "SocketAddrV6",
        |at| (*at.ip(), at.port(), at.flowinfo(), at.scope_id()),
        |(address, port, flow, scope)| Some(SocketAddrV6::new(address, port, flow, scope));
    SocketAddr as (IpAddr, u16, u32, u32), "SocketAddr", socket_parts, socket_of;

    SystemTime as (i64, u32), "SystemTime", time_parts, time_of;
}

macro_rules! non_zero {
    ($($type:ident)*) => {
        carried_as! {$(
            NonZero<$type> as $type, concat!("NonZero<", stringify!($type), ">"),
                |number| number.get(),
                NonZero::new;
        )*}
    };
}

non_zero!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

carried_as! {
    NonZero<usize> as usize, "NonZero<u64>", |number| number.get(), NonZero::new;
    NonZero<isize> as isize, "NonZero<i64>", |number| number.get(), NonZero::new;
}

fn address_parts(address: &IpAddr) -> (u8, [u8; 16]) {
    match address {
        IpAddr::V4(address) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&address.octets());
            (4, octets)
        }
        IpAddr::V6(address) => (6, address.octets()),
    }
}

fn address_of((version, octets): (u8, [u8; 16])) -> Option<IpAddr> {
    match version {
        4 => octets.first_chunk::<4>().map(|first| IpAddr::from(*first)),
        6 => Some(IpAddr::from(octets)),
        _ => None,
    }
}

fn socket_parts(at: &SocketAddr) -> (IpAddr, u16, u32, u32) {
    match at {
        SocketAddr::V4(at) => (IpAddr::V4(*at.ip()), at.port(), 0, 0),
        SocketAddr::V6(at) => (IpAddr::V6(*at.ip()), at.port(), at.flowinfo(), at.scope_id()),
    }
}

fn socket_of((address, port, flow, scope): (IpAddr, u16, u32, u32)) -> Option<SocketAddr> {
    Some(match address {
        IpAddr::V4(address) => SocketAddrV4::new(address, port).into(),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, flow, scope).into(),
    })
}

const NANOSECONDS: u32 = 1_000_000_000;

/// Returns the whole seconds since 1970, negative before that, and the remaining nanoseconds.
fn time_parts(time: &SystemTime) -> (i64, u32) {
    // A time has its seconds in 64 bits with a sign, so they always fit.
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = (before.as_secs() as i64).wrapping_neg();
            match before.subsec_nanos() {
                0 => (seconds, 0),
                part => (seconds.wrapping_sub(1), NANOSECONDS - part),
            }
        }
    }
}

fn time_of((seconds, part): (i64, u32)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(whole)?,
        false => SystemTime::UNIX_EPOCH.checked_add(whole)?,
    };
    if part >= NANOSECONDS {
        return None;
    }
    second.checked_add(Duration::from_nanos(part.into()))
}

/// Carries a text of the host as its bytes, and its borrowed form by reference.
macro_rules! host_text {
    ($($owned:ident of $borrowed:ident, $bytes:expr;)*) => {$(
        impl Wire for $owned {
            const BYTES_LIKELY: usize = 8;

            #[inline]
            fn bytes_likely(&self) -> usize {
                ByReference::likely(&**self)
            }

            fn describe(out: &mut Describe) {
                out.text(stringify!($owned));
            }

            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                ByReference::write(&**self, out)
            }

            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                let bytes = Vec::<u8>::take(input)?;
                Ok(OsString::from_vec(bytes).into())
            }
        }

        impl ByReference for $borrowed {
            type Owned = $owned;
            type Kept = $owned;

            fn likely(&self) -> usize {
                let bytes: fn(&$borrowed) -> &[u8] = $bytes;
                ByReference::likely(bytes(self))
            }

            fn write(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                let bytes: fn(&$borrowed) -> &[u8] = $bytes;
                ByReference::write(bytes(self), out)
            }

            fn read(kept: &mut $owned, input: &mut Input<'_>) -> Result<(), WireError> {
                let mut bytes = OsString::from(std::mem::take(kept)).into_vec();
                <[u8] as ByReference>::read(&mut bytes, input)?;
                *kept = OsString::from_vec(bytes).into();
                Ok(())
            }

            fn get(kept: &$owned) -> &$borrowed {
                kept
            }

            fn clear(kept: &mut $owned) {
                if kept.capacity() > KEPT_ARGUMENT_BYTES_MAX {
                    *kept = $owned::new();
                }
            }
        }
    )*};
}

host_text! {
    PathBuf of Path, |path| path.as_os_str().as_bytes();
    OsString of OsStr, |text| text.as_bytes();
}

impl Wire for CString {
    const BYTES_LIKELY: usize = 8;

    fn bytes_likely(&self) -> usize {
        ByReference::likely(self.as_bytes())
    }

    fn describe(out: &mut Describe) {
        out.text("CString");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        ByReference::write(self.as_bytes(), out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        CString::new(Vec::take(input)?).map_err(|_| WireError::Invalid { what: "CString" })
    }
}

macro_rules! range {
    ($($name:ident: $($part:ident = $get:expr),+; $make:expr;)*) => {$(
        impl<T: Wire> Wire for $name<T> {
            const EXACT: Option<usize> = {
                let exact = Some(0);
                $(
                    let $part = T::EXACT;
                    let exact = exact_behind(exact, $part);
                )+
                exact
            };
            const BYTES_LIKELY: usize = 2 * T::BYTES_LIKELY.next_multiple_of(8);

            fn describe(out: &mut Describe) {
                out.text(concat!(stringify!($name), "<"));
                out.of::<T>();
                out.text(">");
            }

            fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                $(
                    let $part: fn(&$name<T>) -> &T = $get;
                    $part(self).put(out)?;
                )+
                Ok(())
            }

            fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                $(let $part = T::take(input)?;)+
                Ok($make($($part),+))
            }
        }
    )*};
}

range! {
    Range: start = |range| &range.start, end = |range| &range.end; |start, end| start..end;
    RangeInclusive: start = RangeInclusive::start, end = RangeInclusive::end; RangeInclusive::new;
    RangeFrom: start = |range| &range.start; |start| start..;
    RangeTo: end = |range| &range.end; |end| ..end;
}

impl<T: Wire> Wire for Bound<T> {
    const BYTES_LIKELY: usize = 8 + T::BYTES_LIKELY;

    fn describe(out: &mut Describe) {
        out.text("Bound<");
        out.of::<T>();
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        let (tag, value) = match self {
            Bound::Unbounded => (0_u8, None),
            Bound::Included(value) => (1, Some(value)),
            Bound::Excluded(value) => (2, Some(value)),
        };
        tag.put(out)?;
        value.map_or(Ok(()), |value| value.put(out))
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        match u8::take(input)? {
            0 => Ok(Bound::Unbounded),
            1 => T::take(input).map(Bound::Included),
            2 => T::take(input).map(Bound::Excluded),
            _ => Err(WireError::Invalid { what: "Bound" }),
        }
    }
}

impl<T: ?Sized + 'static> Wire for PhantomData<T> {
    const EXACT: Option<usize> = Some(0);

    fn describe(out: &mut Describe) {
        out.text("PhantomData");
    }

    fn put(&self, _: &mut Output<'_>) -> Result<(), WireError> {
        Ok(())
    }

    fn take(_: &mut Input<'_>) -> Result<Self, WireError> {
        Ok(PhantomData)
    }
}
