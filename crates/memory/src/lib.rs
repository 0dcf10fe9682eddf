//! Shared bytes for Upbeat: segments, rings, lanes, pools, node page, board, counters.
