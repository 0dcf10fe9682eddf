//! The stub compiler of Upbeat: service traits to clients and servers.
