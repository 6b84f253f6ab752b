//! Faults for real processes: a plan as data, drawn from a seed or read from a file, and a proxy
//! that spoils links. Who starts and signals the processes is the supervisor (`resilin-actors`).
//!
//! - [`plan`]: what goes wrong and when; no clock, no process;
//! - [`draw`]: a plan from a seed;
//! - [`text`]: a plan as a TOML file, and the one line that says what is wrong with it;
//! - [`proxy`]: a TCP proxy whose links are cut, silenced, slowed and delayed.

pub mod draw;
pub mod plan;
pub mod proxy;
pub mod text;
