//! The memory of a process as the system reports it, in kibibytes.

/// Returns the number in the line of a file that begins with `head`.
pub fn line(path: &str, head: &str) -> Option<f64> {
    let text = std::fs::read_to_string(path).ok()?;
    number(&text, head)
}

fn number(text: &str, head: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(head))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_found_by_the_first_words_of_their_lines() {
        let text = "Rss:  900 kB\nPss:    \t 431 kB\nPss_Anon: 7 kB\n";
        assert_eq!(number(text, "Pss:"), Some(431.0));
        assert_eq!(number(text, "Swap:"), None);
    }
}
