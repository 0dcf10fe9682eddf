//! Paths to values whose place the memory decides: those of options, vectors, maps and pointers.
//!
//! A reader's path notes the steps, and follows them at each read, where the memory is: in this process, or at the owner.
//! Invariant: a value that a reader finds, and the steps that led there, are of one moment.

use super::error::ReadError;
use super::imported::{Imported, Read, not_read};
use super::location::Location;
use super::memory::{Memory, attempts};
use super::path::Path;
use super::served::Asked;
use super::shared::{Access, Named, Navigate, Place, Readable, Sealed, Shared, TOO_LONG};
use super::snapshot::Snapshot;
use super::types::Ref;
use upbeat_core::channel::export::{Around, Consistency, Load, Missing, Part, Route, Step};
use upbeat_core::limits::EXPORT_STEPS_MAX;
use upbeat_memory::unit::UnitReader;

/// The most units that a reader of shared memory looks at for a value and the steps that lead to it.
const UNITS_MAX: usize = 32;

/// The units of a short path to a value of one unit.
const FEW_UNITS: usize = 4;

/// The place of a version that the last step tells: that of the unit around the value to which the step has led.
const AROUND: usize = usize::MAX - 1;

/// The user of a path, and the steps that lead to the value in which the path goes on.
#[doc(hidden)]
#[derive(Clone)]
pub struct Routed<A> {
    access: A,
    route: Route,
}

impl<A> Sealed for Routed<A> {}

impl<A: Access> Access for Routed<A> {
    type Borrowed<'a>
        = Routed<A>
    where
        Self: 'a;

    type Steps = ();

    fn borrow(&self) -> Routed<A> {
        self.clone()
    }

    fn is_same(&self, other: &Routed<A>) -> bool {
        self.access.is_same(&other.access) && self.route == other.route
    }
}

/// Returns the place behind the last of some steps.
fn behind<A: Access>(access: A, route: Route) -> Place<Routed<A>> {
    Place::whole(Routed { access, route }, 0, AROUND)
}

macro_rules! navigate {
    ($($user:ident, |$place:ident| $location:expr;)*) => {$(
        impl<'u> Navigate for &'u $user {
            type There = Routed<&'u $user>;

            fn from_step($place: &Place<Self>) -> (u32, Around) {
                let location: Location = $location;
                $place.within(location.value(), location.version())
            }

            fn nowhere(place: Place<Self>, why: usize) -> Place<Self::There> {
                Place::nowhere(Routed { access: place.access, route: Route::default() }, why)
            }

            fn begin(place: Place<Self>, step: Step, _: bool) -> Place<Self::There> {
                let mut route = Route::default();
                route.push(step);
                behind(place.access, route)
            }
        }
    )*};
}

navigate! {
    Imported, |place| *place.access.location();
    Snapshot, |place| *place.access.location();
}

impl<A: Access> Navigate for Routed<A> {
    type There = Routed<A>;

    fn from_step(place: &Place<Self>) -> (u32, Around) {
        place.within(0, AROUND)
    }

    fn nowhere(place: Place<Self>, why: usize) -> Place<Routed<A>> {
        Place::nowhere(place.access, why)
    }

    fn begin(place: Place<Self>, step: Step, _: bool) -> Place<Routed<A>> {
        let Routed { access, mut route } = place.access;
        if route.len() == EXPORT_STEPS_MAX {
            return Place::nowhere(Routed { access, route }, TOO_LONG);
        }
        route.push(step);
        behind(access, route)
    }
}

/// Returns the error of a route that has led to no value.
fn not_found(missing: Missing) -> ReadError {
    match missing {
        Missing::Index { index } => {
            ReadError::Index { index: usize::try_from(index).unwrap_or(usize::MAX) }
        }
        Missing::Nothing => ReadError::Nothing,
        Missing::Broken => ReadError::Invalid,
    }
}

