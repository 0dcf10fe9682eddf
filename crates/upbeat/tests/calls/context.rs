//! Tests of the context of calls, of layers around a service, and of the limit on handlers that run at once.

mod carried;
mod layers;
