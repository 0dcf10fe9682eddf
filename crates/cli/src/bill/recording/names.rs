//! Ways, items and legs as names in a file.

use super::text::cleaned;
use serde::{Deserialize, Deserializer, Serializer};
use upbeat_core::bill::Item;
use upbeat_core::bill::timeline::Leg;
use upbeat_core::bill::way::{WAYS, Way};

pub(super) fn way_out<S: Serializer>(way: &&'static Way, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(way.name)
}

pub(super) fn way_in<'de, D: Deserializer<'de>>(from: D) -> Result<&'static Way, D::Error> {
    let name = String::deserialize(from)?;
    let known = WAYS.iter().copied().find(|way| way.name == name);
    known.ok_or_else(|| serde::de::Error::custom(format_args!("unknown way `{}`", cleaned(&name))))
}

pub(super) fn item_out<S: Serializer>(item: &Item, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(item.name())
}

pub(super) fn item_in<'de, D: Deserializer<'de>>(from: D) -> Result<Item, D::Error> {
    let name = String::deserialize(from)?;
    let known = Item::ALL.iter().copied().find(|item| item.name() == name);
    known.ok_or_else(|| serde::de::Error::custom(format_args!("unknown item `{}`", cleaned(&name))))
}

pub(super) fn leg_out<S: Serializer>(leg: &Leg, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(leg.name())
}

pub(super) fn leg_in<'de, D: Deserializer<'de>>(from: D) -> Result<Leg, D::Error> {
    let name = String::deserialize(from)?;
    let known = Leg::ALL.into_iter().find(|leg| leg.name() == name);
    known.ok_or_else(|| serde::de::Error::custom(format_args!("unknown leg `{}`", cleaned(&name))))
}
