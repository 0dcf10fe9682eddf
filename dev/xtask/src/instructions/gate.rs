//! The gate: the instructions that a call took when they were last recorded, and the tolerance above them.
//!
//! The file has a line for each case, the case and its instructions for both sides; `#` begins a
//! comment.

use super::figures::Figures;
use std::fmt;
use std::path::Path;

/// The gate's path, from the root of the repository.
pub(crate) const PATH: &str = "dev/xtask/instructions.gate";

/// How far a figure may exceed the gate, as a fraction of it.
const SLACK: f64 = 0.03;

/// How far that of a null call by turns may, in which nothing depends on the time that passes.
const NULL_SLACK: f64 = 0.005;

const HEADER: &str = "\
# Instructions of a call, message or read, on both sides. `cargo xtask instructions --check` refuses 3% more (0.5% for null
# calls by turns), and as much less, so that a gain is recorded; `cargo xtask instructions --write-gate` writes this file.
";

/// Returns how far the figure of a case may be from the gate, as a fraction of it.
fn slack(case: &str) -> f64 {
    match case {
        "null/local" | "null/shared" | "null/local/unbilled" | "null/shared/unbilled" => NULL_SLACK,
        _ => SLACK,
    }
}

/// The recorded figures.
#[derive(Debug, PartialEq)]
pub(crate) struct Gate {
    cases: Vec<(String, f64)>,
}

/// The gate's verdict on a case.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Within { case: String, now: f64, gate: f64 },
    Above { case: String, now: f64, gate: f64 },
    FarBelow { case: String, now: f64, gate: f64 },
}

impl Gate {
    pub(crate) fn of(all: &[Figures]) -> Gate {
        let cases = all.iter().map(|one| (one.case.clone(), one.all.both())).collect();
        Gate { cases }
    }

    pub(crate) fn read(root: &Path) -> Result<Gate, String> {
        let text = std::fs::read_to_string(root.join(PATH)).map_err(|error| {
            format!(
                "cannot read {PATH} ({error}): `cargo xtask instructions --write-gate` makes it"
            )
        })?;
        Gate::parse(&text)
    }

    fn parse(text: &str) -> Result<Gate, String> {
        let mut cases = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let entry = line.split_once(char::is_whitespace);
            let entry = entry.and_then(|(case, value)| Some((case, value.trim().parse().ok()?)));
            match entry {
                Some((case, value)) => cases.push((case.to_owned(), value)),
                None => {
                    return Err(format!(
                        "{PATH}:{}: `{line}` is not a case and a number",
                        index + 1
                    ));
                }
            }
        }
        Ok(Gate { cases })
    }

    pub(crate) fn write(&self, root: &Path) -> Result<(), String> {
        std::fs::write(root.join(PATH), self.text())
            .map_err(|error| format!("cannot write {PATH}: {error}"))
    }

    fn text(&self) -> String {
        let lines = self.cases.iter().map(|(case, value)| format!("{case} {value:.1}\n"));
        HEADER.to_owned() + &lines.collect::<String>()
    }

    /// Demands that each recorded case was counted.
    pub(crate) fn covers(&self, all: &[Figures]) -> Result<(), String> {
        match self.cases.iter().find(|(known, _)| all.iter().all(|one| one.case != *known)) {
            None => Ok(()),
            Some((case, _)) => Err(format!(
                "{PATH} has {case}, which was not counted: `cargo xtask instructions --write-gate` removes a case \
                 that is measured no more"
            )),
        }
    }

    pub(crate) fn judge(&self, figures: &Figures) -> Result<Verdict, String> {
        let (case, now) = (figures.case.clone(), figures.all.both());
        let Some((_, gate)) = self.cases.iter().find(|(known, _)| *known == case) else {
            return Err(format!(
                "{PATH} does not know {case}: `cargo xtask instructions --write-gate` enters it"
            ));
        };
        let (gate, slack) = (*gate, slack(&case));
        Ok(if now > gate * (1.0 + slack) {
            Verdict::Above { case, now, gate }
        } else if now < gate * (1.0 - slack) {
            Verdict::FarBelow { case, now, gate }
        } else {
            Verdict::Within { case, now, gate }
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Verdict::Within { case, now, gate }
        | Verdict::Above { case, now, gate }
        | Verdict::FarBelow { case, now, gate }) = self;
        let percent = (now / gate - 1.0) * 100.0;
        write!(f, "{case} takes {now:.1}, the gate is {gate:.1} ({percent:+.1}%)")?;
        match self {
            Verdict::Within { .. } => Ok(()),
            Verdict::Above { .. } => write!(
                f,
                ": more than {:.1}% above. See which function has grown; if it must be, write the gate \
                 anew with --write-gate, and say why in the commit",
                slack(case) * 100.0
            ),
            Verdict::FarBelow { .. } => {
                write!(f, ": lower the gate with --write-gate, so that this is kept")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::Sides;
    use super::*;

    fn verdict(now: f64) -> Verdict {
        let gate = Gate::parse("# what\noneway/8B 400.0 # both\n\n").unwrap();
        gate.judge(&figures("oneway/8B", now)).unwrap()
    }

    fn figures(case: &str, now: f64) -> Figures {
        Figures::of_sides(case, Sides { client: now / 2.0, server: now / 2.0 })
    }

    #[test]
    fn three_percent_are_allowed() {
        assert!(matches!(verdict(411.9), Verdict::Within { .. }));
        assert!(matches!(verdict(412.1), Verdict::Above { .. }));
        assert!(matches!(verdict(388.1), Verdict::Within { .. }));
        assert!(matches!(verdict(387.0), Verdict::FarBelow { .. }));
        assert!(verdict(440.0).to_string().contains("440.0, the gate is 400.0 (+10.0%)"));
        assert!(verdict(300.0).to_string().contains("lower the gate"));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let gate = Gate::of(&[figures("null/local", 400.5), figures("null/shared", 410.0)]);
        assert_eq!(Gate::parse(&gate.text()), Ok(gate));
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(Gate::parse("null/local\n").unwrap_err().contains("gate:1: `null/local`"));
        assert!(Gate::parse("null/local x\n").is_err());
        let gate = Gate::parse("null/local 400.0\nnull/shared 410.0\n").unwrap();
        assert_eq!(gate.covers(&[figures("null/shared", 1.0), figures("null/local", 1.0)]), Ok(()));
        let missing = gate.covers(&[figures("null/local", 400.0)]).unwrap_err();
        assert!(missing.contains("null/shared, which was not counted"), "{missing}");
        let unknown = Gate::parse("").unwrap().judge(&figures("null/shared", 1.0));
        assert!(unknown.unwrap_err().contains("does not know null/shared"));
    }
}
