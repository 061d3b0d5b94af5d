//! The commands of `k3`, one file a command: arguments, and what they do with the rest of the house.

pub mod tok;
