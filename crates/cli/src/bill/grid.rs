//! Formats text in columns, and numbers in text.

use std::io::{self, Write};

/// Writes rows of cells, with a title above each column. A title that begins with `>` aligns its column to the right.
pub(crate) fn grid(
    titles: &[&str],
    rows: &[Vec<String>],
    indent: &str,
    to: &mut impl Write,
) -> io::Result<()> {
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(titles[at].trim_start_matches('>').len())
    };
    let widths: Vec<usize> = (0..titles.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::from(indent);
        for ((title, cell), width) in titles.iter().zip(cells).zip(&widths) {
            let gap = if line.len() > indent.len() { "  " } else { "" };
            line += &match title.starts_with('>') {
                true => format!("{gap}{cell:>width$}"),
                false => format!("{gap}{cell:<width$}"),
            };
        }
        line.trim_end().to_owned()
    };
    writeln!(to, "{}", line(&mut titles.iter().map(|title| title.trim_start_matches('>'))))?;
    rows.iter().try_for_each(|row| writeln!(to, "{}", line(&mut row.iter().map(String::as_str))))
}

/// Formats a number with separators between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time with three digits, for a sentence.
pub(crate) fn brief(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    match value {
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

/// Returns the text with a capital first letter.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// Formats a percentage. A percentage between 0 and 0.1 is written as `<0.1%`.
pub(crate) fn percent(value: f64) -> String {
    match value {
        0.0 => "0%".into(),
        value if value.abs() < 0.1 => "<0.1%".into(),
        value => format!("{value:.1}%"),
    }
}

/// Formats a number with the singular or the plural of a noun.
pub(crate) fn counted(number: u64, one: &str, more: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_aligned_with_their_titles() {
        let mut text = Vec::new();
        let rows = [vec!["wire".into(), "9".into()], vec!["fl".into(), "1,234".into()]];
        grid(&["item", ">ns"], &rows, "  ", &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "  item     ns\n  wire      9\n  fl    1,234\n"
        );
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped).join(" "), "0 999 1,000 1,234,567");
        assert_eq!([0.0, 0.01, 12.34, -3.0].map(percent).join(" "), "0% <0.1% 12.3% -3.0%");
        assert_eq!(counted(1, "call", "calls"), "1 call");
        let times = [0.0, 4.456, 61.23, 310.4, 999.6, 61_230.0, 3.1e5, 2.5e9].map(brief);
        assert_eq!(
            times.join(", "),
            "0.00 ns, 4.46 ns, 61.2 ns, 310 ns, 1.00 us, 61.2 us, 310 us, 2.50 s"
        );
    }
}
