//! Shells of Resilin: actors, links, HTTP interface, supervisor.

pub mod bench;
pub mod link;
