//! The tables and figures of the five papers: each once, in its printed unit, with the conditions of the paper, and
//! with those of today or the reason why nothing of today stands beside it.
//!
//! `bench papers` and docs/papers.md are both made from [`ALL`]. Invariant: a row of a paper is either measured, by a
//! benchmark that names its table and its row, or it is absent for a reason that is given here.

pub(crate) mod lynx;
pub(crate) mod starmod;
pub(crate) mod starmod_absent;
pub(crate) mod express;
pub(crate) mod oam;
pub(crate) mod nectar;

/// The unit of a paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Percent.
    Percent,
    /// Bytes.
    Bytes,
    /// Instructions.
    Instructions,
    /// So many times another figure.
    Times,
}

impl Unit {
    /// Returns the unit of [`Unit::scaled`] figures, for programs.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Unit::Ms | Unit::Us => "ns",
            Unit::Percent => "percent",
            Unit::Bytes => "bytes",
            Unit::Instructions => "instructions",
            Unit::Times => "times",
        }
    }

    /// Returns whether the figures are times.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Unit::Ms | Unit::Us)
    }

    /// Returns a printed figure in nanoseconds, or as it is if it is no time.
    pub(crate) fn scaled(self, value: f64) -> f64 {
        match self {
            Unit::Ms => value * 1e6,
            Unit::Us => value * 1e3,
            Unit::Percent | Unit::Bytes | Unit::Instructions | Unit::Times => value,
        }
    }
}

/// A table of a paper of which some rows have a figure of today.
#[derive(Debug)]
pub(crate) struct Printed {
    /// The system that was measured.
    pub(crate) system: &'static str,
    /// The paper.
    pub(crate) paper: &'static str,
    /// The place in the paper.
    pub(crate) table: &'static str,
    /// The unit of all rows.
    pub(crate) unit: Unit,
    /// The conditions of the paper.
    pub(crate) then: &'static str,
    /// The measurements beside it.
    pub(crate) today: Measured,
    /// The name and the figure of each row.
    pub(crate) rows: &'static [(&'static str, f64)],
}

/// Measurements beside a table.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The benchmark.
    pub(crate) bench: &'static str,
    /// The conditions of today.
    pub(crate) condition: &'static str,
    /// The rows of the paper that are not measured, by the first words of their names, and the reasons.
    pub(crate) absent: &'static [(&'static str, &'static str)],
}

/// A table or a figure of a paper beside which nothing of today stands.
#[derive(Debug)]
pub(crate) struct Absent {
    /// The system that was measured.
    pub(crate) system: &'static str,
    /// The paper.
    pub(crate) paper: &'static str,
    /// The place in the paper.
    pub(crate) table: &'static str,
    /// The unit of all figures.
    pub(crate) unit: Unit,
    /// The conditions of the paper.
    pub(crate) then: &'static str,
    /// The reason.
    pub(crate) why: &'static str,
    /// The columns; none if the paper prints no values.
    pub(crate) columns: &'static [&'static str],
    /// The name of each row, and its figure in each column.
    pub(crate) rows: &'static [(&'static str, &'static [f64])],
}

/// A table or a figure of a paper.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// Some rows have a figure of today.
    Held(&'static Printed),
    /// None has.
    Absent(&'static Absent),
}

impl Entry {
    /// Returns the system that was measured.
    pub(crate) fn system(self) -> &'static str {
        match self {
            Entry::Held(printed) => printed.system,
            Entry::Absent(absent) => absent.system,
        }
    }

    /// Returns the paper.
    pub(crate) fn paper(self) -> &'static str {
        match self {
            Entry::Held(printed) => printed.paper,
            Entry::Absent(absent) => absent.paper,
        }
    }

    /// Returns the place in the paper.
    pub(crate) fn table(self) -> &'static str {
        match self {
            Entry::Held(printed) => printed.table,
            Entry::Absent(absent) => absent.table,
        }
    }
}

/// Every table and figure of the five papers, in the order of the papers.
pub(crate) fn all() -> impl Iterator<Item = Entry> {
    let papers = [starmod_absent::ALL, lynx::ALL, express::ALL, oam::ALL, nectar::ALL];
    papers.into_iter().flatten().copied()
}

impl Printed {
    /// Returns the figure of a row: nanoseconds, or what the unit says.
    pub(crate) fn value(&self, row: &str) -> Option<f64> {
        let (_, value) = self.rows.iter().find(|(name, _)| *name == row)?;
        Some(self.unit.scaled(*value))
    }

