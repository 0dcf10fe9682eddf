//! Shares of the instructions: percentages of all work, in the categories of a paper and beside its
//! figures. The recipe that maps functions to categories is `dev/xtask/instructions.categories`.

mod recipe;

use super::figures::{Counted, quoted, rounded};
use super::inlined::Frame;
use std::collections::BTreeMap;
use std::fmt::Write;

pub(crate) use recipe::Recipe;
use recipe::{Row, Taken};

/// A case in percent of all its instructions.
#[derive(Debug)]
pub(crate) struct Shares {
    case: String,
    /// Percent for each row of the recipe.
    rows: Vec<f64>,
    /// Percent in functions that the recipe does not know.
    other: BTreeMap<String, f64>,
    /// Instructions of a call.
    all: f64,
}

impl Shares {
    /// Nothing counted yet.
    pub(crate) fn new(case: String, recipe: &Recipe) -> Shares {
        Shares { case, rows: vec![0.0; recipe.rows.len()], other: BTreeMap::new(), all: 0.0 }
    }

    /// Adds one side of a call.
    pub(crate) fn add(
        &mut self,
        recipe: &Recipe,
        counted: &Counted,
        frames: &BTreeMap<u64, Vec<Frame>>,
    ) {
        let mut known = 0;
        for (address, cost) in &counted.profile.addresses {
            known += cost;
            let taken = recipe.take(frames.get(address).map_or(&[][..], Vec::as_slice));
            self.charge(taken, counted.per_call(*cost));
        }
        // Other objects, like the C library, have no addresses here.
        let elsewhere = counted.per_call(counted.profile.total - known);
        if elsewhere > 0.0 {
            self.charge(Taken::ByNobody("other objects".to_owned()), elsewhere);
        }
    }

    fn charge(&mut self, taken: Taken, cost: f64) {
        self.all += cost;
        match taken {
            Taken::By(row) => self.rows[row] += cost,
            Taken::ByNobody(function) => *self.other.entry(function).or_default() += cost,
        }
    }

    fn percent(&self, cost: f64) -> f64 {
        100.0 * cost / self.all
    }

    fn of_group(&self, recipe: &Recipe, group: usize) -> f64 {
        let rows = recipe.rows.iter().zip(&self.rows);
        self.percent(rows.filter(|(row, _)| row.group == group).map(|(_, cost)| cost).sum())
    }

    fn of_other(&self) -> f64 {
        // The sum of no numbers is negative zero.
        self.percent(self.other.values().sum::<f64>() + 0.0)
    }
}

/// Formats for people: paper and cases side by side.
pub(crate) fn table(recipe: &Recipe, all: &[Shares]) -> String {
    let mut text = String::from(
        "percent of all work: figure 3 of Scott, Cox: An Empirical Study of Message-Passing \
         Overhead, 1986\n",
    );
    let titles: String = all.iter().map(|shares| format!(" {:>12}", shares.case)).collect();
    let mut line = |name: &str, paper: Option<f64>, today: &dyn Fn(&Shares) -> Option<f64>| {
        let figure = |today: Option<f64>| today.map_or("-".to_owned(), |one| format!("{one:.1}"));
        let paper = figure(paper);
        let cell = |shares: &Shares| format!(" {:>12}", figure(today(shares)));
        let today: String = all.iter().map(cell).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<54} {paper:>6}{today}");
    };
    for (number, group) in recipe.groups.iter().enumerate() {
        line(&group.name, Some(group.paper), &|shares| Some(shares.of_group(recipe, number)));
        for (at, row) in recipe.rows.iter().enumerate().filter(|(_, row)| row.group == number) {
            let name = format!("  {}", row.name);
            line(&name, row.paper, &|shares| {
                recipe.has_rules(at).then(|| shares.percent(shares.rows[at]))
            });
        }
    }
    line("other: the recipe does not know it", None, &|shares| Some(shares.of_other()));
    let mut text = text.replacen('\n', &format!("\n{:<54} {:>6}{titles}\n", "", "paper"), 1);
    for shares in all {
        let _ = writeln!(text, "{}: {:.1} instructions a call", shares.case, shares.all);
        for (function, cost) in &shares.other {
            let _ = writeln!(text, "  other: {:.2}% {function}", shares.percent(*cost));
        }
    }
    text.push_str(
        "Without a figure of today are rows that have no instructions of their own: types are compared\n\
         when a session opens, a panic's table costs nothing until it is used, and what calls\n\
         and registers take is in the rows of the functions that they are for.\n",
    );
    text
}

/// Formats for programs: one object for each line and row.
pub(crate) fn json(recipe: &Recipe, all: &[Shares]) -> String {
    let mut text = String::new();
    for shares in all {
        let mut object = |group: &str, row: &str, paper: Option<f64>, today: f64| {
            let paper = paper.map_or(String::new(), |paper| {
                let ratio = (today > 0.0).then(|| format!(",\"ratio\":{}", rounded(paper / today)));
                format!(",\"paper\":{paper}{}", ratio.unwrap_or_default())
            });
            let _ = writeln!(
                text,
                "{{\"bench\":\"categories\",\"case\":{},\"group\":{},\"row\":{},\"unit\":\"percent\",\
                 \"today\":{}{paper}}}",
                quoted(&shares.case),
                quoted(group),
                quoted(row),
                rounded(today)
            );
        };
        let rows = recipe.rows.iter().zip(&shares.rows).enumerate();
        for (_, (Row { group, name, paper }, cost)) in rows.filter(|(at, _)| recipe.has_rules(*at))
        {
            object(&recipe.groups[*group].name, name, *paper, shares.percent(*cost));
        }
        for (function, cost) in &shares.other {
            object("other", function, None, shares.percent(*cost));
        }
    }
    text
}

#[cfg(test)]
mod tests;