/// The memory of an exported value, for a reader's steps through it.
struct Walk<'m, L> {
    memory: &'m Memory,
    /// The first word of the value.
    value: usize,
    look: L,
}

impl<L: FnMut(Option<usize>)> Load for Walk<'_, L> {
    fn look(&mut self, version: Option<usize>) {
        (self.look)(version);
    }

    fn load(&mut self, at: usize) -> u64 {
        self.memory.load(self.value + at)
    }
}

impl<A: Access, T: Shared> Path<Routed<A>, T> {
    /// Returns what a reader asks the owner for, and the first bit of a scalar of an array in its word.
    fn asked_there(&self) -> (Asked, Option<u8>) {
        let place = self.place();
        let part = Part { at: place.at as u32, words: T::WORDS as u32 };
        let route = place.access.route.encode();
        (Asked { part: part.encode(), is_unit: T::IS_UNIT, route }, place.shift)
    }

    /// Follows the steps, shows all versions that they and the value depend on, and takes the value, which may be torn.
    fn take_found(
        &self,
        memory: &Memory,
        location: &Location,
        copy: usize,
        look: &mut impl FnMut(usize),
    ) -> Result<Option<T>, Missing> {
        let place = self.place();
        let value = location.value() + copy * location.words;
        let absolute = |at: Option<usize>| at.map_or(location.version(), |at| value + at);
        let mut walk = Walk { memory, value, look: |at| look(absolute(at)) };
        let found = place.access.route.follow(location.words, &mut walk)?;
        let first = value + found.at;
        if !T::IS_UNIT {
            look(match place.version {
                AROUND => absolute(found.around),
                version => first + version,
            });
        }
        let at = first + place.at;
        T::versions(at, look);
        Ok(match place.shift.unwrap_or(0) + found.shift {
            0 => T::take(memory, at),
            shift => T::of_word(memory.load(at) >> shift),
        })
    }
}

impl<'i, T: Shared> Path<Routed<&'i Imported>, T> {
    fn found(&self) -> Result<T, ReadError> {
        self.at()?;
        let imported = self.place().access.access;
        let here = imported.mapped()?;
        let (memory, location) = (&here.memory, &here.location);
        if T::GROWS || self.units() > UNITS_MAX {
            return Err(ReadError::Busy);
        }
        let bets = imported.bets();
        let found = match location.consistency {
            Consistency::Cell if self.units() <= FEW_UNITS => {
                attempts(bets, || self.attempt::<FEW_UNITS>(memory, location))
            }
            Consistency::Cell => attempts(bets, || self.attempt::<UNITS_MAX>(memory, location)),
            Consistency::Guarded => memory.read_copy(
                location.version(),
                1,
                |copy| self.take_found(memory, location, copy, &mut |_| ()),
                bets,
            ),
            Consistency::Raw => Some(self.take_found(memory, location, 0, &mut |_| ())),
        };
        found.ok_or(ReadError::Busy)?.map_err(not_found)?.ok_or(ReadError::Invalid)
    }

    /// Returns the most units that the steps and the value depend on.
    fn units(&self) -> usize {
        self.place().access.route.len() + 1 + T::UNITS
    }

    /// Reads the value once. `None` where the owner has changed one of the units meanwhile.
    fn attempt<const UNITS: usize>(
        &self,
        memory: &Memory,
        location: &Location,
    ) -> Option<Result<Option<T>, Missing>> {
        let mut units = UnitReader::<UNITS>::new(&memory.0);
        let found = self.take_found(memory, location, 0, &mut |at| units.look_first(at));
        units.read(|_| found)
    }

    pub(super) fn read_found(&self) -> Read<'i, T> {
        let imported = self.place().access.access;
        Read::new(imported, self.found(), || self.asked_there())
    }
}

