//! The steps of an owner's paths through memory.
//!
//! An entry of a map may have been removed, and its slot be that of another key, when the owner uses a path to it. So a path
//! keeps its steps through options, vectors and maps, which are followed at each use: what they lead to may be there by then
//! or be gone. A pointer and an index that lies in the export are followed once, when the path is made: the element behind an
//! index is the same for ever, in whatever slot its array is, and the target of a pointer lies in the same place for ever.

use super::Owner;
use crate::export::location::Location;
use crate::export::shared::{NOTHING, Navigate, Place};
use std::rc::Rc;
use upbeat_core::channel::export::{Around, Found, Missing, Route, Step};

/// The steps of a path of the owner through options, vectors and maps, behind the last pointer. The place of such a path is
/// counted as if the steps led to the beginning of the export, and the version of the export there stands for the version
/// around the value to which they lead.
#[doc(hidden)]
#[derive(Clone, Default, PartialEq)]
pub struct Steps(Option<Rc<Route>>);

/// Returns where the value and the version around it are to which a route has led.
fn place_of(location: &Location, found: &Found) -> (usize, usize) {
    let version = found.around.map_or(location.version(), |at| location.value() + at);
    (location.value() + found.at, version)
}

impl<'o> Place<&'o Owner> {
    /// Returns the place to which the path leads now.
    #[inline(always)]
    pub(in crate::export) fn now(&self) -> Place<&'o Owner> {
        match &self.steps.0 {
            None => Place { steps: Steps::default(), ..*self },
            Some(route) => self.behind(route),
        }
    }

    fn behind(&self, route: &Route) -> Place<&'o Owner> {
        let found = match self.access.follow(route) {
            Ok(found) => found,
            Err(missing) => return Place::nowhere(self.access, why(missing)),
        };
        let location = self.access.location();
        let version = match self.version == location.version() {
            true => place_of(&location, &found).1,
            false => self.version + found.at,
        };
        let shift = self.shift.map(|shift| shift + found.shift);
        Place {
            access: self.access,
            at: self.at + found.at,
            version,
            shift,
            steps: Steps::default(),
        }
    }
}

impl<'o> Navigate for &'o Owner {
    type There = &'o Owner;

    fn from_step(place: &Place<Self>) -> (u32, Around) {
        let location = place.access.location();
        place.within(location.value(), location.version())
    }

    fn nowhere(place: Place<Self>, why: usize) -> Place<&'o Owner> {
        Place::nowhere(place.access, why)
    }

    fn begin(place: Place<Self>, step: Step, is_packed: bool) -> Place<&'o Owner> {
        let Place { access, steps, .. } = place;
        let location = access.location();
        let mut route = steps.0.as_deref().cloned().unwrap_or_default();
        let made = match step {
            Step::Index { to, .. } => access.follow(&route).and_then(|array| {
                route.push(step);
                let found = access.follow(&route)?;
                let at = location.value() + found.at - array.at;
                let version = to.map_or(location.version(), |to| location.value() + to as usize);
                Ok(Place { access, at, version, shift: is_packed.then_some(found.shift), steps })
            }),
            Step::Target { .. } => {
                route.push(step);
                access.follow(&route).map(|found| {
                    let (at, version) = place_of(&location, &found);
                    Place::whole(access, at, version)
                })
            }
            step => {
                route.push(step);
                let (steps, shift) = (Steps(Some(Rc::new(route))), is_packed.then_some(0));
                Ok(Place { shift, steps, ..Place::of(&location, access) })
            }
        };
        made.unwrap_or_else(|missing| Place::nowhere(access, why(missing)))
    }
}

/// Returns the reason why a path leads nowhere, as a [`Place`] has it.
fn why(missing: Missing) -> usize {
    match missing {
        Missing::Index { index } => index as usize,
        Missing::Nothing | Missing::Broken => NOTHING,
    }
}
