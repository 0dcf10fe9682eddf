//! The ring against a plain queue.
