//! What carries a session of Upbeat: lanes in one process, lanes between processes.
