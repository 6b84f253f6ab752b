//! Resilin.
