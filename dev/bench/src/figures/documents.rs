//! The documents with figures, and the marks in them.

use crate::error::Error;
use std::path::{Path, PathBuf};

/// The name of the first document.
pub(super) const README: &str = "README.md";

/// All documents with figures.
const DOCUMENTS: [&str; 2] = [README, "docs/papers.md"];

/// The line before the text that is written here.
pub(super) const BEGIN: &str = "<!-- FIGURES: written by `cargo xtask figures` -->";
/// The line behind it.
pub(super) const END: &str = "<!-- END OF FIGURES -->";

/// A document, with the places of its marks.
pub(super) struct Document {
    /// The path from the repository's root.
    pub(super) name: &'static str,
    path: PathBuf,
    text: String,
    begin: usize,
    end: usize,
}

/// Reads all documents.
pub(super) fn open(root: &Path) -> Result<Vec<Document>, Error> {
    DOCUMENTS.into_iter().map(|name| Document::open(root, name)).collect()
}

impl Document {
    fn open(root: &Path, name: &'static str) -> Result<Document, Error> {
        let path = root.join(name);
        let text = std::fs::read_to_string(&path).map_err(Error::document(name))?;
        let marks = marks(&text).ok_or_else(|| Error::Figures {
            text: format!("{name} needs the lines `{BEGIN}` and `{END}`, in this order and once"),
        })?;
        let (begin, end) = marks;
        Ok(Document { name, path, text, begin, end })
    }

    /// Returns the text between the marks.
    pub(super) fn between(&self) -> &str {
        &self.text[self.begin..self.end]
    }

    /// Writes another text between the marks.
    pub(super) fn write(&self, between: &str) -> Result<(), Error> {
        let (before, after) = (&self.text[..self.begin], &self.text[self.end..]);
        let text = format!("{before}{between}{after}");
        std::fs::write(&self.path, text).map_err(Error::document(self.name))
    }
}

/// Returns where the text between the marks begins and ends.
fn marks(text: &str) -> Option<(usize, usize)> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    let is_once = text.matches(BEGIN).count() == 1 && text.matches(END).count() == 1;
    is_once.then_some((begin, end))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, marks};

    #[test]
    fn marks_are_found_if_they_are_there_once() {
        let text = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let (begin, end) = marks(&text).unwrap();
        assert_eq!(&text[begin..end], "\nold\n");
        assert!(marks("nothing").is_none() && marks(&format!("{END}{BEGIN}")).is_none());
        assert!(marks(&format!("{text}{text}")).is_none());
    }
}
