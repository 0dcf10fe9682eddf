//! The cost of one case: instructions a call, for client, server and both, in all and by function.

use super::callgrind::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The instructions that callgrind counted on one side, and the number of calls.
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) profile: Profile,
}

impl Counted {
    /// A side that is not counted.
    pub(crate) fn nothing() -> Counted {
        Counted { calls: 1, profile: Profile::default() }
    }

    /// Returns these counts less the ones that `other` has in common, in as many calls.
    pub(crate) fn less(mut self, other: &Counted) -> Counted {
        self.profile.total = self.profile.total.saturating_sub(other.profile.total);
        for (name, cost) in &mut self.profile.functions {
            let common = other.profile.functions.get(name).copied().unwrap_or_default();
            *cost = cost.saturating_sub(common);
        }
        self.profile.functions.retain(|_, cost| *cost != 0);
        self
    }

    pub(super) fn per_call(&self, cost: u64) -> f64 {
        cost as f64 / self.calls as f64
    }
}

/// Instructions a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sides {
    pub(crate) client: f64,
    pub(crate) server: f64,
}

impl Sides {
    pub(crate) fn both(self) -> f64 {
        self.client + self.server
    }
}

/// A case.
#[derive(Debug)]
pub(crate) struct Figures {
    /// The name of the case, as a path.
    pub(crate) case: String,
    /// Calls during which each side was counted.
    n: u64,
    pub(crate) all: Sides,
    /// Functions, the most expensive first.
    functions: Vec<(String, Sides)>,
}

impl Figures {
    pub(crate) fn new(case: String, client: &Counted, server: &Counted) -> Figures {
        let mut functions: BTreeMap<String, Sides> = BTreeMap::new();
        for (name, cost) in &client.profile.functions {
            functions.entry(name.clone()).or_default().client = client.per_call(*cost);
        }
        for (name, cost) in &server.profile.functions {
            functions.entry(name.clone()).or_default().server = server.per_call(*cost);
        }
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by(|(_, one), (_, other)| other.both().total_cmp(&one.both()));
        let all = Sides {
            client: client.per_call(client.profile.total),
            server: server.per_call(server.profile.total),
        };
        Figures { case, n: client.calls.min(server.calls), all, functions }
    }

    /// A case of which only the sums are known.
    #[cfg(test)]
    pub(crate) fn of_sides(case: &str, all: Sides) -> Figures {
        Figures { case: case.into(), n: 1, all, functions: Vec::new() }
    }

    /// Formats for people. Functions of less than an instruction a call share one line, unless `every` is set.
    pub(crate) fn table(&self, every: bool) -> String {
        let mut text = format!("{:>9} {:>9} {:>9}  {}\n", "client", "server", "both", self.case);
        let mut row = |sides: Sides, name: &str| {
            let Sides { client, server } = sides;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{client:9.1} {server:9.1} {:9.1}  {name}", sides.both());
        };
        let (mut few, mut rest) = (0, Sides::default());
        for (name, sides) in &self.functions {
            if every || sides.both() >= 1.0 {
                row(*sides, name);
            } else {
                few += 1;
                rest.client += sides.client;
                rest.server += sides.server;
            }
        }
        if few > 0 {
            row(rest, &format!("({few} more, of less than one each)"));
        }
        row(self.all, "instructions a call");
        text.push('\n');
        text
    }

    /// Formats for programs: one object, without a newline.
    pub(crate) fn json(&self) -> String {
        let functions: Vec<String> = self
            .functions
            .iter()
            .map(|(name, sides)| format!("{{\"name\":{},{}}}", quoted(name), numbers(*sides)))
            .collect();
        format!(
            "{{\"bench\":\"instructions\",\"case\":{},\"n\":{},{},\"functions\":[{}]}}",
            quoted(&self.case),
            self.n,
            numbers(self.all),
            functions.join(",")
        )
    }
}

fn numbers(sides: Sides) -> String {
    let (client, server) = (rounded(sides.client), rounded(sides.server));
    format!("\"client\":{client},\"server\":{server},\"both\":{}", rounded(sides.both()))
}

/// Three decimals, as in the results of the benches.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for next in text.chars() {
        match next {
            '"' | '\\' => out.extend(['\\', next]),
            next if next < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(next));
            }
            next => out.push(next),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(calls: u64, costs: &[(&str, u64)]) -> Counted {
        let functions = costs.iter().map(|(name, cost)| ((*name).into(), *cost)).collect();
        let total = costs.iter().map(|(_, cost)| cost).sum();
        Counted { calls, profile: Profile { total, functions, ..Profile::default() } }
    }

    fn figures() -> Figures {
        let client = counted(10, &[("turn", 1000), ("poll", 505), ("seldom", 4)]);
        let server = counted(20, &[("turn", 1000), ("call \"\\", 2000)]);
        Figures::new("null/local".into(), &client, &server)
    }

    #[test]
    fn sides_meet_by_function() {
        let figures = figures();
        assert_eq!(figures.all, Sides { client: 150.9, server: 150.0 });
        let names: Vec<_> = figures.functions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["turn", "call \"\\", "poll", "seldom"]);
        assert_eq!(figures.functions[0].1, Sides { client: 100.0, server: 50.0 });
    }

    #[test]
    fn what_is_common_is_taken_off() {
        let all = counted(10, &[("turn", 1000), ("poll", 505), ("pipe", 90)]);
        let left = all.less(&counted(10, &[("turn", 10), ("pipe", 90)]));
        assert_eq!((left.calls, left.profile.total), (10, 1495));
        let functions: Vec<_> = left.profile.functions.into_iter().collect();
        assert_eq!(functions, [("poll".to_owned(), 505), ("turn".to_owned(), 990)]);
    }

    #[test]
    fn the_table_ends_with_the_sum() {
        let text = figures().table(false);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "    100.0      50.0     150.0  turn");
        assert_eq!(lines[4], "      0.4       0.0       0.4  (1 more, of less than one each)");
        assert_eq!(lines[5], "    150.9     150.0     300.9  instructions a call");
        assert!(figures().table(true).contains("seldom"));
    }

    #[test]
    fn an_object_is_one_line() {
        let text = figures().json();
        let start = "{\"bench\":\"instructions\",\"case\":\"null/local\",\"n\":10,\"client\":150.9,\
                     \"server\":150,\"both\":300.9,\"functions\":[{\"name\":\"turn\",\"client\":100,";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("{\"name\":\"call \\\"\\\\\",\"client\":0,"), "{text}");
        assert!(text.ends_with("]}") && !text.contains('\n'));
        assert_eq!(quoted("a\tb"), "\"a\\u0009b\"");
    }
}