impl<'i, T: Readable> Path<Routed<&'i Imported>, T> {
    /// Reads the value to which the path leads at the moment, as other paths do. Where it leads to none, the error is
    /// [`ReadError::Nothing`] or [`ReadError::Index`].
    pub fn read(&self) -> Read<'i, T> {
        self.read_found()
    }

    /// Reads the value where this takes no message, or returns [`ReadError::Busy`].
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.found()
    }
}

impl<T: Shared> Path<Routed<&Snapshot>, T> {
    pub(super) fn try_found(&self) -> Result<T, ReadError> {
        self.at()?;
        let phase = self.place().access.access;
        let (asked, shift) = self.asked_there();
        phase.note(&asked)?;
        if let Some(granted) = phase.granted(&asked) {
            return phase.imported().value_of(&granted?, shift);
        }
        let here = phase.memory()?;
        let (memory, location) = (&here.memory, &here.location);
        if T::GROWS {
            return Err(phase.lose());
        }
        phase.load_with(memory, |copy, look| {
            self.take_found(memory, location, copy, &mut |at| look(at)).map_err(not_found)
        })
    }

    pub(super) async fn read_within(&self) -> Result<T, ReadError> {
        let phase = self.place().access.access;
        let found = self.try_found();
        if !phase.must_call(&found) {
            return found;
        }
        let (asked, shift) = self.asked_there();
        phase.imported().value_of(&phase.call(asked).await.map_err(not_read)?, shift)
    }
}

impl<T: Readable> Path<Routed<&Snapshot>, T> {
    /// Reads the value where this takes no message, or returns [`ReadError::Busy`], which ends the run of a
    /// [`try_snapshot`](super::Import::try_snapshot).
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.try_found()
    }

    /// Reads the value, as one of those of a [`snapshot`](super::Import::snapshot).
    pub async fn read(&self) -> Result<T, ReadError> {
        self.read_within().await
    }
}

impl<'i, T: Shared> Path<Routed<&'i Imported>, T> {
    pub(super) fn question(&self) -> (&'i Imported, Asked, Option<u8>) {
        let (asked, shift) = self.asked_there();
        (self.place().access.access, asked, shift)
    }
}

impl<'i, T: Named> Path<&'i Imported, Ref<T>> {
    /// Reads a copy of the target.
    pub fn read(&self) -> Read<'i, T> {
        self.target().read_found()
    }

    /// Reads a copy of the target where this takes no message, or returns [`ReadError::Busy`].
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.target().try_read()
    }

    /// Reads the pointer itself: the place of its target.
    pub fn read_pointer(&self) -> Read<'i, Ref<T>> {
        self.read_whole()
    }
}

impl<'i, T: Named> Path<Routed<&'i Imported>, Ref<T>> {
    /// Reads a copy of the target.
    pub fn read(&self) -> Read<'i, T> {
        self.target().read_found()
    }

    /// Reads a copy of the target where this takes no message, or returns [`ReadError::Busy`].
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.target().try_read()
    }

    /// Reads the pointer itself: the place of its target.
    pub fn read_pointer(&self) -> Read<'i, Ref<T>> {
        self.read_found()
    }
}

impl<T: Named> Path<&Snapshot, Ref<T>> {
    /// Reads a copy of the target, as one of the values of a [`snapshot`](super::Import::snapshot).
    pub async fn read(&self) -> Result<T, ReadError> {
        self.target().read_within().await
    }

    /// Reads a copy of the target where this takes no message, or returns [`ReadError::Busy`].
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.target().try_found()
    }
}

impl<T: Named> Path<Routed<&Snapshot>, Ref<T>> {
    /// Reads a copy of the target, as one of the values of a [`snapshot`](super::Import::snapshot).
    pub async fn read(&self) -> Result<T, ReadError> {
        self.target().read_within().await
    }

    /// Reads a copy of the target where this takes no message, or returns [`ReadError::Busy`].
    pub fn try_read(&self) -> Result<T, ReadError> {
        self.target().try_found()
    }
}
