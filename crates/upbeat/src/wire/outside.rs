//! The forms of types of other crates, behind the features of their names.

#[cfg(feature = "bytes")]
mod bytes {
    use crate::wire::{ByReference, Describe, Input, Output, Wire, WireError};
    use ::bytes::{Bytes, BytesMut};

    macro_rules! bytes {
        ($($type:ident: $from:expr;)*) => {$(
            impl Wire for $type {
                const BYTES_LIKELY: usize = 8;

                #[inline]
                fn bytes_likely(&self) -> usize {
                    8 + self.len()
                }

                fn describe(out: &mut Describe) {
                    out.of::<Vec<u8>>();
                }

                fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
                    ByReference::write(&self[..], out)
                }

                fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
                    Vec::take(input).map($from)
                }
            }
        )*};
    }

    bytes! {
        Bytes: Bytes::from;
        // The memory of `Bytes` that is not shared is taken over.
        BytesMut: |bytes: Vec<u8>| BytesMut::from(Bytes::from(bytes));
    }
}

#[cfg(feature = "uuid")]
mod uuid {
    use crate::wire::std_types::carried_as;
    use ::uuid::Uuid;

    carried_as! {
        Uuid as [u8; 16], "Uuid", |uuid| *uuid.as_bytes(), |bytes| Some(Uuid::from_bytes(bytes));
    }
}

#[cfg(feature = "chrono")]
mod chrono {
    use crate::wire::std_types::carried_as;
    use ::chrono::{
        DateTime, Datelike, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike,
        Utc,
    };

    carried_as! {
        NaiveDate as i32, "NaiveDate",
            NaiveDate::num_days_from_ce,
            NaiveDate::from_num_days_from_ce_opt;
        NaiveTime as (u32, u32), "NaiveTime",
            |time| (time.num_seconds_from_midnight(), time.nanosecond()),
            |(seconds, part)| NaiveTime::from_num_seconds_from_midnight_opt(seconds, part);
        NaiveDateTime as (NaiveDate, NaiveTime), "NaiveDateTime",
            |at| (at.date(), at.time()),
            |(date, time)| Some(NaiveDateTime::new(date, time));
        DateTime<Utc> as (i64, u32), "DateTime<Utc>",
            |at| (at.timestamp(), at.timestamp_subsec_nanos()),
            |(seconds, part)| DateTime::from_timestamp(seconds, part);
        DateTime<FixedOffset> as (i64, u32, i32), "DateTime<FixedOffset>",
            |at| (at.timestamp(), at.timestamp_subsec_nanos(), at.offset().local_minus_utc()),
            fixed;
        TimeDelta as (i64, i32), "TimeDelta",
            |span| (span.num_seconds(), span.subsec_nanos()),
            span;
    }

    fn fixed((seconds, part, east): (i64, u32, i32)) -> Option<DateTime<FixedOffset>> {
        let at = DateTime::from_timestamp(seconds, part)?.naive_utc();
        let offset = FixedOffset::east_opt(east)?;
        // Near the ends of the calendar, the offset may leave it.
        at.checked_add_offset(offset)?;
        Some(DateTime::from_naive_utc_and_offset(at, offset))
    }

    /// Makes a span of whole seconds and of nanoseconds that point the same way.
    fn span((seconds, part): (i64, i32)) -> Option<TimeDelta> {
        let same_way = part == 0 || seconds == 0 || (part < 0) == (seconds < 0);
        let is_part = part.unsigned_abs() < 1_000_000_000 && same_way;
        if !is_part {
            return None;
        }
        TimeDelta::try_seconds(seconds)?.checked_add(&TimeDelta::nanoseconds(part.into()))
    }
}
