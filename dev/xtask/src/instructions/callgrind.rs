//! Reads what callgrind writes: the cost of each function itself, without what it calls.
//!
//! A profile is a list of lines. `fn=(12) name` begins a function, or `fn=(12)` once its name is
//! known; a line that begins with a position holds a cost; `calls=` stands before a line with
//! the cost of the callee, which is counted there. The sum is held against the profile's own.

use std::collections::BTreeMap;

/// The costs that callgrind counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) total: u64,
    /// By name. Functions of one name are one.
    pub(crate) functions: BTreeMap<String, u64>,
    /// By address, where the profile has addresses: those of the program itself.
    pub(crate) addresses: BTreeMap<u64, u64>,
}

impl Profile {
    pub(crate) fn read(text: &str) -> Result<Profile, String> {
        let mut reader = Reader { positions: 1, ..Reader::default() };
        for (index, line) in text.lines().enumerate() {
            reader
                .line(line)
                .map_err(|what| format!("callgrind's output, line {}: {what}", index + 1))?;
        }
        reader.finish()
    }
}

#[derive(Default)]
struct Reader {
    /// Numbers in front of the costs of a line.
    positions: usize,
    names: BTreeMap<u64, String>,
    current: Option<String>,
    /// The next cost is a callee's.
    of_callee: bool,
    /// Whether lines begin with addresses, and the last of the addresses.
    by_address: bool,
    address: u64,
    /// The objects by number, and whether the lines that follow are of the program: of the object that was
    /// run first, whose name the profile begins with.
    objects: BTreeMap<u64, String>,
    program: String,
    in_program: bool,
    totals: Option<u64>,
    profile: Profile,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            return self.cost(line);
        }
        if let Some(name) = line.strip_prefix("fn=") {
            self.current = Some(self.name(name)?);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            self.name(name)?;
        } else if line.starts_with("calls=") {
            self.of_callee = true;
        } else if let Some(object) = line.strip_prefix("ob=") {
            self.in_program = self.object(object)?;
        } else if let Some(object) = line.strip_prefix("cob=") {
            self.object(object)?;
        } else if let Some(command) = line.strip_prefix("cmd:") {
            let program = command.split_whitespace().next().unwrap_or_default();
            self.program = last(program).to_owned();
        } else if let Some(positions) = line.strip_prefix("positions:") {
            self.positions = positions.split_whitespace().count();
            self.by_address = positions.split_whitespace().next() == Some("instr");
        } else if let Some(events) = line.strip_prefix("events:") {
            if events.split_whitespace().next() != Some("Ir") {
                return Err(format!("instructions (Ir) come first, not `{}`", events.trim()));
            }
        } else if let Some(totals) = line.strip_prefix("totals:") {
            self.totals = Some(number(totals.split_whitespace().next().unwrap_or_default())?);
        }
        Ok(())
    }

    fn cost(&mut self, line: &str) -> Result<(), String> {
        // A line without a cost means a cost of zero.
        let cost = line.split_whitespace().nth(self.positions).map_or(Ok(0), number)?;
        if self.by_address {
            self.move_to(line.split_whitespace().next().unwrap_or_default())?;
        }
        if std::mem::take(&mut self.of_callee) {
            return Ok(());
        }
        let Some(name) = &self.current else {
            return Err("a cost before any function".into());
        };
        self.profile.total += cost;
        if self.by_address && self.in_program && cost > 0 {
            *self.profile.addresses.entry(self.address).or_default() += cost;
        }
        *self.profile.functions.entry(name.clone()).or_default() += cost;
        Ok(())
    }

    /// Reads `0x1f`, `+3`, `-3` or `*`, which repeats the last position.
    fn move_to(&mut self, position: &str) -> Result<(), String> {
        let (sign, digits) = match position.as_bytes().first() {
            Some(b'*') => return Ok(()),
            Some(sign @ (b'+' | b'-')) => (Some(*sign), &position[1..]),
            _ => (None, position),
        };
        let by = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| format!("`{hex}` is no address")),
            None => number(digits),
        }?;
        self.address = match sign {
            Some(b'+') => self.address.wrapping_add(by),
            Some(_) => self.address.wrapping_sub(by),
            None => by,
        };
        Ok(())
    }

    /// Reads the name of an object, or its number. Returns whether the object is the program.
    fn object(&mut self, text: &str) -> Result<bool, String> {
        let Some((id, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
            return Ok(last(text) == self.program);
        };
        let id = number(id)?;
        if !name.trim().is_empty() {
            self.objects.insert(id, last(name.trim()).to_owned());
        }
        Ok(self.objects.get(&id) == Some(&self.program))
    }

    /// Reads `(12) name`, `(12)` or `name`.
    fn name(&mut self, text: &str) -> Result<String, String> {
        let Some((id, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
            return Ok(plain(text).into());
        };
        let Ok(id) = id.parse() else {
            return Ok(plain(text).into());
        };
        match name.trim() {
            "" => {
                let known = self.names.get(&id).cloned();
                known.ok_or_else(|| format!("function {id} has no name"))
            }
            name => {
                self.names.insert(id, plain(name).into());
                Ok(plain(name).into())
            }
        }
    }

    fn finish(mut self) -> Result<Profile, String> {
        let (read, said) = (self.profile.total, self.totals);
        if said != Some(read) {
            let said = said.map_or("nothing".into(), |said| said.to_string());
            return Err(format!("callgrind's output adds up to {read}, but its total says {said}"));
        }
        self.profile.functions.retain(|_, cost| *cost > 0);
        Ok(self.profile)
    }
}

/// The last word of a path.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// A name without the depth of a recursion and the compiler's hash.
fn plain(name: &str) -> &str {
    let name = match name.rsplit_once('\'') {
        Some((name, depth)) if depth.parse::<u32>().is_ok() => name,
        _ => name,
    };
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && u64::from_str_radix(hash, 16).is_ok() => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# callgrind format
version: 1
cmd:  outside local client
desc: Timerange: Basic block 0 - 823686

positions: line
events: Ir
summary: 126

ob=(1) /lib/ld.so
fl=(1) ???
fn=(0) 0x000000000001ab70
cob=(6) outside
cfi=(1)
cfn=(7) outside::measured_turn
calls=1 0
0 126

fn=(7)
0 6
+3 4
cfn=(8) upbeat::node::Node::turn::h0123456789abcdef
calls=2 0
0 116

fn=(8)
fi=(2) inlined.rs
* 50
-2 40
fe=(1)
0
cfn=(8)
calls=1 0
* 26
fn=(9) upbeat::node::Node::turn::h0123456789abcdef'2
0 26

totals: 126
";

    #[test]
    fn own_costs_are_added_up_by_name() {
        let profile = Profile::read(TEXT).unwrap();
        let functions: Vec<_> =
            profile.functions.iter().map(|(name, cost)| (name.as_str(), *cost)).collect();
        assert_eq!(functions, [("outside::measured_turn", 10), ("upbeat::node::Node::turn", 116)]);
        assert_eq!(profile.total, 126);
        assert!(profile.addresses.is_empty());
    }

    #[test]
    fn more_positions_and_events_may_stand_in_a_line() {
        let text =
            "positions: instr line\nevents: Ir Dr\nfn=f\n0x10 3 7 1\n0x20 4 5\ntotals: 12 1\n";
        assert_eq!(Profile::read(text).unwrap().functions["f"], 12);
        let swapped = text.replace("Ir Dr", "Dr Ir");
        assert!(Profile::read(&swapped).unwrap_err().contains("line 2"));
    }

    #[test]
    fn addresses_are_of_the_program_itself() {
        let text = "cmd: ./outside local\npositions: instr\nevents: Ir\nob=(1) /lib/ld.so\nfn=f\n\
                    0x10 3\nob=(2) /x/outside\nfn=g\n0x20 4\n+5 1\ncalls=1 0x10\n* 3\n-0x1 2\n\
                    ob=(1)\nfn=f\n0x20 1\nob=(2)\nfn=h\n0x20 6\ntotals: 17\n";
        let profile = Profile::read(text).unwrap();
        let addresses: Vec<(u64, u64)> = profile.addresses.into_iter().collect();
        assert_eq!(addresses, [(0x20, 10), (0x24, 2), (0x25, 1)]);
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let off = TEXT.replace("totals: 126", "totals: 127");
        assert!(Profile::read(&off).unwrap_err().contains("adds up to 126"));
        let cut = TEXT.replace("totals: 126", "");
        assert!(Profile::read(&cut).unwrap_err().contains("nothing"));
        assert!(Profile::read("0 5\n").unwrap_err().contains("before any function"));
        assert!(Profile::read("fn=(3)\n").unwrap_err().contains("has no name"));
        assert!(Profile::read("fn=f\n0 many\n").unwrap_err().contains("`many`"));
    }

    #[test]
    fn names_lose_hash_and_depth_only() {
        assert_eq!(plain("a::b::h0123456789abcdef'2"), "a::b");
        assert_eq!(plain("a::hash"), "a::hash");
        assert_eq!(plain("<a::B<'_> as c::D>::e"), "<a::B<'_> as c::D>::e");
        assert_eq!(plain("(below main)"), "(below main)");
    }
}
