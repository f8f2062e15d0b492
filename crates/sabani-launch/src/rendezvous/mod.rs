//! The library's own way for ranks to meet: a host that all are connected to, by socket pairs
//! (`sabani run`) or over TCP (rank 0 at a rendezvous address).
//!
//! The host knows who has come, keeps what they put, lets them go on when all have come to a fence,
//! and tells the others when a rank has ended.

mod client;
mod frames;
mod host;
mod output;
mod refusals;
mod server;
mod stream;

pub(crate) use client::Client;
pub use host::Host;
