//! The rows of a run as one line for each way, in the placement that was seen most.

use crate::case::{Mode, Op, Way};
use crate::run::{LOAD, OURS, SHARED};
use upbeat_cli::bench::report::{Placement, Row, placements};

/// A way and its results.
pub(crate) struct Line {
    pub(crate) peer: &'static str,
    pub(crate) carrier: &'static str,
    pub(crate) mode: Mode,
    pub(crate) null: Option<Figure>,
    pub(crate) kib1: Option<Figure>,
    pub(crate) stream: Option<Figure>,
    pub(crate) read: Option<Figure>,
    pub(crate) read_kib1: Option<Figure>,
}

/// The result of a case.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    /// The median of an operation.
    pub(crate) ns: f64,
    /// The ratio to Upbeat's operation that it is compared with: the median of all rounds.
    pub(crate) of_ours: Option<f64>,
}

impl Line {
    pub(crate) fn is_ours(&self) -> bool {
        self.peer == OURS
    }

    /// Returns whether the way has calls or messages.
    pub(crate) fn has_calls(&self) -> bool {
        [self.null, self.kib1, self.stream].iter().any(Option::is_some)
    }

    /// Returns whether the way has reads.
    pub(crate) fn has_reads(&self) -> bool {
        [self.read, self.read_kib1].iter().any(Option::is_some)
    }

    /// Returns the label of the way for a reader.
    pub(crate) fn label(&self) -> String {
        let name = match self.peer {
            OURS => "Upbeat",
            LOAD => "a bare load or copy",
            other => other,
        };
        match self.carrier {
            SHARED => name.to_owned(),
            carrier => format!("{name}, {carrier}"),
        }
    }
}

/// The results, with the fastest calls without a payload first.
pub(crate) struct Summary {
    pub(crate) placement: Placement,
    pub(crate) lines: Vec<Line>,
    /// The round trips of two cache lines and of two eventfds in the same run, in nanoseconds.
    pub(crate) line_ns: Option<f64>,
    pub(crate) eventfd_ns: Option<f64>,
}

impl Summary {
    /// Sums up rows. Returns nothing if there are none.
    pub(crate) fn of(ways: &[Way], rows: &[Row]) -> Option<Summary> {
        let placement = *placements(rows).first()?;
        let row = |way: &Way, op| {
            let path = way.path(op);
            rows.iter().find(|row| row.placement == placement && row.case == path)
        };
        let figure = |way: &Way, op| {
            row(way, op)
                .map(|row| Figure { ns: row.p50_ns, of_ours: row.compared.ratio_to_baseline })
        };
        let line = |way: &Way| Line {
            peer: way.peer,
            carrier: way.carrier,
            mode: way.mode,
            null: figure(way, Op::Null),
            kib1: figure(way, Op::KiB1),
            stream: figure(way, Op::Stream),
            read: figure(way, Op::Read),
            read_kib1: figure(way, Op::ReadKiB1),
        };
        let mut lines: Vec<Line> = ways.iter().map(line).collect();
        let cost = |line: &Line| line.null.map_or(f64::INFINITY, |figure| figure.ns);
        lines.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let ours = |mode| ways.iter().find(|way| way.peer == OURS && way.mode == mode);
        let floor = |mode, ratio: fn(&Row) -> Option<f64>| {
            let row = row(ours(mode)?, Op::Null)?;
            Some(row.p50_ns / ratio(row)?)
        };
        Some(Summary {
            placement,
            line_ns: floor(Mode::Polling, |row| row.compared.ratio_to_line),
            eventfd_ns: floor(Mode::Sleeping, |row| row.compared.ratio_to_eventfd),
            lines,
        })
    }
}
