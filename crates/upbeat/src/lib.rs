//! Typed calls between threads and processes for the price of a cache line.
