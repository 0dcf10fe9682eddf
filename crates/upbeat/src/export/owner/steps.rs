//! The steps of an owner's paths through memory.
//!
//! The owner follows a step at once, because nobody else writes its memory. It writes there itself, however: an entry of a
//! map may have been removed, and its slot be that of another key, when a path that has led there is used. So a path keeps
//! its steps through options, vectors and maps, which are followed again at each use. A pointer and an index that lies in the
//! export are followed once: the place to which they have led is the same for ever.

use super::Owner;
use crate::export::shared::{NOTHING, Navigate, Place};
use std::rc::Rc;
use upbeat_core::channel::export::{Around, Found, Missing, Route, Step};

/// The steps of a path of the owner through options, vectors and maps, behind the last pointer.
#[doc(hidden)]
#[derive(Clone, Default, PartialEq)]
pub struct Steps(Option<Rc<Taken>>);

#[derive(PartialEq)]
struct Taken {
    route: Route,
    /// Where the route led when the path was made.
    found: Found,
}

impl Owner {
    /// Returns where the value and the version around it are to which a route has led.
    fn place_of(&self, found: &Found) -> (usize, usize) {
        let location = self.location();
        let version = found.around.map_or(location.version(), |at| location.value() + at);
        (location.value() + found.at, version)
    }

    /// Returns the beginning of the value in which the next step of a path begins, and the version around that value.
    fn begin_of(&self, steps: &Steps) -> (usize, usize) {
        let location = self.location();
        let whole = (location.value(), location.version());
        steps.0.as_ref().map_or(whole, |taken| self.place_of(&taken.found))
    }
}

impl<'o> Place<&'o Owner> {
    /// Returns the place to which the path leads now.
    #[inline(always)]
    pub(in crate::export) fn now(&self) -> Place<&'o Owner> {
        match &self.steps.0 {
            None => Place { steps: Steps::default(), ..*self },
            Some(taken) => self.again(taken),
        }
    }

    fn again(&self, taken: &Taken) -> Place<&'o Owner> {
        let found = match self.access.follow(&taken.route) {
            Ok(found) => found,
            Err(missing) => return Place::nowhere(self.access, why(missing)),
        };
        let ((was, around), (is, now)) =
            (self.access.place_of(&taken.found), self.access.place_of(&found));
        let by = is.wrapping_sub(was);
        let version = if self.version == around { now } else { self.version.wrapping_add(by) };
        let at = self.at.wrapping_add(by);
        Place { access: self.access, at, version, shift: self.shift, steps: Steps::default() }
    }
}

impl<'o> Navigate for &'o Owner {
    type There = &'o Owner;

    fn from_step(place: &Place<Self>) -> (u32, Around) {
        let (begin, around) = place.access.begin_of(&place.steps);
        place.within(begin, around)
    }

    fn nowhere(place: Place<Self>, why: usize) -> Place<&'o Owner> {
        Place::nowhere(place.access, why)
    }

    fn begin(place: Place<Self>, step: Step, is_packed: bool) -> Place<&'o Owner> {
        let Place { access, steps, .. } = place;
        let mut route = steps.0.as_ref().map_or_else(Route::default, |taken| taken.route.clone());
        let is_pointer = matches!(step, Step::Target { .. });
        let is_index = matches!(step, Step::Index { .. });
        route.push(step);
        match access.follow(&route) {
            Ok(found) => {
                let (at, version) = access.place_of(&found);
                let shift = is_packed.then_some(found.shift);
                let steps = match (is_pointer, is_index) {
                    (true, _) => Steps::default(),
                    (_, true) => steps,
                    _ => Steps(Some(Rc::new(Taken { route, found }))),
                };
                Place { access, at, version, shift, steps }
            }
            Err(missing) => Place::nowhere(access, why(missing)),
        }
    }
}

/// Returns the reason why a path leads nowhere, as a [`Place`] has it.
fn why(missing: Missing) -> usize {
    match missing {
        Missing::Index { index } => index as usize,
        Missing::Nothing | Missing::Broken => NOTHING,
    }
}
