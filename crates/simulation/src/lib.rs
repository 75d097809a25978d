//! The real controller in virtual time: watches, index, planner, writers, lease, reports and Events run unchanged in one thread, on
//! a simulated hub, with simulated agents and a network whose faults follow from a seed.
//!
//! A run has three parts: a time in which faults happen, a repaired world in which everything must end within a bound, and a quiet
//! time in which nothing may change. Rules are judged by the hub's log, by requests, and by what clusters and processes themselves
//! know ([`oracle`]). The same seed gives the same trace in every process.

pub mod actor;
pub mod admin;
pub mod answers;
pub mod choice;
pub mod describe;
pub mod fault;
pub mod letter;
pub mod machines;
pub mod mutation;
pub mod names;
pub mod network;
pub mod options;
pub mod oracle;
mod panics;
pub mod people;
pub mod protection;
pub mod reading;
pub mod replica;
pub mod run;
pub mod story;
pub mod sweep;
pub mod time;
pub mod trace;
pub mod unprotected;
pub mod wire;
pub mod words;
pub mod world;
