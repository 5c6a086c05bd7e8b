//! Authenticators over a store, without sockets.
