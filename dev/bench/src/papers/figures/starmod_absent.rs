//! The figures of the paper on StarMod that nothing of today stands beside, and the order of all of them.

use super::starmod::{self, PAPER};
use super::{Absent, Entry, Unit};

/// Port calls by size.
pub(crate) const PORT_CALLS: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-1, port calls",
    unit: Unit::Ms,
    then: "two PDP 11/23 processors on a network of 1 Mb/s",
    why: "ports are not built",
    columns: &[
        "asynchronous, local",
        "asynchronous, remote",
        "synchronous, local",
        "synchronous, remote",
    ],
    rows: &[
        ("2 bytes", &[3.61, 11.11, 4.76, 20.73]),
        ("4 bytes", &[3.63, 11.24, 4.9, 20.87]),
        ("8 bytes", &[3.69, 11.28, 4.98, 20.99]),
        ("16 bytes", &[3.78, 11.38, 5.04, 21.11]),
        ("32 bytes", &[4.04, 11.57, 5.16, 21.36]),
        ("64 bytes", &[4.35, 11.94, 5.4, 21.85]),
        ("128 bytes", &[5.13, 12.69, 5.87, 22.84]),
        ("256 bytes", &[5.81, 14.19, 6.82, 24.82]),
        ("512 bytes", &[7.8, 17.18, 8.74, 28.77]),
        ("1024 bytes", &[12.38, 23.17, 12.53, 36.65]),
    ],
};

/// The timing programs of port calls.
pub(crate) const PORT_PROGRAMS: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figures 4-2 and 4-3, timing programs",
    unit: Unit::Ms,
    then: "listings of programs, without figures",
    why: "ports are not built",
    columns: &[],
    rows: &[],
};

/// The bandwidth that port calls use.
pub(crate) const PORT_BANDWIDTH: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-4, bandwidth of port calls",
    unit: Unit::Percent,
    then: "of a network of 1 Mb/s",
    why: "ports are not built, and shared memory has no such bandwidth",
    columns: &["asynchronous", "synchronous"],
    rows: &[
        ("2 bytes", &[1.44, 1.54]),
        ("4 bytes", &[1.57, 1.61]),
        ("8 bytes", &[1.84, 1.75]),
        ("16 bytes", &[2.39, 2.05]),
        ("32 bytes", &[3.46, 2.62]),
        ("64 bytes", &[5.49, 3.73]),
        ("128 bytes", &[9.2, 5.81]),
        ("256 bytes", &[15.45, 9.48]),
        ("512 bytes", &[24.68, 15.29]),
        ("1024 bytes", &[35.98, 23.18]),
    ],
};

/// A port call on a faster network, with a copy less.
pub(crate) const PORT_COPY_LESS: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "section 4.2.4.4, a copy less",
    unit: Unit::Ms,
    then: "1,024 bytes and a reply",
    why: "ports are not built",
    columns: &["synchronous"],
    rows: &[("1 Mb/s, as it is", &[36.65]), ("10 Mb/s, with a copy less", &[25.5])],
};

/// The bandwidth that remote procedure calls use, and what a copy less improves.
pub(crate) const CALL_BANDWIDTH: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figures 4-5 and 4-6, bandwidth and improvement",
    unit: Unit::Percent,
    then: "of a network of 1 Mb/s",
    why: "shared memory has no such bandwidth; the improvement follows from the times of both figures",
    columns: &["bandwidth, figure 4-5", "bandwidth, figure 4-6", "improvement"],
    rows: &[
        ("2 bytes", &[1.75, 1.75, 0.35]),
        ("4 bytes", &[1.82, 1.83, 0.45]),
        ("8 bytes", &[1.98, 1.99, 0.45]),
        ("16 bytes", &[2.28, 2.29, 0.69]),
        ("32 bytes", &[2.87, 2.9, 0.92]),
        ("64 bytes", &[4.02, 4.08, 1.38]),
        ("128 bytes", &[6.16, 6.31, 2.45]),
        ("256 bytes", &[9.91, 10.35, 4.2]),
        ("512 bytes", &[15.83, 17.03, 7.04]),
        ("1024 bytes", &[23.77, 26.63, 10.76]),
    ],
};