    /// Returns the sum of the rows whose names begin with one of these, in nanoseconds or percent.
    pub(crate) fn sum(&self, begin: &[&str]) -> f64 {
        let names = self.rows.iter().map(|(name, _)| *name);
        let named = names.filter(|name| begin.iter().any(|begin| name.starts_with(begin)));
        named.filter_map(|name| self.value(name)).sum()
    }

    /// Returns why a row has no figure of today, if it is absent.
    pub(crate) fn absent(&self, row: &str) -> Option<&'static str> {
        let mut reasons = self.today.absent.iter();
        reasons.find(|(begin, _)| row.starts_with(begin)).map(|(_, reason)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Printed, all, lynx, nectar};

    fn held() -> impl Iterator<Item = &'static Printed> {
        all().filter_map(|entry| match entry {
            Entry::Held(printed) => Some(printed),
            Entry::Absent(_) => None,
        })
    }

    #[test]
    fn every_figure_names_its_source() {
        let mut places = Vec::new();
        for entry in all() {
            assert!(entry.paper().ends_with(|last: char| last.is_ascii_digit()), "the year");
            let place = (entry.system(), entry.table());
            assert!(!places.contains(&place), "{place:?} twice");
            places.push(place);
        }
        for printed in held() {
            assert!(!printed.rows.is_empty() && !printed.today.condition.is_empty());
            for (at, (row, _)) in printed.rows.iter().enumerate() {
                assert!(printed.rows[..at].iter().all(|(other, _)| other != row), "{row} twice");
            }
        }
    }

    #[test]
    fn an_absent_table_gives_its_reason_and_a_figure_in_each_column() {
        for entry in all() {
            let Entry::Absent(absent) = entry else { continue };
            assert!(!absent.why.is_empty() && !absent.then.is_empty(), "{}", absent.table);
            assert_eq!(absent.rows.is_empty(), absent.columns.is_empty(), "{}", absent.table);
            for (row, figures) in absent.rows {
                assert_eq!(figures.len(), absent.columns.len(), "{row} of {}", absent.table);
            }
        }
    }

    #[test]
    fn all_tables_and_figures_of_the_papers_are_listed() {
        let told = |system: &str, place: &str| {
            let is_word = |table: &str| {
                table.match_indices(place).any(|(at, _)| {
                    !table[at + place.len()..].starts_with(|next: char| next.is_ascii_digit())
                })
            };
            all().any(|entry| entry.system() == system && is_word(entry.table()))
        };
        let starmod =
            ["4-1", "4-2", "4-3", "4-4", "4-5", "4-6", "4-7", "4-8", "4-9", "4-10", "4-11"];
        for place in starmod.iter().chain(&["5-1", "5-2", "5-3", "5-4", "6-1", "6-2"]) {
            assert!(told("StarMod", place), "{place}");
        }
        for place in ["figure 2", "figure 3", "figure 4", "section 7", "section 4"] {
            assert!(told("LYNX", place), "{place}");
        }
        for place in ["figure 2", "figure 3", "table 1", "table 2", "table 3", "table 4", "table 5"]
        {
            assert!(told("Express Messages", place), "{place}");
        }
        for place in
            ["table 1", "table 2", "table 3", "figure 1", "figure 2", "figure 3", "figure 4"]
        {
            assert!(told("Optimistic Active Messages", place), "{place}");
        }
        for place in ["2-1", "3-1", "3-2", "3-3", "3-4", "4-1", "4-2"] {
            assert!(told("Nectar", place), "{place}");
        }
    }

    #[test]
    fn what_the_papers_add_up_adds_up() {
        let parts = nectar::BREAKUP.sum(&["send", "receive"]);
        assert_eq!(Some(parts), nectar::BREAKUP.value("total"));
        assert_eq!(nectar::SUMMARY.sum(&[""]), 100.0);
        let datalink = nectar::BREAKUP.sum(&["send: datalink", "receive: datalink"]);
        assert_eq!((100.0 * datalink / parts).round(), 23.0);
        for (at, column) in nectar::BREAKUP_OTHERS.columns.iter().enumerate() {
            let figures = nectar::BREAKUP_OTHERS.rows.iter().map(|(_, figures)| figures[at]);
            let figures: Vec<f64> = figures.collect();
            let (total, parts) = figures.split_last().unwrap();
            assert_eq!(parts.iter().sum::<f64>(), *total, "{column}");
        }
        let sum = lynx::TIMELINE.value("sum of the timeline").unwrap();
        let measured = lynx::TIMELINE.value("measured").unwrap();
        let difference = lynx::DIFFERENCE.value("difference").unwrap();
        assert!((100.0 * (sum / measured - 1.0) - difference).abs() < 0.5);
    }
}
