//! Who may say it: the API server.
//!
//! [`exchange`] is the border between sockets and meaning: [`exchange::Request`] in, [`exchange::Answer`] out.

pub mod exchange;