/// Broadcasts by size and destinations.
pub(crate) const BROADCAST: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-7, asynchronous broadcast by destinations",
    unit: Unit::Ms,
    then: "up to 7 PDP 11/23 processors on a network of 1 Mb/s",
    why: "broadcast is not built",
    columns: &["1", "2", "3", "4", "5", "6"],
    rows: &[
        ("2 bytes", &[17.24, 20.21, 22.98, 26.42, 28.29, 32.22]),
        ("4 bytes", &[17.32, 20.56, 23.04, 26.48, 28.36, 32.36]),
        ("8 bytes", &[17.41, 20.72, 23.04, 26.62, 28.62, 32.46]),
        ("16 bytes", &[17.85, 20.75, 23.09, 26.77, 28.8, 32.71]),
        ("32 bytes", &[18.04, 21.0, 23.32, 26.91, 29.06, 32.94]),
        ("64 bytes", &[18.35, 21.23, 23.57, 27.02, 29.31, 33.19]),
        ("128 bytes", &[19.16, 22.24, 24.48, 27.51, 29.83, 33.47]),
        ("256 bytes", &[20.76, 23.66, 25.9, 28.64, 31.02, 34.35]),
        ("512 bytes", &[23.72, 26.71, 29.0, 31.53, 34.21, 37.48]),
        ("1024 bytes", &[29.62, 32.78, 35.13, 37.5, 41.25, 44.02]),
    ],
};

/// The speedup of a broadcast over port calls.
pub(crate) const BROADCAST_SPEEDUP: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-8, speedup of asynchronous broadcast by destinations",
    unit: Unit::Times,
    then: "up to 7 PDP 11/23 processors on a network of 1 Mb/s",
    why: "broadcast is not built",
    columns: &["1", "2", "3", "4", "5", "6"],
    rows: &[
        ("2 bytes", &[0.64, 1.1, 1.45, 1.68, 1.96, 2.07]),
        ("4 bytes", &[0.65, 1.09, 1.46, 1.7, 1.98, 2.08]),
        ("8 bytes", &[0.65, 1.09, 1.47, 1.69, 1.97, 2.09]),
        ("16 bytes", &[0.64, 1.1, 1.48, 1.7, 1.98, 2.09]),
        ("32 bytes", &[0.64, 1.1, 1.49, 1.72, 1.99, 2.11]),
        ("64 bytes", &[0.65, 1.12, 1.52, 1.77, 2.04, 2.16]),
        ("128 bytes", &[0.66, 1.14, 1.56, 1.85, 2.13, 2.27]),
        ("256 bytes", &[0.68, 1.2, 1.64, 1.98, 2.29, 2.48]),
        ("512 bytes", &[0.72, 1.29, 1.78, 2.18, 2.51, 2.75]),
        ("1024 bytes", &[0.78, 1.41, 1.98, 2.47, 2.81, 3.16]),
    ],
};

/// The times of broadcasts that the paper computes.
pub(crate) const BROADCAST_PROJECTED: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-9, projected asynchronous broadcast",
    unit: Unit::Ms,
    then: "computed from TBR(N) = 14.14 ms and 3 ms for each destination with 2 bytes; some digits of the scan are restored by that formula",
    why: "broadcast is not built",
    columns: &["2 bytes", "1024 bytes"],
    rows: &[
        ("2 destinations", &[20.14, 32.4]),
        ("5 destinations", &[29.14, 41.4]),
        ("10 destinations", &[44.14, 56.4]),
        ("20 destinations", &[74.14, 86.4]),
        ("40 destinations", &[134.14, 146.4]),
        ("60 destinations", &[194.14, 206.4]),
        ("80 destinations", &[254.14, 266.4]),
        ("100 destinations", &[314.14, 326.4]),
        ("200 destinations", &[614.14, 626.4]),
        ("300 destinations", &[914.14, 926.4]),
        ("400 destinations", &[1214.14, 1226.4]),
        ("500 destinations", &[1514.14, 1526.4]),
        ("1000 destinations", &[3014.14, 3026.4]),
        ("2000 destinations", &[6014.14, 6026.4]),
        ("3000 destinations", &[9014.14, 9026.4]),
        ("4000 destinations", &[12014.14, 12026.4]),
        ("5000 destinations", &[15014.14, 15026.4]),
        ("10000 destinations", &[30014.14, 30026.4]),
    ],
};

