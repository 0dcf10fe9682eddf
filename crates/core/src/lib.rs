//! Every decision of Upbeat and no I/O: frames, calls, limits, errors, the bill.
