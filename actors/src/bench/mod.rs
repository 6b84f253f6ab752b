//! Measurements that the product makes of itself.

pub mod bare;
pub mod exchange;
