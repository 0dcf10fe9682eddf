//! Judges the looks at exports.

use super::Judge;
use super::causes::SOON;
use crate::worlds::exports::WATCHED;
use crate::worlds::history::sights::{OF_EXPORT, Owned, Seen, Sight, export_of};
use crate::worlds::history::{Disturbance, Failure};
use crate::worlds::plan::Way;

impl Judge<'_> {
    /// A watch misses no change of its export, and a look fails for a cause alone.
    pub(super) fn seen(&self, seen: &Seen) {
        let Seen { process, server, known, from, at, sight } = seen;
        let (process, server, within) = (*process, *server, (*from, *at));
        let of_server = || self.history.exports.range((server, 0)..=(server, u64::MAX));
        let is_down = |within| {
            self.causes.overlaps(Disturbance::Down(server), within)
                || self.causes.overlaps(Disturbance::Closes(server), within)
        };
        let comes = |from, to, time| self.causes.comes(from, to, time);
        // The export stood when it was imported.
        let imported = known.unwrap_or(*from).saturating_sub(SOON);
        let is_right = match sight {
            Sight::Number(_) | Sight::Busy => true,
            Sight::Changed(first, next) => {
                let is_guarded = self.plan.servers[server].exports.is_some_and(|it| it.is_guarded);
                // The first value may come again where another part was changed with it.
                next > first || next == first && !is_guarded
            }
            Sight::Unchanged(number) => {
                let owned = self.history.exports.get(&(server, export_of(*number)));
                let next = owned.and_then(|owned| owned.set.get((number % OF_EXPORT) as usize + 1));
                next.is_none_or(|next| {
                    let asked = comes(process, server, *from);
                    comes(server, process, asked.max(*next)) >= *at
                }) || self.causes.is_lossy(process, server, within)
            }
            Sight::Failed(Failure::Ended, _) => {
                let ends = |owned: &Owned| {
                    owned.withdrawn.is_some_and(|time| (imported..=*at).contains(&time))
                };
                is_down((imported, *at)) || of_server().any(|(_, owned)| ends(owned))
            }
            Sight::Failed(Failure::Absent, _) => {
                let is_absent = |within| {
                    is_down(within) || self.causes.overlaps(Disturbance::Unborn(server), within)
                };
                let stands = |owned: &Owned| {
                    owned.set.first().is_some_and(|first| first <= from && !is_down((*first, *at)))
                        && owned.withdrawn.is_none_or(|time| time > *at)
                };
                is_absent(within)
                    || !of_server().any(|(_, owned)| stands(owned))
                    || self.causes.is_lossy(process, server, within)
            }
            Sight::Failed(Failure::Replaced, _) => is_down((imported, *at)),
            Sight::Failed(Failure::Closing, _) => {
                self.causes.overlaps(Disturbance::Closes(server), within)
            }
            Sight::Failed(why, _) => {
                self.causes.is_lossy(process, server, within)
                    || *why == Failure::Unreached
                        && self.causes.is_unreachable(process, server, within)
            }
        };
        if !is_right {
            self.violated(format!("a reader sees what it may not: {seen:?}"));
        }
    }

    /// A look by a known import ends soon. The import itself may wait, for its server or for the export.
    pub(super) fn is_seen_in_time(&self, seen: &Seen) {
        let Seen { process, server, known, from, at, ref sight } = *seen;
        let has_read = matches!(sight, Sight::Number(_) | Sight::Busy | Sight::Changed(..));
        if known.is_none() || !has_read || self.causes.is_lossy(process, server, (from, at)) {
            return;
        }
        // A server of a tiny budget serves a look, which asks twice at most, behind the watches that came before.
        let is_tiny = self.plan.servers[server].budget.is_some();
        let readers = self.plan.clients.iter().flat_map(|client| &client.readers);
        let watches = readers.filter(|it| is_tiny && it.way == Way::Watch && it.server == server);
        let watched = WATCHED.as_nanos() as u64 * (2 * watches.count()).max(1) as u64;
        let comes = |from, to, time| self.causes.comes(from, to, time);
        let latest = comes(server, process, comes(process, server, from) + watched);
        if at > latest {
            self.violated(format!("a look ends too late, behind {latest}: {seen:?}"));
        }
    }
}