/// The same in port calls.
pub(crate) const BROADCAST_PROJECTED_SPEEDUP: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-9, speedup of projected broadcast",
    unit: Unit::Times,
    then: "computed",
    why: "broadcast is not built",
    columns: &["2 bytes", "1024 bytes"],
    rows: &[
        ("2 destinations", &[1.1, 1.43]),
        ("5 destinations", &[1.91, 2.8]),
        ("10 destinations", &[2.52, 4.11]),
        ("20 destinations", &[3.0, 5.36]),
        ("40 destinations", &[3.31, 6.33]),
        ("60 destinations", &[3.43, 6.74]),
        ("80 destinations", &[3.5, 6.96]),
        ("100 destinations", &[3.54, 7.1]),
        ("200 destinations", &[3.62, 7.4]),
        ("300 destinations", &[3.65, 7.5]),
        ("400 destinations", &[3.65, 7.56]),
        ("500 destinations", &[3.66, 7.59]),
        ("1000 destinations", &[3.67, 7.66]),
        ("2000 destinations", &[3.69, 7.69]),
        ("3000 destinations", &[3.7, 7.7]),
        ("4000 destinations", &[3.7, 7.71]),
        ("5000 destinations", &[3.7, 7.71]),
        ("10000 destinations", &[3.7, 7.72]),
    ],
};

/// Broadcasts with replies.
pub(crate) const SYNCHRONOUS_BROADCAST: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-10, synchronous broadcast by destinations",
    unit: Unit::Ms,
    then: "up to 7 PDP 11/23 processors on a network of 1 Mb/s",
    why: "broadcast is not built",
    columns: &["1", "2", "3", "4", "5", "6"],
    rows: &[
        ("2 bytes", &[24.42, 31.67, 40.02, 45.99, 52.84, 59.17]),
        ("4 bytes", &[24.48, 31.72, 40.1, 46.11, 52.91, 59.24]),
        ("8 bytes", &[24.55, 31.9, 40.23, 46.21, 53.18, 59.33]),
        ("16 bytes", &[24.68, 32.21, 40.44, 46.32, 53.32, 59.48]),
        ("32 bytes", &[24.95, 32.76, 40.62, 46.55, 53.64, 59.77]),
        ("64 bytes", &[25.4, 33.14, 41.13, 46.9, 54.02, 60.31]),
        ("128 bytes", &[26.4, 34.29, 42.09, 47.89, 55.13, 61.46]),
        ("256 bytes", &[28.37, 36.37, 44.26, 49.97, 57.21, 63.41]),
        ("512 bytes", &[32.33, 41.0, 47.91, 54.65, 60.93, 67.1]),
        ("1024 bytes", &[40.32, 48.38, 54.33, 61.12, 67.81, 74.25]),
    ],
};

/// The speedup of those over port calls.
pub(crate) const SYNCHRONOUS_SPEEDUP: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 4-11, speedup of synchronous broadcast by destinations",
    unit: Unit::Times,
    then: "up to 7 PDP 11/23 processors on a network of 1 Mb/s",
    why: "broadcast is not built",
    columns: &["1", "2", "3", "4", "5", "6"],
    rows: &[
        ("2 bytes", &[0.85, 1.31, 1.55, 1.8, 1.96, 2.1]),
        ("4 bytes", &[0.85, 1.32, 1.56, 1.81, 1.97, 2.11]),
        ("8 bytes", &[0.85, 1.32, 1.57, 1.82, 1.97, 2.12]),
        ("16 bytes", &[0.86, 1.31, 1.57, 1.82, 1.98, 2.13]),
        ("32 bytes", &[0.86, 1.3, 1.58, 1.84, 1.99, 2.14]),
        ("64 bytes", &[0.86, 1.32, 1.59, 1.86, 2.02, 2.17]),
        ("128 bytes", &[0.87, 1.33, 1.63, 1.91, 2.07, 2.23]),
        ("256 bytes", &[0.87, 1.36, 1.68, 1.99, 2.17, 2.35]),
        ("512 bytes", &[0.89, 1.4, 1.8, 2.11, 2.36, 2.57]),
        ("1024 bytes", &[0.91, 1.52, 2.02, 2.4, 2.7, 2.96]),
    ],
};

