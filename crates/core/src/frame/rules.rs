//! The rules that a head must keep: the allowed values of each field in a frame of its kind.

use super::{
    CallNumber, Flags, Head, KIND_SHIFT, Kind, LEN_MAX, LEN_SHIFT, MANNER_SHIFT, PLACED_SHIFT,
    SPARE_SHIFT, manner_byte,
};
use crate::fault::Rule;

impl Head {
    /// Checks a head against the shape of its kind, field by field.
    #[inline(never)]
    pub(super) const fn parse_any(words: [u64; 3]) -> Result<Head, Rule> {
        let byte = (words[0] >> KIND_SHIFT) as u8;
        let Some(kind) = Kind::from_byte(byte) else {
            return Err(Rule::UnknownKind { kind: byte });
        };
        let manner = Head::manner_in(&words);
        let (plain, stamp) = match manner {
            Some(_) => Head::unstamped(&words),
            None => (words, 0),
        };
        let head = Head {
            kind,
            flags: Flags::from_head(plain[2]),
            len: (plain[0] >> LEN_SHIFT) as u32,
            call: CallNumber::from_u64(plain[1]),
            method: plain[2] as u16,
            manner,
            stamp,
        };
        let byte = (words[2] >> MANNER_SHIFT) as u8;
        if byte != manner_byte(head.manner) || byte != 0 && !kind.shape().sampled {
            return Err(Rule::StrayManner { kind: kind.byte(), manner: byte });
        }
        let reserved =
            (words[2] >> PLACED_SHIFT) as u32 & !3 | (plain[2] >> SPARE_SHIFT) as u16 as u32;
        if reserved != 0 {
            return Err(Rule::ReservedBits { bits: reserved });
        }
        match head.broken() {
            Some(rule) => Err(rule),
            None => Ok(head),
        }
    }

    /// Returns the first rule that the fields break together, if there is one.
    const fn broken(&self) -> Option<Rule> {
        let &Head { flags, len, call, method, .. } = self;
        let kind = self.kind.byte();
        let shape = self.kind.shape();
        let extensions = flags.extension_bytes();
        if len > LEN_MAX {
            return Some(Rule::LengthBeyondMax { len, max: LEN_MAX });
        }
        if !shape.flags.has(flags) {
            return Some(Rule::UnknownFlags { kind, flags: flags.0 });
        }
        if !shape.method && method != 0 {
            return Some(Rule::StrayMethod { kind, method });
        }
        let (index, generation) = (call.index(), call.generation());
        let stray_half = match self.kind {
            Kind::Switch => index != 0,
            Kind::Slab | Kind::Retire | Kind::Control => generation != 0,
            _ => false,
        };
        if stray_half || !shape.number && call.as_u64() != 0 {
            return Some(Rule::StrayNumber { kind, index, generation });
        }
        let (min, max) = match flags.has(Flags::PLACED) {
            true => (extensions, 0),
            false => (extensions + shape.len_min, shape.len_max),
        };
        if len < min {
            return Some(Rule::LengthBelowMin { kind, len, min });
        }
        if len - extensions > max {
            return Some(if max == 0 {
                Rule::StrayPayload { kind, len }
            } else {
                Rule::LengthBeyondMax { len, max: extensions + max }
            });
        }
        None
    }
}