/// References on faster networks.
pub(crate) const REFERENCES_PROJECTED: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 5-4, projected references",
    unit: Unit::Us,
    then: "computed",
    why: "a projection of the paper's machine to faster networks",
    columns: &["1 Mb/s", "10 Mb/s", "100 Mb/s"],
    rows: &[
        ("2 bytes", &[880.0, 767.8, 756.28]),
        ("4 bytes", &[899.0, 769.4, 756.44]),
        ("8 bytes", &[931.0, 772.6, 756.76]),
        ("16 bytes", &[995.0, 779.0, 757.4]),
        ("32 bytes", &[1128.0, 791.8, 758.68]),
        ("64 bytes", &[1391.0, 817.4, 761.24]),
        ("128 bytes", &[1915.0, 868.6, 766.36]),
        ("256 bytes", &[2966.0, 970.0, 776.5]),
        ("512 bytes", &[5066.0, 1174.8, 796.98]),
        ("1024 bytes", &[9301.0, 1584.4, 837.94]),
    ],
};

/// The primitives against each other under load.
pub(crate) const CONTENTION: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "section 6.2.1.2, interaction of primitives",
    unit: Unit::Ms,
    then: "words, without figures",
    why: "the paper prints no values, and ports are not built",
    columns: &[],
    rows: &[],
};

/// All primitives on faster networks and processors.
pub(crate) const PROJECTED: Absent = Absent {
    system: "StarMod",
    paper: PAPER,
    table: "figure 6-2, projected primitives",
    unit: Unit::Ms,
    then: "computed, with 2 bytes",
    why: "a projection of the paper's machine to faster ones",
    columns: &["asynchronous port call", "synchronous port call", "call", "reference"],
    rows: &[
        ("0.17 MIPS, 1 Mb/s", &[11.11, 20.73, 20.13, 0.88]),
        ("0.17 MIPS, 10 Mb/s", &[10.95, 20.41, 19.81, 0.765]),
        ("0.17 MIPS, 100 Mb/s", &[10.94, 20.38, 19.78, 0.753]),
        ("0.33 MIPS, 1 Mb/s", &[5.64, 10.54, 10.24, 0.504]),
        ("0.33 MIPS, 10 Mb/s", &[5.48, 10.22, 9.92, 0.389]),
        ("0.33 MIPS, 100 Mb/s", &[5.47, 10.19, 9.89, 0.377]),
        ("0.5 MIPS, 1 Mb/s", &[3.82, 7.14, 6.94, 0.379]),
        ("0.5 MIPS, 10 Mb/s", &[3.66, 6.83, 6.63, 0.263]),
        ("0.5 MIPS, 100 Mb/s", &[3.65, 6.8, 6.6, 0.252]),
        ("1 MIPS, 1 Mb/s", &[2.0, 3.75, 3.65, 0.253]),
        ("1 MIPS, 10 Mb/s", &[1.84, 3.43, 3.33, 0.138]),
        ("1 MIPS, 100 Mb/s", &[1.82, 3.4, 3.3, 0.127]),
    ],
};

/// All of them, in the order of the paper.
pub(super) const ALL: &[Entry] = &[
    Entry::Absent(&PORT_CALLS),
    Entry::Absent(&PORT_PROGRAMS),
    Entry::Absent(&PORT_BANDWIDTH),
    Entry::Absent(&PORT_COPY_LESS),
    Entry::Held(&starmod::CALLS),
    Entry::Held(&starmod::CALLS_COPY_LESS),
    Entry::Absent(&CALL_BANDWIDTH),
    Entry::Absent(&BROADCAST),
    Entry::Absent(&BROADCAST_SPEEDUP),
    Entry::Absent(&BROADCAST_PROJECTED),
    Entry::Absent(&BROADCAST_PROJECTED_SPEEDUP),
    Entry::Absent(&SYNCHRONOUS_BROADCAST),
    Entry::Absent(&SYNCHRONOUS_SPEEDUP),
    Entry::Held(&starmod::REFERENCES),
    Entry::Held(&starmod::INSTRUCTIONS),
    Entry::Held(&starmod::REFERENCES_COPY_LESS),
    Entry::Absent(&REFERENCES_PROJECTED),
    Entry::Held(&starmod::EFFECTS),
    Entry::Held(&starmod::PROGRAM),
    Entry::Held(&starmod::FAILED),
    Entry::Absent(&CONTENTION),
    Entry::Held(&starmod::REMOTE),
    Entry::Held(&starmod::LOCAL),
    Entry::Held(&starmod::RATIOS),
    Entry::Absent(&PROJECTED),
    Entry::Held(&starmod::OPERATIONS),
];
